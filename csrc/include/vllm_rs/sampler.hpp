// Native sampling with per-slot state.
//
// Order, as in vLLM: log-probabilities come from the raw logits; then allowed ids, bad words, min_tokens
// mask, logit bias, penalties; then argmax if the temperature is 0, else temperature, min_p, top_k, top_p and
// one draw.
#pragma once

#include "vllm_rs/sampling.hpp"
#include "vllm_rs/thread_pool.hpp"

#include <memory>
#include <mutex>

namespace vllm_rs {

struct RowSample {
  int token_id = 0;
  int num_nonfinite = 0;
  // The constraints left no token to choose from: token_id means nothing, and there are no logprobs.
  bool exhausted = false;
  std::optional<TokenLogprobs> logprobs;
};

class Sampler {
public:
  Sampler(std::shared_ptr<ThreadPool> pool, int num_slots, int vocab_size);

  int vocab_size() const { return vocab_size_; }
  void set_slot(int slot, SamplingParams params, std::span<const int32_t> prompt,
                std::span<const int32_t> output);
  void clear_slot(int slot);
  void append(int slot, std::span<const int32_t> token_ids);

  // rows[i]: the logits for slots[i], whose token at absolute position positions[i] is drawn.
  void sample(std::span<const float* const> rows, std::span<const int32_t> slots,
              std::span<const int32_t> positions, uint32_t stream, std::span<RowSample> out);
  // Log-probabilities of targets[i] and of the top num_logprobs in rows[i].
  void score(std::span<const float* const> rows, std::span<const int32_t> targets, int num_logprobs,
             std::span<TokenLogprobs> out);

private:
  RowSample sample_row(const float* logits, const Slot& slot, int position, uint32_t stream,
                       SamplingScratch& scratch) const;
  Slot& checked(int slot);
  template <class Fn>
  void for_each_row(size_t rows, Fn&& fn);

  std::shared_ptr<ThreadPool> pool_;
  int vocab_size_;
  std::vector<std::optional<Slot>> slots_;
  std::vector<SamplingScratch> scratch_; // per worker
  std::mutex running_;
};

} // namespace vllm_rs
