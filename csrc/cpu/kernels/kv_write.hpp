// Writes K and V of one or two neighbouring tokens into one block of the cache.
//
// V of the bf16 cache lies in pairs of slots, and products read whole pairs. Who writes an even slot alone
// leaves its neighbour as it was but finite, so that a stale NaN never meets a probability of zero.
// Neighbours in one step are written by one thread.
#pragma once

#include "math.hpp"

#include "vllm_rs/kv_layout.hpp"

namespace vllm_rs {
namespace {

void write_k(const KvLayout& layout, std::byte* block, int slot, const float* k) {
  const int64_t step =
      int64_t{layout.group()} * 4; // bytes from one pair of dims (bf16) or one dim (f32) to the next
  for (int head = 0; head < layout.num_kv_heads; ++head) {
    std::byte* out = block + layout.k_at(head, slot, 0);
    const float* in = k + static_cast<int64_t>(head) * layout.head_dim;
    if (layout.dtype == DType::f32) {
      for (int d = 0; d < layout.head_dim; ++d)
        __builtin_memcpy(out + d * step, in + d, 4);
      continue;
    }
    for (int d = 0; d < layout.head_dim; d += 16) {
      uint16_t lanes[16];
      const int n = layout.head_dim - d;
      Vec::store_bf16(lanes, Vec::load_n(in + d, n));
      for (int i = 0; i < 16 && i < n; i += 2)
        __builtin_memcpy(out + (d + i) / 2 * step, lanes + i, 4);
    }
  }
}

Vec::F finite_neighbour(const std::byte* pairs) {
  constexpr float largest = 0x1.FEp127F; // of bf16
  const Vec::F stale = Vec::load_pairs(pairs).odd;
  return Vec::min(Vec::max(stale, Vec::set1(-largest)),
                  Vec::set1(largest)); // max maps NaN to its second operand
}

void write_v(const KvLayout& layout, std::byte* block, int slot, const float* v, const float* next_v) {
  for (int head = 0; head < layout.num_kv_heads; ++head) {
    std::byte* out = block + layout.v_at(head, slot, 0);
    const int64_t offset = static_cast<int64_t>(head) * layout.head_dim;
    for (int d = 0; d < layout.head_dim; d += 16) {
      const int n = layout.head_dim - d;
      const Vec::F value = Vec::load_n(v + offset + d, n);
      if (layout.dtype == DType::f32) {
        Vec::store_n(reinterpret_cast<float*>(out) + d, value, n);
      } else if (slot % 2 == 0) {
        const Vec::F next =
            next_v != nullptr ? Vec::load_n(next_v + offset + d, n) : finite_neighbour(out + 4 * d);
        Vec::store_bf16_pairs(reinterpret_cast<uint16_t*>(out) + 2 * d, value, next, n);
      } else {
        uint16_t lanes[16];
        Vec::store_bf16(lanes, value);
        for (int i = 0; i < 16 && i < n; ++i)
          __builtin_memcpy(out + 4 * (d + i), lanes + i, 2);
      }
    }
  }
}

void kv_write(const KvLayer& kv, std::byte* block, int slot, const float* k, const float* v,
              const float* next_k, const float* next_v, int num_kv_heads, int head_dim) {
  const KvLayout layout{kv.block_size, num_kv_heads, head_dim, kv.dtype};
  write_k(layout, block, slot, k);
  write_v(layout, block, slot, v, next_v);
  if (next_k == nullptr)
    return;
  write_k(layout, block, slot + 1, next_k);
  if (layout.dtype == DType::f32)
    write_v(layout, block, slot + 1, next_v, nullptr);
}

} // namespace
} // namespace vllm_rs
