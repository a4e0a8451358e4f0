// Weights of one linear layer in the order in which the kernels read them.
//
// bf16: [out / 16][in padded to 32, / 2][16][2], so a tile's row of 64 bytes is one vector of pairs
// (VDPBF16PS) and 16 such rows are one AMX tile. f32: [out / 16][in][16]. What lies beyond out or in is zero.
#pragma once

#include "vllm_rs/aligned_buffer.hpp"
#include "vllm_rs/dtype.hpp"
#include "vllm_rs/kernels.hpp"
#include "vllm_rs/thread_pool.hpp"

#include <optional>
#include <span>
#include <vector>

namespace vllm_rs {

class PackedLinear {
public:
  // weight: row-major [out_features, in_features] of source_dtype.
  PackedLinear(ThreadPool& pool, const void* weight, DType source_dtype, int out_features, int in_features,
               DType dtype, std::optional<std::span<const float>> bias);

  int out_features() const { return out_features_; }
  int in_features() const { return in_features_; }
  DType dtype() const { return dtype_; }
  size_t nbytes() const { return weight_.size() + bias_.size() * sizeof(float); }
  const std::byte* data() const { return weight_.data(); }
  int64_t tile_stride() const { return tile_stride_; }
  int num_tiles() const { return static_cast<int>(ceil_div(out_features_, tile_cols)); }
  int steps() const {
    return static_cast<int>(dtype_ == DType::f32 ? in_features_ : ceil_div(in_features_, 2));
  }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

  // Copies row (one output feature's weights) to out [in_features].
  void read_row(int row, float* out) const;
  void read_row_bf16(int row, uint16_t* out) const; // bf16 weights only

private:
  int out_features_, in_features_;
  DType dtype_;
  int64_t tile_stride_;
  AlignedBuffer weight_;
  std::vector<float> bias_;
};

} // namespace vllm_rs
