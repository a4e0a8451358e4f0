// What a request forbids, favours and penalises, applied to its row of logits.
#include "vllm_rs/sampling.hpp"

#include <algorithm>
#include <limits>

namespace vllm_rs {
namespace {

constexpr float banned = -std::numeric_limits<float>::infinity();

float& at(std::span<float> logits, int32_t id) { return logits[static_cast<size_t>(id)]; }

} // namespace

bool Slot::constrains() const {
  const bool holds_back_stop =
      static_cast<int64_t>(output_.size()) < params_.min_tokens && !params_.stop_token_ids.empty();
  return params_.allowed_token_ids || !params_.bad_words.empty() || holds_back_stop ||
         !params_.logit_bias_ids.empty() || counts_tokens();
}

void Slot::apply(std::span<float> logits, std::span<const float> raw) const {
  if (params_.allowed_token_ids) {
    std::fill(logits.begin(), logits.end(), banned);
    for (const int32_t id : *params_.allowed_token_ids)
      at(logits, id) = raw[static_cast<size_t>(id)];
  } else {
    std::copy(raw.begin(), raw.end(), logits.begin());
  }
  ban_bad_words(logits);
  if (static_cast<int64_t>(output_.size()) < params_.min_tokens)
    for (const int32_t id : params_.stop_token_ids)
      at(logits, id) = banned;
  for (size_t i = 0; i < params_.logit_bias_ids.size(); ++i)
    at(logits, params_.logit_bias_ids[i]) += params_.logit_bias_values[i];
  if (counts_tokens())
    penalise(logits);
}

// The last token of a bad word is banned when the output ends in the tokens before it.
void Slot::ban_bad_words(std::span<float> logits) const {
  for (const auto& word : params_.bad_words) {
    const size_t prefix = word.size() - 1;
    if (prefix <= output_.size() &&
        std::equal(word.begin(), word.end() - 1, output_.end() - static_cast<long>(prefix)))
      at(logits, word.back()) = banned;
  }
}

void Slot::penalise(std::span<float> logits) const {
  const float repetition = params_.repetition_penalty;
  const auto repeat = [&](int32_t id) {
    float& logit = at(logits, id);
    logit = logit > 0.0F ? logit / repetition : logit * repetition;
  };
  for (const int32_t id : prompt_ids_)
    if (!output_counts_.contains(id))
      repeat(id);
  for (const auto& [id, count] : output_counts_) {
    if (repetition != 1.0F)
      repeat(id);
    float& logit = at(logits, id);
    logit -= params_.frequency_penalty * static_cast<float>(count);
    logit -= params_.presence_penalty;
  }
}

} // namespace vllm_rs
