// Sixteen f32 lanes in one AVX-512 register (F, BW, DQ, VL).
#pragma once

#include "vllm_rs/dtype.hpp"

#include <immintrin.h>

namespace vllm_rs {
namespace {

struct Vec {
  static constexpr bool many_registers = true; // 32 vectors rather than 8: shapes the register tiles
  using F = __m512;

  static __mmask16 first_lanes(int n) {
    return n >= 16 ? 0xffff : static_cast<__mmask16>((1U << (n < 0 ? 0 : n)) - 1);
  }
  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float v) { return _mm512_set1_ps(v); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load_n(const float* p, int n, float fill = 0.0F) {
    return _mm512_mask_loadu_ps(set1(fill), first_lanes(n), p);
  }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void store_n(float* p, F v, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
  static F widen(__m256i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)); }
  static F load_bf16(const uint16_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16_n(const uint16_t* p, int n) {
    return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p));
  }
  // Rounded to nearest even, in the low half of each 32-bit lane; NaN stays NaN.
  static __m512i narrow32(F v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_srli_epi32(_mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000)), 16);
  }
  static __m256i narrow(F v) { return _mm512_cvtepi32_epi16(narrow32(v)); }
  static void store_bf16(uint16_t* p, F v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(v)); }
  static void store_bf16_n(uint16_t* p, F v, int n) {
    _mm256_mask_storeu_epi16(p, first_lanes(n), narrow(v));
  }
  static void store_bf16_pairs(uint16_t* p, F even, F odd, int n) {
    const __m512i pairs = _mm512_or_si512(narrow32(even), _mm512_slli_epi32(narrow32(odd), 16));
    _mm512_mask_storeu_epi32(p, first_lanes(n), pairs);
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F pow2(F n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
  static F keep_at_least(F value, F x, float bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, set1(bound), _CMP_GE_OQ), value);
  }
  static F keep_lanes(F x, int first, int last, float fill) {
    return _mm512_mask_mov_ps(set1(fill), first_lanes(last) & static_cast<__mmask16>(~first_lanes(first)), x);
  }
  static float sum(F a) {
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
  }
  static float sum8(__m256 a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float max_lane(F a) { return _mm512_reduce_max_ps(a); }
  static double sum_f64(F a) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    const __m512d s = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)));
    const __m256d t = _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd(s, 1));
    const __m128d u = _mm_add_pd(_mm256_castpd256_pd128(t), _mm256_extractf128_pd(t, 1));
    return _mm_cvtsd_f64(_mm_add_sd(u, _mm_unpackhi_pd(u, u)));
  }
  static uint32_t mask_greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  static uint32_t mask_equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  struct Pair {
    F even, odd;
  };
  static Pair widen_pairs(__m512i raw) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(raw, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(raw, _mm512_set1_epi32(static_cast<int>(0xffff0000U))))};
  }
  static Pair load_pairs(const std::byte* p) { return widen_pairs(_mm512_loadu_si512(p)); }
  static Pair broadcast_pair(const std::byte* p) {
    int32_t raw;
    __builtin_memcpy(&raw, p, sizeof(raw));
    return widen_pairs(_mm512_set1_epi32(raw));
  }
};

} // namespace
} // namespace vllm_rs
