// One draw from the filtered distribution.
#include "vllm_rs/sampling.hpp"

#include <algorithm>
#include <bit>

namespace vllm_rs {
namespace {

constexpr size_t group = 16;

// Four chains, always the same ones: fast, and equal whenever it is computed.
double group_sum(std::span<const float> weights, size_t first) {
  double sums[4] = {};
  const size_t end = std::min(first + group, weights.size());
  for (size_t i = first; i < end; ++i)
    sums[i % 4] += static_cast<double>(weights[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The first token, in id order, whose cumulative weight exceeds uniform times the total.
int draw_from_all(std::span<const float> weights, double uniform, int fallback) {
  double total = 0.0;
  for (size_t first = 0; first < weights.size(); first += group)
    total += group_sum(weights, first);
  const double target = uniform * total;
  double before = 0.0;
  int last = fallback; // rounding may leave every sum inside a group at or below the target
  for (size_t first = 0; first < weights.size(); first += group) {
    const double sum = group_sum(weights, first);
    if (before + sum <= target) {
      before += sum;
      continue;
    }
    double inside = before;
    for (size_t i = first; i < std::min(first + group, weights.size()); ++i) {
      if (weights[i] <= 0.0F)
        continue;
      inside += static_cast<double>(weights[i]);
      last = static_cast<int>(i);
      if (inside > target)
        return last;
    }
    return last;
  }
  return last;
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

// Weights of one bucket agree in sign, exponent and the first six bits of the mantissa.
constexpr int bucket_shift = 17;
constexpr size_t num_buckets = (0x3F800000U >> bucket_shift) + 1; // up to 1.0
size_t bucket_of(float weight) { return std::bit_cast<uint32_t>(weight) >> bucket_shift; }

// Zeroes every weight outside the nucleus, without sorting more than the bucket in which its edge lies.
void keep_nucleus(std::span<const float> logits, double share_of_total, SamplingScratch& scratch) {
  const std::span<float> weights = scratch.weights;
  scratch.bucket_sums.assign(num_buckets, 0.0);
  for (const float weight : weights)
    scratch.bucket_sums[bucket_of(weight)] += static_cast<double>(weight);
  size_t edge = num_buckets - 1;
  double above = 0.0;
  for (; edge > 0 && above + scratch.bucket_sums[edge] < share_of_total; --edge)
    above += scratch.bucket_sums[edge];
  scratch.candidates.clear();
  for (size_t i = 0; i < weights.size(); ++i)
    if (bucket_of(weights[i]) == edge)
      scratch.candidates.push_back({logits[i], static_cast<int32_t>(i)});
  std::sort(scratch.candidates.begin(), scratch.candidates.end());
  size_t inside = 0;
  while (inside < scratch.candidates.size() && above < share_of_total)
    above += static_cast<double>(weights[static_cast<size_t>(scratch.candidates[inside++].id)]);
  for (size_t i = inside; i < scratch.candidates.size(); ++i)
    weights[static_cast<size_t>(scratch.candidates[i].id)] = 0.0F;
  for (float& weight : weights)
    if (bucket_of(weight) < edge)
      weight = 0.0F;
}

// The nucleus is usually small: look among the best before looking at all.
constexpr int usual_nucleus = 128;

int draw_nucleus(const KernelTable& kernels, std::span<const float> logits, double share_of_total,
                 double uniform, int fallback, SamplingScratch& scratch) {
  select_top(kernels, logits, std::min(usual_nucleus, static_cast<int>(logits.size())), scratch);
  if (cut_at_share(scratch.candidates, scratch.weights, share_of_total))
    return draw_candidate(scratch.candidates, scratch.weights, uniform);
  keep_nucleus(logits, share_of_total, scratch);
  return draw_from_all(scratch.weights, uniform, fallback);
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
    return scan.argmax; // a bias or penalty made the best logit infinite
  const bool top_k = params.top_k > 0 && params.top_k < vocab;
  const double top_p = static_cast<double>(params.top_p);
  if (!top_k && params.top_p >= 1.0F)
    return draw_from_all(scratch.weights, uniform, scan.argmax);
  if (!top_k)
    return draw_nucleus(kernels, logits, top_p * total, uniform, scan.argmax, scratch);
  select_top(kernels, logits, params.top_k, scratch);
  cut_at_share(scratch.candidates, scratch.weights, top_p * sum_weights(scratch.candidates, scratch.weights));
  return draw_candidate(scratch.candidates, scratch.weights, uniform);
}

} // namespace vllm_rs
