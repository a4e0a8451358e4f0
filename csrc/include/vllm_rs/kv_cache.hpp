// Paged K and V of every layer in reserved address space: [block][layer][K of each head | V of each head].
#pragma once

#include "vllm_rs/aligned_buffer.hpp"
#include "vllm_rs/kernels.hpp"
#include "vllm_rs/kv_layout.hpp"

namespace vllm_rs {

class KVCache {
public:
  KVCache(int num_layers, int64_t num_blocks, int block_size, int num_kv_heads, int head_dim, DType dtype);

  int num_layers() const { return num_layers_; }
  int64_t num_blocks() const { return num_blocks_; }
  const KvLayout& layout() const { return layout_; }
  int64_t layer_stride() const { return layout_.bytes(); }
  int64_t block_stride() const { return layout_.bytes() * num_layers_; }
  size_t nbytes() const { return memory_.size(); }
  size_t resident_bytes() const { return memory_.resident_bytes(); }
  KvLayer layer(int index) const {
    return {memory_.data() + index * layer_stride(), block_stride(), layout_.block_size, layout_.dtype};
  }

  // One block of one layer, as f32 [block_size, num_kv_heads, head_dim].
  void read(int layer, int64_t block, float* k, float* v) const;
  void write(int layer, int64_t block, const float* k, const float* v);

private:
  std::byte* at(int layer, int64_t block) const {
    return memory_.data() + block * block_stride() + layer * layer_stride();
  }

  int num_layers_;
  int64_t num_blocks_;
  KvLayout layout_;
  AlignedBuffer memory_;
};

} // namespace vllm_rs
