// The pieces of sampling one row of logits. See sampler.hpp for the whole.
#pragma once

#include "vllm_rs/kernels.hpp"

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace vllm_rs {

// What a request asks of its sampler. Ids are checked against the vocabulary by check_params.
struct SamplingParams {
  float temperature = 1.0F; // 0 = greedy
  int top_k = 0;            // 0 or -1 = off
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  uint64_t seed = 0;
  int min_tokens = 0;
  std::vector<int32_t> stop_token_ids;
  std::vector<int32_t> logit_bias_ids;
  std::vector<float> logit_bias_values;
  std::optional<std::vector<int32_t>> allowed_token_ids;
  std::vector<std::vector<int32_t>> bad_words;
  std::optional<int> num_logprobs; // -1 = whole vocabulary
};

// Throws ArgumentError naming the parameter.
void check_params(const SamplingParams& params, int vocab_size);

// A request's parameters and the tokens they refer to.
class Slot {
public:
  Slot(SamplingParams params, std::span<const int32_t> prompt, std::span<const int32_t> output);
  const SamplingParams& params() const { return params_; }
  void append(std::span<const int32_t> token_ids);
  // Whether `apply` would change anything now.
  bool constrains() const;
  // Masks, biases and penalises logits in place, in the order that sampler.hpp states.
  void apply(std::span<float> logits, std::span<const float> raw) const;

private:
  bool counts_tokens() const;
  void ban_bad_words(std::span<float> logits) const;
  void penalise(std::span<float> logits) const;

  SamplingParams params_;
  std::vector<int32_t> output_;
  std::unordered_map<int32_t, int32_t> output_counts_; // kept only while a penalty needs them
  std::vector<int32_t> prompt_ids_;                    // distinct; kept only for the repetition penalty
};

struct Candidate {
  float logit;
  int32_t id;
  // Best first; of equal logits the lower id.
  bool operator<(const Candidate& other) const {
    return logit != other.logit ? logit > other.logit : id < other.id;
  }
};

// Buffers that a worker reuses from row to row.
struct SamplingScratch {
  std::vector<float> logits;  // [vocab] constrained logits
  std::vector<float> weights; // [vocab]
  std::vector<float> maxima;
  std::vector<float> ranked_maxima;
  std::vector<Candidate> candidates;
  std::vector<double> bucket_sums;
};

// The k best of x, sorted, into scratch.candidates; NaN is never among them.
void select_top(const KernelTable& kernels, std::span<const float> x, int k, SamplingScratch& scratch);

// Draws from softmax(logits / temperature) after min_p, top_k and top_p; uniform in [0, 1). scan is of
// logits, of which at least one is above minus infinity.
int draw(const KernelTable& kernels, std::span<const float> logits, const SampleScan& scan,
         const SamplingParams& params, double uniform, SamplingScratch& scratch);

struct TokenLogprobs {
  std::vector<int32_t> token_ids; // the token itself, then the top k
  std::vector<float> logprobs;
  int rank; // of the token: how many logits are at least as large
};
// k is clamped to the vocabulary; max is the largest logit.
void token_logprobs(const KernelTable& kernels, std::span<const float> logits, float max, int token, int k,
                    SamplingScratch& scratch, TokenLogprobs& out);

} // namespace vllm_rs
