// One draw from the filtered distribution.
#include "vllm_rs/sampling.hpp"

#include <algorithm>

namespace vllm_rs {
namespace {

// The first token, in id order, whose cumulative weight exceeds the target.
int walk_all(std::span<const float> weights, double target, int fallback) {
  double before = 0.0;
  int last = fallback;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.0F)
      continue;
    before += static_cast<double>(weights[i]);
    last = static_cast<int>(i);
    if (before > target)
      return last;
  }
  return last; // rounding left the sum at or below the target
}

// Keeps the shortest prefix of the sorted candidates whose weight reaches share of total. False if it is not
// reached.
bool cut_at_share(std::vector<Candidate>& candidates, std::span<const float> weights, double share_of_total) {
  double sum = 0.0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += static_cast<double>(weights[static_cast<size_t>(candidates[i].id)]);
    if (sum >= share_of_total) {
      candidates.resize(i + 1);
      return true;
    }
  }
  return false;
}

double sum_weights(const std::vector<Candidate>& candidates, std::span<const float> weights) {
  double sum = 0.0;
  for (const Candidate& candidate : candidates)
    sum += static_cast<double>(weights[static_cast<size_t>(candidate.id)]);
  return sum;
}

int draw_candidate(std::vector<Candidate>& candidates, std::span<const float> weights, double uniform) {
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const double target = uniform * sum_weights(candidates, weights);
  double sum = 0.0;
  for (const Candidate& candidate : candidates) {
    sum += static_cast<double>(weights[static_cast<size_t>(candidate.id)]);
    if (sum > target)
      return candidate.id;
  }
  return candidates.back().id;
}

// The nucleus is usually small: look among ever more of the best.
void select_nucleus(const KernelTable& kernels, std::span<const float> logits, double share_of_total,
                    SamplingScratch& scratch) {
  const auto vocab = static_cast<int>(logits.size());
  for (int k = 64;; k *= 8) {
    select_top(kernels, logits, std::min(k, vocab), scratch);
    if (cut_at_share(scratch.candidates, scratch.weights, share_of_total) || k >= vocab)
      return;
  }
}

} // namespace

int draw(const KernelTable& kernels, std::span<const float> logits, const SampleScan& scan,
         const SamplingParams& params, double uniform, SamplingScratch& scratch) {
  const auto vocab = static_cast<int>(logits.size());
  scratch.weights.resize(logits.size());
  const float scale = 1.0F / params.temperature;
  // The best token's weight is exactly 1, so min_p is a bound on weights.
  const double total =
      kernels.exp_store(scratch.weights.data(), logits.data(), scan.max, scale, params.min_p, vocab);
  if (!(total > 0.0))
    return scan.argmax; // no finite logit is left
  const bool top_k = params.top_k > 0 && params.top_k < vocab;
  if (!top_k && params.top_p >= 1.0F)
    return walk_all(scratch.weights, uniform * total, scan.argmax);
  double share = total;
  if (top_k) {
    select_top(kernels, logits, params.top_k, scratch);
    share = sum_weights(scratch.candidates, scratch.weights);
    cut_at_share(scratch.candidates, scratch.weights, static_cast<double>(params.top_p) * share);
  } else {
    select_nucleus(kernels, logits, static_cast<double>(params.top_p) * share, scratch);
  }
  return draw_candidate(scratch.candidates, scratch.weights, uniform);
}

} // namespace vllm_rs
