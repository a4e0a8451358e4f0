// A flat list of kernel calls over planned buffers, recorded once, replayed by one call per step.
#pragma once

#include "vllm_rs/op.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vllm_rs {

class Program {
public:
  Program(std::shared_ptr<ThreadPool> pool, int max_tokens, int max_logit_rows, int max_sequences);

  // Recording. Shapes, dtypes and order are checked here; handles are indices.
  int buffer(RowSpace rows, int cols, DType dtype);
  void embedding(int out, std::shared_ptr<const PackedLinear> table);
  void rms_norm(int out, int x, std::vector<float> weight, float eps);
  void add_rms_norm(int out, int residual, int x, std::vector<float> weight, float eps);
  void add(int residual, int x);
  void linear(int out, int x, std::shared_ptr<const PackedLinear> weight);
  void rope_kv_write(int qkv, HeadShape heads, RotaryTable table, int layer);
  void attention(int out, int qkv, HeadShape heads, float scale, int layer, int sliding_window);
  void silu_mul(int out, int gate_up);
  void gather_rows(int out, int x);
  void logits(int x, std::shared_ptr<const PackedLinear> lm_head);
  void keep(int handle);
  void finalize();

  int num_ops() const { return static_cast<int>(ops_.size()); }
  int64_t workspace_bytes() const;
  std::vector<std::string> describe() const;

  // Replay of calls first_op to last_op inclusive; last_op -1 = the last. times, if given, gets (name,
  // seconds).
  void run(const KVCache* kv, const StepInput& step, int first_op = 0, int last_op = -1,
           std::vector<std::pair<const char*, double>>* times = nullptr);

  int num_logit_rows() const { return num_logit_rows_; } // of the last run
  int vocab_size() const { return vocab_size_; }
  const float* logits_row(int row) const { return logits_.as<float>() + int64_t{row} * vocab_size_; }
  // A kept buffer's rows of the last run, as f32 [rows, cols].
  std::pair<int, int> kept_shape(int handle) const;
  void read_kept(int handle, float* out) const;
  ThreadPool& pool() { return *pool_; }

private:
  Buffer& checked(const char* name, int handle);
  BufferRef input(const char* name, int handle); // something wrote it already
  BufferRef output(const char* name, int handle);
  void record(std::unique_ptr<Op> op, std::vector<int> reads, std::vector<int> writes);
  void check_recording() const;
  void check_heads(const Buffer& qkv, const HeadShape& heads, int layer);
  std::vector<RowBlock>& split_step(const KVCache* kv, const StepInput& step);
  std::unique_ptr<KVCache> scratch_cache(const StepInput& step);
  void replay(RunContext& context, int first_op, int end_op,
              std::vector<std::pair<const char*, double>>* times);

  std::shared_ptr<ThreadPool> pool_;
  StepLimits limits_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<bool> written_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<std::shared_ptr<const RotaryTable>> rotary_tables_;
  HeadShape heads_{};
  int num_layers_ = 0;
  int vocab_size_ = 0;
  bool finalized_ = false;

  AlignedBuffer workspace_;
  AlignedBuffer logits_;
  AlignedBuffer worker_scratch_;
  AlignedBuffer partials_;
  int64_t worker_scratch_bytes_ = 0;
  std::vector<WorkQueue> queues_;
  std::vector<RowBlock> row_blocks_;
  std::vector<int32_t> scratch_tables_;
  std::mutex running_;
  int num_logit_rows_ = 0;
  int num_tokens_ = 0;
};

// Gives every buffer its place in one workspace so that buffers alive at the same time do not overlap.
// first_use/last_use: indices of calls. Returns the workspace's size.
struct Lifetime {
  int64_t bytes;
  int first_use, last_use;
};
int64_t plan_offsets(const std::vector<Lifetime>& lifetimes, std::vector<int64_t>& offsets);

} // namespace vllm_rs
