// The metadata of one step, and what the recorded calls see of it while they run.
#pragma once

#include "vllm_rs/kernels.hpp"
#include "vllm_rs/kv_cache.hpp"
#include "vllm_rs/thread_pool.hpp"

#include <span>
#include <vector>

namespace vllm_rs {

struct StepInput {
  std::span<const int32_t> token_ids;    // [T]
  std::span<const int32_t> positions;    // [T], consecutive within a sequence
  std::span<const int32_t> query_start;  // [S + 1], prefix sums of tokens per sequence
  std::span<const int32_t> block_tables; // [S, table_cols]
  int64_t table_cols;
  std::span<const int32_t> logit_rows; // [L], indices into the T tokens
};

struct StepLimits {
  int max_tokens, max_logit_rows, max_sequences;
  int64_t vocab_size;    // of the embedding table; 0 = no embedding recorded
  int64_t max_positions; // of the rotary table; 0 = none recorded
};

// Throws ArgumentError naming the array, the limit and the value, before anything runs.
// kv may be nullptr (profile runs): then block tables are not looked at.
void check_step(const StepInput& step, const StepLimits& limits, const KVCache* kv);

enum class RowSpace : uint8_t { tokens, logit_rows };

// Everything a recorded call needs at run time. Two work queues per call: two phases.
struct RunContext {
  const KernelTable* kernels;
  ThreadPool* pool;
  std::byte* workspace;
  const StepInput* step;
  const KVCache* kv;
  bool single_layer_cache; // profile runs: every layer shares one scratch layer
  std::span<const RowBlock> row_blocks;
  WorkQueue* queues;
  std::byte* worker_scratch;
  int64_t worker_scratch_bytes;
  std::byte* partials; // attention partials, when segments of one row run on several threads
  float* logits;

  int num_rows(RowSpace rows) const {
    return static_cast<int>(rows == RowSpace::tokens ? step->token_ids.size() : step->logit_rows.size());
  }
  KvLayer kv_layer(int layer) const { return kv->layer(single_layer_cache ? 0 : layer); }
};

// Splits each sequence's rows at absolute positions that are multiples of row_block_tokens.
// table_of(s) is the block table of sequence s; position_offset(s) is subtracted from its positions.
template <class TableOf, class OffsetOf>
void split_rows(const StepInput& step, std::vector<RowBlock>& blocks, TableOf&& table_of,
                OffsetOf&& offset_of) {
  blocks.clear();
  for (size_t s = 0; s + 1 < step.query_start.size(); ++s) {
    const int end = step.query_start[s + 1];
    for (int row = step.query_start[s]; row < end;) {
      const int position = step.positions[static_cast<size_t>(row)] - offset_of(s);
      const int room = row_block_tokens - position % row_block_tokens;
      const int count = end - row < room ? end - row : room;
      blocks.push_back({row, count, position, table_of(s)});
      row += count;
    }
  }
}

} // namespace vllm_rs
