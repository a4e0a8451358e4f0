#include "vllm_rs/check.hpp"
#include "vllm_rs/step.hpp"

#include <string>

namespace vllm_rs {
namespace {

std::string at(const char* name, size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

void check_values(const char* name, std::span<const int32_t> values, int64_t end) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= end) [[unlikely]]
      check_range(at(name, i), values[i], 0, end - 1);
}

void check_sequences(const StepInput& step, const StepLimits& limits) {
  if (step.query_start.empty())
    bad_argument("query_start", "at least one entry", "none");
  check_range("len(query_start) - 1", static_cast<int64_t>(step.query_start.size()) - 1, 0,
              limits.max_sequences);
  check_equal("query_start[0]", step.query_start.front(), 0);
  for (size_t s = 1; s < step.query_start.size(); ++s)
    if (step.query_start[s] < step.query_start[s - 1])
      bad_argument(at("query_start", s), "a value not below the one before it", step.query_start[s]);
  check_equal("query_start[-1]", step.query_start.back(), static_cast<int64_t>(step.token_ids.size()));
}

void check_positions(const StepInput& step, int64_t max_positions) {
  check_equal("len(positions)", static_cast<int64_t>(step.positions.size()),
              static_cast<int64_t>(step.token_ids.size()));
  check_values("positions", step.positions, max_positions > 0 ? max_positions : INT32_MAX);
  for (size_t s = 1; s < step.query_start.size(); ++s)
    for (auto row = static_cast<size_t>(step.query_start[s - 1]) + 1;
         row < static_cast<size_t>(step.query_start[s]); ++row)
      if (step.positions[row] != step.positions[row - 1] + 1)
        bad_argument(at("positions", row), "one more than the row before it in its sequence",
                     step.positions[row]);
}

void check_tables(const StepInput& step, const KVCache& kv) {
  const int64_t sequences = static_cast<int64_t>(step.query_start.size()) - 1;
  check_equal("block_tables", static_cast<int64_t>(step.block_tables.size()), sequences * step.table_cols);
  const int64_t block_size = kv.layout().block_size;
  for (int64_t s = 0; s < sequences; ++s) {
    const int end_row = step.query_start[static_cast<size_t>(s) + 1];
    if (end_row == step.query_start[static_cast<size_t>(s)])
      continue;
    const int64_t used = step.positions[static_cast<size_t>(end_row) - 1] / block_size + 1;
    if (used > step.table_cols)
      bad_argument("block_tables",
                   "at least " + std::to_string(used) + " columns for sequence " + std::to_string(s),
                   step.table_cols);
    for (int64_t i = 0; i < used; ++i) {
      const int32_t block = step.block_tables[static_cast<size_t>(s * step.table_cols + i)];
      if (block < 0 || block >= kv.num_blocks())
        check_range("block_tables[" + std::to_string(s) + ", " + std::to_string(i) + "]", block, 0,
                    kv.num_blocks() - 1);
    }
  }
}

} // namespace

void check_step(const StepInput& step, const StepLimits& limits, const KVCache* kv) {
  const auto num_tokens = static_cast<int64_t>(step.token_ids.size());
  check_range("len(token_ids)", num_tokens, 0, limits.max_tokens);
  check_range("len(logit_rows)", static_cast<int64_t>(step.logit_rows.size()), 0, limits.max_logit_rows);
  if (limits.vocab_size > 0)
    check_values("token_ids", step.token_ids, limits.vocab_size);
  check_sequences(step, limits);
  check_positions(step, limits.max_positions);
  check_values("logit_rows", step.logit_rows, num_tokens);
  if (kv != nullptr)
    check_tables(step, *kv);
}

} // namespace vllm_rs
