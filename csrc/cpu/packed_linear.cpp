#include "vllm_rs/packed_linear.hpp"

#include "vllm_rs/isa.hpp"

#include <cstring>

namespace vllm_rs {
namespace {

// Columns packed at a time: 16 rows of them stay in the first-level cache.
constexpr int block_cols = 128;

struct Source {
  const void* weight;
  DType dtype;
  int64_t in_features;

  const float* f32(int64_t row, int64_t col) const {
    return static_cast<const float*>(weight) + row * in_features + col;
  }
  const uint16_t* bf16(int64_t row, int64_t col) const {
    return static_cast<const uint16_t*>(weight) + row * in_features + col;
  }
};

// Sixteen rows, transposed in units of 4 bytes: unit k of row i goes to out[16 k + i]. Missing rows are zero.
void interleave(const uint32_t* rows, int64_t row_units, int64_t units, std::byte* out) {
  for (int64_t k = 0; k < units; ++k) {
    uint32_t line[tile_cols];
    for (int i = 0; i < tile_cols; ++i)
      line[i] = rows[i * row_units + k];
    std::memcpy(out + k * 64, line, sizeof(line));
  }
}

// Packs columns [col, col + n) of up to 16 rows into their tile; n is at most block_cols.
void pack_block(const KernelTable& kernels, const Source& source, DType dtype, int64_t row, int num_rows,
                int64_t col, int n, std::byte* tile) {
  alignas(64) uint32_t rows[tile_cols][block_cols];
  std::memset(rows, 0, sizeof(rows)); // missing rows, and the partner of an odd last column
  for (int i = 0; i < num_rows; ++i) {
    if (source.dtype == dtype)
      std::memcpy(rows[i],
                  dtype == DType::f32 ? static_cast<const void*>(source.f32(row + i, col))
                                      : static_cast<const void*>(source.bf16(row + i, col)),
                  static_cast<size_t>(n * size_of(dtype)));
    else if (dtype == DType::bf16)
      kernels.to_bf16(reinterpret_cast<uint16_t*>(rows[i]), source.f32(row + i, col), n);
    else
      kernels.to_f32(reinterpret_cast<float*>(rows[i]), source.bf16(row + i, col), n);
  }
  const int64_t units = dtype == DType::f32 ? n : ceil_div(n, 2);
  const int64_t first_unit = dtype == DType::f32 ? col : col / 2;
  interleave(&rows[0][0], block_cols, units, tile + first_unit * 64);
}

int64_t tile_bytes(int in_features, DType dtype) {
  return dtype == DType::f32 ? int64_t{in_features} * 64 : round_up(in_features, 32) * 32;
}

} // namespace

PackedLinear::PackedLinear(ThreadPool& pool, const void* weight, DType source_dtype, int out_features,
                           int in_features, DType dtype, std::optional<std::span<const float>> bias)
    : out_features_(out_features), in_features_(in_features), dtype_(dtype),
      tile_stride_(tile_bytes(in_features, dtype)),
      weight_(static_cast<size_t>(ceil_div(out_features, tile_cols) * tile_stride_), Pages::huge) {
  if (bias)
    bias_.assign(bias->begin(), bias->end());
  const Source source{weight, source_dtype, in_features};
  const KernelTable& table = kernels();
  WorkQueue queue;
  pool.run([&](int) {
    queue.drain(pool, num_tiles(), 4, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t row = tile * tile_cols;
        const int num_rows = static_cast<int>(std::min<int64_t>(tile_cols, out_features_ - row));
        for (int64_t col = 0; col < in_features_; col += block_cols) {
          const int n = static_cast<int>(std::min<int64_t>(block_cols, in_features_ - col));
          pack_block(table, source, dtype_, row, num_rows, col, n, weight_.data() + tile * tile_stride_);
        }
      }
    });
  });
}

void PackedLinear::read_row_bf16(int row, uint16_t* out) const {
  const std::byte* lane = data() + row / tile_cols * tile_stride_ + row % tile_cols * 4;
  for (int k = 0; k + 1 < in_features_; k += 2)
    std::memcpy(out + k, lane + int64_t{k} * 32, 4);
  if (in_features_ % 2 != 0)
    std::memcpy(out + in_features_ - 1, lane + int64_t{in_features_ - 1} * 32, 2);
}

void PackedLinear::read_row(int row, float* out) const {
  const std::byte* lane = data() + row / tile_cols * tile_stride_ + row % tile_cols * 4;
  for (int k = 0; k < in_features_; ++k) {
    if (dtype_ == DType::f32) {
      std::memcpy(out + k, lane + int64_t{k} * 64, 4);
      continue;
    }
    uint16_t value;
    std::memcpy(&value, lane + int64_t{k / 2} * 64 + k % 2 * 2, 2);
    out[k] = bf16_to_f32(value);
  }
}

} // namespace vllm_rs
