#include "vllm_rs/check.hpp"
#include "vllm_rs/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace vllm_rs {
namespace {

void check_ids(const char* name, std::span<const int32_t> ids, int vocab_size) {
  for (const int32_t id : ids)
    check_range(name, id, 0, vocab_size - 1);
}

void check_float(const char* name, float value, bool valid, const char* expected) {
  if (!valid || !std::isfinite(value))
    bad_argument(name, expected, std::to_string(value));
}

} // namespace

void check_params(const SamplingParams& p, int vocab_size) {
  check_float("temperature", p.temperature, p.temperature >= 0.0F, "a number of at least 0");
  check_range("top_k", p.top_k, -1, INT32_MAX);
  check_float("top_p", p.top_p, p.top_p > 0.0F && p.top_p <= 1.0F, "a number above 0 and at most 1");
  check_float("min_p", p.min_p, p.min_p >= 0.0F && p.min_p <= 1.0F, "a number from 0 to 1");
  check_float("repetition_penalty", p.repetition_penalty, p.repetition_penalty > 0.0F, "a number above 0");
  check_float("presence_penalty", p.presence_penalty, true, "a finite number");
  check_float("frequency_penalty", p.frequency_penalty, true, "a finite number");
  check_range("min_tokens", p.min_tokens, 0, INT32_MAX);
  check_ids("stop_token_ids", p.stop_token_ids, vocab_size);
  check_ids("logit_bias_ids", p.logit_bias_ids, vocab_size);
  check_equal("len(logit_bias_values)", static_cast<int64_t>(p.logit_bias_values.size()),
              static_cast<int64_t>(p.logit_bias_ids.size()));
  if (p.allowed_token_ids) {
    if (p.allowed_token_ids->empty())
      bad_argument("allowed_token_ids", "None or at least one id", "an empty list");
    check_ids("allowed_token_ids", *p.allowed_token_ids, vocab_size);
  }
  for (const auto& word : p.bad_words) {
    if (word.empty())
      bad_argument("bad_words", "lists of at least one id", "an empty list");
    check_ids("bad_words", word, vocab_size);
  }
  if (p.num_logprobs)
    check_range("num_logprobs", *p.num_logprobs, -1, vocab_size);
}

Slot::Slot(SamplingParams params, std::span<const int32_t> prompt, std::span<const int32_t> output)
    : params_(std::move(params)) {
  if (params_.repetition_penalty != 1.0F) {
    prompt_ids_.assign(prompt.begin(), prompt.end());
    std::sort(prompt_ids_.begin(), prompt_ids_.end());
    prompt_ids_.erase(std::unique(prompt_ids_.begin(), prompt_ids_.end()), prompt_ids_.end());
  }
  append(output);
}

bool Slot::counts_tokens() const {
  return params_.repetition_penalty != 1.0F || params_.presence_penalty != 0.0F ||
         params_.frequency_penalty != 0.0F;
}

void Slot::append(std::span<const int32_t> token_ids) {
  output_.insert(output_.end(), token_ids.begin(), token_ids.end());
  if (counts_tokens())
    for (const int32_t id : token_ids)
      ++output_counts_[id];
}

} // namespace vllm_rs
