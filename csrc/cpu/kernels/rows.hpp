// Kernels on one row: RMSNorm, residual add, gated activation, rotary embedding, conversions.
#pragma once

#include "math.hpp"

namespace vllm_rs {
namespace {

void add_row(float* x, const void* add, DType add_dtype, int cols) {
  for (int i = 0; i < cols; i += 16)
    Vec::store_n(x + i, Vec::add(Vec::load_n(x + i, cols - i), load_row(add, add_dtype, i, cols - i)),
                 cols - i);
}

void rms_norm_row(RowOut out, float* x, const void* add, DType add_dtype, const float* weight, int cols,
                  float eps) {
  if (add != nullptr)
    add_row(x, add, add_dtype, cols);
  Vec::F sums[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  for (int i = 0; i < cols; i += 64)
    for (int j = 0; j < 4; ++j) {
      const Vec::F v = Vec::load_n(x + i + 16 * j, cols - i - 16 * j);
      sums[j] = Vec::fma(v, v, sums[j]);
    }
  const float total = Vec::sum(Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])));
  const Vec::F scale = Vec::set1(1.0F / __builtin_sqrtf(total / static_cast<float>(cols) + eps));
  for (int i = 0; i < cols; i += 16) {
    const Vec::F scaled = Vec::mul(Vec::load_n(x + i, cols - i), scale);
    store_row(out.data, out.dtype, i, Vec::mul(scaled, Vec::load_n(weight + i, cols - i)), cols - i);
  }
  zero_row_tail(out, cols);
}

void silu_mul_row(RowOut out, const void* gate_up, DType dtype, int cols) {
  const void* up = static_cast<const std::byte*>(gate_up) + cols * size_of(dtype);
  const Vec::F one = Vec::set1(1.0F);
  for (int i = 0; i < cols; i += 16) {
    const Vec::F gate = load_row(gate_up, dtype, i, cols - i);
    const Vec::F denominator = Vec::add(one, exp(Vec::sub(Vec::zero(), gate)));
    const Vec::F product = Vec::mul(Vec::div(gate, denominator), load_row(up, dtype, i, cols - i));
    store_row(out.data, out.dtype, i, product, cols - i);
  }
  zero_row_tail(out, cols);
}

void rope_row(float* heads, int num_heads, int head_dim, const float* cos_sin, int rotary_dim) {
  const int half = rotary_dim / 2;
  for (int head = 0; head < num_heads; ++head) {
    float* first = heads + static_cast<int64_t>(head) * head_dim;
    float* second = first + half;
    for (int i = 0; i < half; i += 16) {
      const int n = half - i;
      const Vec::F cosine = Vec::load_n(cos_sin + i, n);
      const Vec::F sine = Vec::load_n(cos_sin + half + i, n);
      const Vec::F a = Vec::load_n(first + i, n);
      const Vec::F b = Vec::load_n(second + i, n);
      Vec::store_n(first + i, Vec::sub(Vec::mul(a, cosine), Vec::mul(b, sine)), n);
      Vec::store_n(second + i, Vec::fma(b, cosine, Vec::mul(a, sine)), n);
    }
  }
}

void to_f32_row(float* out, const uint16_t* in, int n) {
  for (int i = 0; i < n; i += 16)
    Vec::store_n(out + i, Vec::load_bf16_n(in + i, n - i), n - i);
}

void to_bf16_row(uint16_t* out, const float* in, int n) {
  for (int i = 0; i < n; i += 16)
    Vec::store_bf16_n(out + i, Vec::load_n(in + i, n - i), n - i);
}

} // namespace
} // namespace vllm_rs
