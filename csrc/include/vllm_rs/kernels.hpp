// The kernel table: one per instruction set, each built in its own translation unit with its own flags.
//
// Every kernel works on one row or on one block of rows, so that splitting a call over threads never changes
// a bit.
#pragma once

#include "vllm_rs/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace vllm_rs {

constexpr int tile_cols = 16;           // output features per packed weight tile, f32 lanes per vector
constexpr int segment_keys = 512;       // absolute key positions per attention segment
constexpr int attention_tile_keys = 64; // absolute key positions per online-softmax update
constexpr int row_block_tokens = 8;     // consecutive tokens of a sequence that attention handles together

// A row of a buffer: f32 or bf16 elements; bf16 rows are zero beyond cols up to a multiple of 32.
struct RowOut {
  void* data;
  DType dtype;
};

// out[rows, out_features] = x[rows, k] @ weight.T + bias, weight packed (see packed_linear.hpp).
struct GemmArgs {
  const std::byte* x;
  int64_t x_stride; // bytes between rows; rows are readable up to the next multiple of 16 rows (AMX tiles)
  const std::byte* weight;
  int64_t tile_stride; // bytes of one packed tile of 16 output features
  int steps;           // 4-byte steps over k: pairs of bf16, or single f32
  const float* bias;   // nullptr = none
  std::byte* out;
  int64_t out_stride; // bytes
  DType out_dtype;
  int out_features;
};
// Computes rows [row_begin, row_end) x tiles [tile_begin, tile_end).
using GemmKernel = void (*)(const GemmArgs&, int row_begin, int row_end, int tile_begin, int tile_end);

// One layer of the paged cache, as attention and the KV write see it (layout: kv_layout.hpp).
struct KvLayer {
  std::byte* base;      // block 0 of this layer
  int64_t block_stride; // bytes
  int block_size;       // tokens
  DType dtype;
};

struct AttentionArgs {
  const float* qkv;
  int64_t qkv_stride; // floats
  int num_heads, num_kv_heads, head_dim;
  float scale;
  int sliding_window; // keys visible including the row's own; 0 = all
  KvLayer kv;
};

// Consecutive rows of one sequence with consecutive positions.
struct RowBlock {
  int first_row, num_rows;
  int first_position;
  const int32_t* block_table;
};

// Running softmax state of rows x heads: max and sum [rows * group], output [rows * group][padded head_dim].
struct AttentionState {
  float* max;
  float* sum;
  float* out;
};

struct SampleScan {
  float max;
  int argmax; // lowest index of the maximum; NaN never wins; 0 if nothing is greater than -inf
  int num_nonfinite;
};

struct KernelTable {
  const char* name;
  GemmKernel gemm_bf16;
  GemmKernel gemm_f32;
  // out = x * rsqrt(mean(x^2) + eps) * weight; if add is given, x += add first, in place.
  void (*rms_norm)(RowOut out, float* x, const void* add, DType add_dtype, const float* weight, int cols,
                   float eps);
  void (*add)(float* x, const void* add, DType add_dtype, int cols);
  void (*silu_mul)(RowOut out, const void* gate_up, DType dtype, int cols);
  // Rotates the first rotary_dim elements of each head by the half-rotation rule.
  void (*rope)(float* heads, int num_heads, int head_dim, const float* cos_sin, int rotary_dim);
  // Writes k and v of row (and of the next row when has_next) at slots of one block; see kv_write.hpp.
  void (*kv_write)(const KvLayer& kv, std::byte* block, int slot, const float* k, const float* v,
                   const float* next_k, const float* next_v, int num_kv_heads, int head_dim);
  // Attention of the block's rows for one KV head over the keys of one segment, from an empty state.
  void (*attention_segment)(const AttentionArgs&, const RowBlock&, int kv_head, int segment, void* scratch,
                            const AttentionState& state);
  // into = into combined with the segment to its right.
  void (*attention_combine)(const AttentionState& into, const AttentionState& right, int num_rows,
                            int head_dim);
  // out[row][head] = state.out / state.sum.
  void (*attention_store)(const AttentionArgs&, const RowBlock&, int kv_head, const AttentionState& state,
                          std::byte* out, int64_t out_stride, DType out_dtype);
  // Sampling over n logits.
  SampleScan (*scan)(const float* x, int n);
  // Sum of exp(x - max) in float64.
  double (*exp_sum)(const float* x, float max, int n);
  // out = exp((x - max) * scale), 0 where below floor. Returns the sum, groups of 16 added in order.
  double (*exp_store)(float* out, const float* x, float max, float scale, float floor, int n);
  void (*group_max)(float* out, const float* x, int n, int group_size); // maxima of consecutive groups
  int (*count_greater)(const float* x, float than, int n);
  // Roofline: floating-point operations done in `steps` steps on registers; loads of num_bytes (a multiple of
  // 256).
  double (*peak_bf16)(int steps, float* out);
  double (*peak_f32)(int steps, float* out);
  void (*read_bytes)(const std::byte* data, int64_t num_bytes, float* out);
  void (*to_f32)(float* out, const uint16_t* in, int n);
  void (*to_bf16)(uint16_t* out, const float* in, int n);
};

// Bytes of per-thread scratch that attention_segment needs.
int64_t attention_scratch_bytes(int group, int head_dim);
constexpr int64_t attention_state_floats(int64_t rows, int head_dim) {
  return rows * (2 + round_up(head_dim, tile_cols));
}

const KernelTable& scalar_kernels();
#if defined(__x86_64__)
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& avx512_bf16_kernels();
const KernelTable& amx_kernels();
const KernelTable& amx_emulated_kernels();
#endif

} // namespace vllm_rs
