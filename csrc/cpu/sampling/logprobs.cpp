#include "vllm_rs/sampling.hpp"

#include <algorithm>
#include <cmath>

namespace vllm_rs {

void token_logprobs(const KernelTable& kernels, std::span<const float> logits, float max, int token, int k,
                    SamplingScratch& scratch, TokenLogprobs& out) {
  const auto vocab = static_cast<int>(logits.size());
  const double log_sum = static_cast<double>(max) + std::log(kernels.exp_sum(logits.data(), max, vocab));
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - log_sum); };
  const float logit = logits[static_cast<size_t>(token)];
  const auto equal = std::count(logits.begin(), logits.end(), logit); // none if it is NaN
  out.rank = std::max(1, kernels.count_greater(logits.data(), logit, vocab) + static_cast<int>(equal));
  out.token_ids.assign(1, token);
  out.logprobs.assign(1, logprob(logit));
  if (k == 0)
    return;
  select_top(kernels, logits, k < 0 ? vocab : std::min(k, vocab), scratch);
  for (const Candidate& candidate : scratch.candidates) {
    out.token_ids.push_back(candidate.id);
    out.logprobs.push_back(logprob(candidate.logit));
  }
}

} // namespace vllm_rs
