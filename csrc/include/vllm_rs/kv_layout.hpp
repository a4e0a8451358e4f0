// Where a token's K and V lie inside one layer of one cache block.
//
// The layout is that of packed weights, so that scores and outputs are the same small matrix products as
// `linear`: K of a head:  [slots / G][head_dim / 2][G][2] bf16, [slots / G][head_dim][G] f32     (G keys side
// by side) V of a head:  [slots / 2][padded dim][2] bf16,      [slots][padded dim] f32          (dims side by
// side) A block holds K of every head, then V of every head. G is 16, or 8 when the block size is no multiple
// of 16.
#pragma once

#include "vllm_rs/dtype.hpp"

namespace vllm_rs {

struct KvLayout {
  int block_size;
  int num_kv_heads;
  int head_dim;
  DType dtype;

  VLLM_RS_INLINE constexpr int group() const { return block_size % 16 == 0 ? 16 : 8; }
  VLLM_RS_INLINE constexpr int64_t padded_dim() const { return round_up(head_dim, 16); }
  VLLM_RS_INLINE constexpr int64_t k_head_bytes() const {
    return int64_t{block_size} * head_dim * size_of(dtype);
  }
  VLLM_RS_INLINE constexpr int64_t v_head_bytes() const {
    return int64_t{block_size} * padded_dim() * size_of(dtype);
  }
  VLLM_RS_INLINE constexpr int64_t v_offset() const { return num_kv_heads * k_head_bytes(); }
  VLLM_RS_INLINE constexpr int64_t bytes() const { return num_kv_heads * (k_head_bytes() + v_head_bytes()); }

  // Byte offset of one element from the start of the block's layer.
  VLLM_RS_INLINE constexpr int64_t k_at(int head, int slot, int dim) const {
    const int64_t g = group();
    const int64_t first = slot / g * head_dim * g;
    const int64_t within = dtype == DType::bf16 ? (dim / 2 * g + slot % g) * 2 + dim % 2 : dim * g + slot % g;
    return head * k_head_bytes() + (first + within) * size_of(dtype);
  }
  VLLM_RS_INLINE constexpr int64_t v_at(int head, int slot, int dim) const {
    const int64_t element =
        dtype == DType::bf16 ? (slot / 2 * padded_dim() + dim) * 2 + slot % 2 : slot * padded_dim() + dim;
    return v_offset() + head * v_head_bytes() + element * size_of(dtype);
  }
};

} // namespace vllm_rs
