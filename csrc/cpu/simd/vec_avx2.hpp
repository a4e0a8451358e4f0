// Sixteen f32 lanes in two AVX2 registers (AVX2, FMA).
#pragma once

#include "vllm_rs/dtype.hpp"

#include <immintrin.h>

namespace vllm_rs {
namespace {

struct Vec {
  static constexpr bool many_registers = false; // 32 vectors rather than 8: shapes the register tiles
  struct F {
    __m256 lo, hi;
  };

  static __m256i lane_mask(int n) { // all ones in lanes below n
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F set1(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
  static F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static F load_n(const float* p, int n, float fill = 0.0F) {
    const F raw = {_mm256_maskload_ps(p, lane_mask(n)), _mm256_maskload_ps(p + 8, lane_mask(n - 8))};
    return keep_lanes(raw, 0, n, fill);
  }
  static void store(float* p, F v) {
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
  }
  static void store_n(float* p, F v, int n) {
    _mm256_maskstore_ps(p, lane_mask(n), v.lo);
    _mm256_maskstore_ps(p + 8, lane_mask(n - 8), v.hi);
  }
  static __m256 widen(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  static F load_bf16(const uint16_t* p) {
    return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static F load_bf16_n(const uint16_t* p, int n) {
    uint16_t raw[16] = {};
    for (int i = 0; i < n && i < 16; ++i)
      raw[i] = p[i];
    return load_bf16(raw);
  }
  static __m256i narrow32(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  }
  static void store_bf16(uint16_t* p, F v) {
    const __m256i packed = _mm256_packus_epi32(narrow32(v.lo), narrow32(v.hi));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
  }
  static void store_bf16_n(uint16_t* p, F v, int n) {
    if (n >= 16) {
      store_bf16(p, v);
      return;
    }
    uint16_t raw[16];
    store_bf16(raw, v);
    for (int i = 0; i < n; ++i)
      p[i] = raw[i];
  }
  static void store_bf16_pairs(uint16_t* p, F even, F odd, int n) {
    const __m256i lo = _mm256_or_si256(narrow32(even.lo), _mm256_slli_epi32(narrow32(odd.lo), 16));
    const __m256i hi = _mm256_or_si256(narrow32(even.hi), _mm256_slli_epi32(narrow32(odd.hi), 16));
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p), lane_mask(n), lo);
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p) + 8, lane_mask(n - 8), hi);
  }
  static F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static F fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static F round(F a) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, mode), _mm256_round_ps(a.hi, mode)};
  }
  static __m256 pow2_8(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static F pow2(F n) { return {pow2_8(n.lo), pow2_8(n.hi)}; }
  static F keep_at_least(F value, F x, float bound) {
    const __m256 b = _mm256_set1_ps(bound);
    return {_mm256_and_ps(value.lo, _mm256_cmp_ps(x.lo, b, _CMP_GE_OQ)),
            _mm256_and_ps(value.hi, _mm256_cmp_ps(x.hi, b, _CMP_GE_OQ))};
  }
  static __m256 keep8(__m256 x, int first, int last, __m256 fill) {
    const __m256i mask = _mm256_andnot_si256(lane_mask(first), lane_mask(last));
    return _mm256_blendv_ps(fill, x, _mm256_castsi256_ps(mask));
  }
  static F keep_lanes(F x, int first, int last, float fill) {
    const __m256 f = _mm256_set1_ps(fill);
    return {keep8(x.lo, first, last, f), keep8(x.hi, first - 8, last - 8, f)};
  }
  static float sum(F a) {
    const __m256 t = _mm256_add_ps(a.lo, a.hi);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float max_lane(F a) {
    const __m256 t = _mm256_max_ps(a.lo, a.hi);
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
  static double sum_f64(F a) {
    const __m256d low = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)),
                                      _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)));
    const __m256d high = _mm256_add_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1)),
                                       _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1)));
    const __m256d t = _mm256_add_pd(low, high);
    const __m128d u = _mm_add_pd(_mm256_castpd256_pd128(t), _mm256_extractf128_pd(t, 1));
    return _mm_cvtsd_f64(_mm_add_sd(u, _mm_unpackhi_pd(u, u)));
  }
  static uint32_t movemask(__m256 lo, __m256 hi) {
    return static_cast<uint32_t>(_mm256_movemask_ps(lo)) |
           (static_cast<uint32_t>(_mm256_movemask_ps(hi)) << 8);
  }
  static uint32_t mask_greater(F a, F b) {
    return movemask(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ));
  }
  static uint32_t mask_equal(F a, F b) {
    return movemask(_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ));
  }
  struct Pair {
    F even, odd;
  };
  static Pair widen_pairs(__m256i lo, __m256i hi) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
    return {
        {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))},
        {_mm256_castsi256_ps(_mm256_and_si256(lo, upper)), _mm256_castsi256_ps(_mm256_and_si256(hi, upper))}};
  }
  static Pair load_pairs(const std::byte* p) {
    return widen_pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + 1));
  }
  static Pair broadcast_pair(const std::byte* p) {
    int32_t raw;
    __builtin_memcpy(&raw, p, sizeof(raw));
    const __m256i both = _mm256_set1_epi32(raw);
    return widen_pairs(both, both);
  }
};

} // namespace
} // namespace vllm_rs
