// The inner step of every matrix product, and the register tile built from it.
//
// One step consumes 4 bytes of each row of A (a pair of bf16, or one f32) and 64 bytes of each vector of B
// (16 columns). An output element is one chain of steps in order of k, whatever MR, NR or the caller's
// blocking: that is what makes results independent of the batch.
#pragma once

#include "math.hpp"

namespace vllm_rs {
namespace {

struct DotF32 {
  using A = Vec::F;
  using B = Vec::F;
  using Element = float;
  static constexpr DType dtype = DType::f32;
  static constexpr int k_per_step = 1;
  VLLM_RS_INLINE static A load_a(const std::byte* p) {
    float value;
    __builtin_memcpy(&value, p, sizeof(value));
    return Vec::set1(value);
  }
  VLLM_RS_INLINE static B load_b(const std::byte* p) { return Vec::load(reinterpret_cast<const float*>(p)); }
  VLLM_RS_INLINE static Vec::F step(Vec::F acc, const A& a, const B& b) { return Vec::fma(a, b, acc); }
};

// bf16 without the instruction: widened exactly, two multiply-adds per pair.
struct DotBf16Widened {
  using A = Vec::Pair;
  using B = Vec::Pair;
  using Element = uint16_t;
  static constexpr DType dtype = DType::bf16;
  static constexpr int k_per_step = 2;
  VLLM_RS_INLINE static A load_a(const std::byte* p) { return Vec::broadcast_pair(p); }
  VLLM_RS_INLINE static B load_b(const std::byte* p) { return Vec::load_pairs(p); }
  VLLM_RS_INLINE static Vec::F step(Vec::F acc, const A& a, const B& b) {
    return Vec::fma(a.odd, b.odd, Vec::fma(a.even, b.even, acc));
  }
};

#if defined(__AVX512BF16__)
struct DotBf16Native {
  using A = __m512bh;
  using B = __m512bh;
  using Element = uint16_t;
  static constexpr DType dtype = DType::bf16;
  static constexpr int k_per_step = 2;
  VLLM_RS_INLINE static A load_a(const std::byte* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  VLLM_RS_INLINE static B load_b(const std::byte* p) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
  VLLM_RS_INLINE static Vec::F step(Vec::F acc, const A& a, const B& b) {
    return _mm512_dpbf16_ps(acc, a, b);
  }
};
#endif

// acc[m][n] continues its chain over `steps` steps: rows of A a_stride bytes apart, vectors of B at b[n] + s
// * b_step.
// With Ahead, B's bytes at distance `ahead` are fetched into the second-level cache meanwhile.
template <class Dot, int MR, int NR, bool Ahead = false>
VLLM_RS_INLINE void accumulate(Vec::F (&acc)[MR][NR], const std::byte* a, int64_t a_stride,
                               const std::byte* const (&b)[NR], int64_t b_step, int steps,
                               int64_t ahead = 0) {
  for (int s = 0; s < steps; ++s) {
    typename Dot::B columns[NR];
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      columns[n] = Dot::load_b(b[n] + s * b_step);
    if constexpr (Ahead) {
#pragma GCC unroll 16
      for (int n = 0; n < NR; ++n)
        __builtin_prefetch(b[n] + s * b_step + ahead, 0, 2);
    }
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const typename Dot::A row = Dot::load_a(a + m * a_stride + s * 4);
#pragma GCC unroll 16
      for (int n = 0; n < NR; ++n)
        acc[m][n] = Dot::step(acc[m][n], row, columns[n]);
    }
  }
}

} // namespace
} // namespace vllm_rs
