// exp and row loads shared by the kernels; one polynomial for every use, so that equal inputs give equal
// bits.
#pragma once

#include "vllm_rs/kernels.hpp"

namespace vllm_rs {
namespace {

constexpr float exp_lowest = -87.33654F; // below: 0
constexpr float exp_highest = 88.02969F; // above: clamped

// Cephes' expf: 2^n times a polynomial of the remainder; 2 units in the last place.
VLLM_RS_INLINE Vec::F exp(Vec::F x) {
  const Vec::F clamped = Vec::min(Vec::max(x, Vec::set1(exp_lowest)), Vec::set1(exp_highest));
  const Vec::F n = Vec::round(Vec::mul(clamped, Vec::set1(1.44269504F)));
  Vec::F r = Vec::fma(n, Vec::set1(-0.693359375F), clamped);
  r = Vec::fma(n, Vec::set1(2.12194440e-4F), r);
  Vec::F p = Vec::set1(1.9875691500e-4F);
  p = Vec::fma(p, r, Vec::set1(1.3981999507e-3F));
  p = Vec::fma(p, r, Vec::set1(8.3334519073e-3F));
  p = Vec::fma(p, r, Vec::set1(4.1665795894e-2F));
  p = Vec::fma(p, r, Vec::set1(1.6666665459e-1F));
  p = Vec::fma(p, r, Vec::set1(5.0000001201e-1F));
  p = Vec::fma(p, Vec::mul(r, r), Vec::add(r, Vec::set1(1.0F)));
  return Vec::keep_at_least(Vec::mul(p, Vec::pow2(n)), x, exp_lowest);
}

VLLM_RS_INLINE Vec::F load_row(const void* row, DType dtype, int first, int n) {
  if (dtype == DType::f32)
    return Vec::load_n(static_cast<const float*>(row) + first, n);
  return Vec::load_bf16_n(static_cast<const uint16_t*>(row) + first, n);
}

VLLM_RS_INLINE void store_row(void* row, DType dtype, int first, Vec::F value, int n) {
  if (dtype == DType::f32)
    Vec::store_n(static_cast<float*>(row) + first, value, n);
  else
    Vec::store_bf16_n(static_cast<uint16_t*>(row) + first, value, n);
}

// Dot products read bf16 rows in whole groups of 32: what lies beyond the columns must be zero, not stale.
VLLM_RS_INLINE void zero_row_tail(RowOut out, int cols) {
  if (out.dtype != DType::bf16)
    return;
  for (int64_t i = cols; i < round_up(cols, 32); ++i)
    static_cast<uint16_t*>(out.data)[i] = 0;
}

} // namespace
} // namespace vllm_rs
