#include "vllm_rs/kv_cache.hpp"

#include "vllm_rs/check.hpp"

#include <cstring>

namespace vllm_rs {
namespace {

KvLayout checked_layout(int block_size, int num_kv_heads, int head_dim, DType dtype) {
  check_range("block_size", block_size, 8, 1 << 16);
  if (block_size % 8 != 0)
    bad_argument("block_size", "a multiple of 8", block_size);
  check_range("num_kv_heads", num_kv_heads, 1, 1 << 12);
  check_range("head_dim", head_dim, 2, 1 << 12);
  if (head_dim % 2 != 0)
    bad_argument("head_dim", "an even number", head_dim);
  return {block_size, num_kv_heads, head_dim, dtype};
}

size_t total_bytes(int num_layers, int64_t num_blocks, const KvLayout& layout) {
  check_range("num_layers", num_layers, 1, 1 << 14);
  constexpr int64_t most_bytes = int64_t{1} << 46; // user address space is 2^47
  check_range("num_blocks", num_blocks, 1, most_bytes / (layout.bytes() * num_layers));
  return static_cast<size_t>(layout.bytes() * num_layers * num_blocks);
}

float load(const std::byte* p, DType dtype) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  uint16_t value;
  std::memcpy(&value, p, 2);
  return bf16_to_f32(value);
}

void store(std::byte* p, DType dtype, float value) {
  if (dtype == DType::f32) {
    std::memcpy(p, &value, 4);
    return;
  }
  const uint16_t rounded = f32_to_bf16(value);
  std::memcpy(p, &rounded, 2);
}

// Calls fn(element index in [slot][head][dim] order, K offset, V offset).
template <class Fn>
void for_each_element(const KvLayout& layout, Fn&& fn) {
  int64_t element = 0;
  for (int slot = 0; slot < layout.block_size; ++slot)
    for (int head = 0; head < layout.num_kv_heads; ++head)
      for (int dim = 0; dim < layout.head_dim; ++dim)
        fn(element++, layout.k_at(head, slot, dim), layout.v_at(head, slot, dim));
}

} // namespace

KVCache::KVCache(int num_layers, int64_t num_blocks, int block_size, int num_kv_heads, int head_dim,
                 DType dtype)
    : num_layers_(num_layers), num_blocks_(num_blocks),
      layout_(checked_layout(block_size, num_kv_heads, head_dim, dtype)),
      memory_(total_bytes(num_layers, num_blocks, layout_)) {}

void KVCache::read(int layer, int64_t block, float* k, float* v) const {
  check_range("layer", layer, 0, num_layers_ - 1);
  check_range("block", block, 0, num_blocks_ - 1);
  const std::byte* base = at(layer, block);
  for_each_element(layout_, [&](int64_t i, int64_t k_offset, int64_t v_offset) {
    k[i] = load(base + k_offset, layout_.dtype);
    v[i] = load(base + v_offset, layout_.dtype);
  });
}

void KVCache::write(int layer, int64_t block, const float* k, const float* v) {
  check_range("layer", layer, 0, num_layers_ - 1);
  check_range("block", block, 0, num_blocks_ - 1);
  std::byte* base = at(layer, block);
  for_each_element(layout_, [&](int64_t i, int64_t k_offset, int64_t v_offset) {
    store(base + k_offset, layout_.dtype, k[i]);
    store(base + v_offset, layout_.dtype, v[i]);
  });
}

} // namespace vllm_rs
