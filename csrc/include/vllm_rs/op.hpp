// One recorded kernel call of a program.
#pragma once

#include "vllm_rs/packed_linear.hpp"
#include "vllm_rs/step.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vllm_rs {

// A planned buffer: one row per token or per logit row.
struct Buffer {
  RowSpace rows;
  int cols;
  DType dtype;
  bool kept = false;
  int64_t offset = -1; // into the workspace, once planned

  // Rows start at multiples of 64 bytes, so a bf16 row is whole groups of 32 elements.
  int64_t stride() const { return round_up(cols * size_of(dtype), 64); }
};

// What a call needs to know of a buffer: where it will be once the program is finalized.
using BufferRef = std::shared_ptr<const Buffer>;

inline std::byte* row_of(const RunContext& context, const BufferRef& buffer, int64_t row) {
  return context.workspace + buffer->offset + row * buffer->stride();
}

class Op {
public:
  virtual ~Op() = default;
  virtual const char* name() const = 0;
  virtual std::string describe() const = 0;
  // Runs this worker's share and returns when the whole call is done. queues: two, reset before the run.
  virtual void run(const RunContext& context, WorkQueue* queues, int worker) const = 0;
  // Bytes of private scratch per worker, and of shared partial results.
  virtual int64_t scratch_bytes() const { return 0; }

  std::vector<int> reads;
  std::vector<int> writes;
};

// Rows handed to a worker at a time by the row-wise calls.
constexpr int64_t row_grain = 8;

std::unique_ptr<Op> make_embedding(BufferRef out, std::shared_ptr<const PackedLinear> table);
std::unique_ptr<Op> make_rms_norm(BufferRef out, BufferRef x, BufferRef add, std::vector<float> weight,
                                  float eps);
std::unique_ptr<Op> make_add(BufferRef residual, BufferRef x);
std::unique_ptr<Op> make_silu_mul(BufferRef out, BufferRef gate_up);
std::unique_ptr<Op> make_gather_rows(BufferRef out, BufferRef x);
// out nullptr = the program's logits.
std::unique_ptr<Op> make_linear(BufferRef out, BufferRef x, std::shared_ptr<const PackedLinear> weight);

struct HeadShape {
  int num_heads, num_kv_heads, head_dim;
};
// cos | sin rows, shared by the layers that use the same table.
struct RotaryTable {
  int64_t max_positions;
  int rotary_dim;
  std::vector<float> values;
};
std::unique_ptr<Op> make_rope_kv_write(BufferRef qkv, HeadShape heads,
                                       std::shared_ptr<const RotaryTable> table, int layer);
std::unique_ptr<Op> make_attention(BufferRef out, BufferRef qkv, HeadShape heads, float scale, int layer,
                                   int sliding_window);
// Shared partial results of attention split over segments: touched only by long contexts with few rows.
constexpr int64_t attention_partial_bytes = 16 << 20;

} // namespace vllm_rs
