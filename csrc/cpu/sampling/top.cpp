// The k best of a row without sorting it: maxima of groups bound the k-th best from below.
#include "vllm_rs/sampling.hpp"

#include <algorithm>

namespace vllm_rs {
namespace {

constexpr size_t coarse_group = 64;
constexpr size_t fine_group = 16;

void keep_best(std::vector<Candidate>& candidates, size_t k) {
  if (candidates.size() > k) {
    const auto end = candidates.begin() + static_cast<long>(k);
    std::nth_element(candidates.begin(), end, candidates.end());
    candidates.erase(end, candidates.end());
  }
  std::sort(candidates.begin(), candidates.end());
}

} // namespace

void select_top(const KernelTable& kernels, std::span<const float> x, int k, SamplingScratch& scratch) {
  std::vector<Candidate>& found = scratch.candidates;
  found.clear();
  const auto wanted = static_cast<size_t>(k);
  const auto take = [&](size_t i, float bound) {
    if (x[i] >= bound) // false for NaN
      found.push_back({x[i], static_cast<int32_t>(i)});
  };
  const size_t group = x.size() / coarse_group >= 2 * wanted ? coarse_group : fine_group;
  const size_t num_groups = (x.size() + group - 1) / group;
  if (num_groups <= wanted) {
    for (size_t i = 0; i < x.size(); ++i)
      take(i, -__builtin_inff());
    keep_best(found, wanted);
    return;
  }
  scratch.maxima.resize(num_groups);
  kernels.group_max(scratch.maxima.data(), x.data(), static_cast<int>(x.size()), static_cast<int>(group));
  scratch.ranked_maxima = scratch.maxima;
  const auto nth = scratch.ranked_maxima.begin() + static_cast<long>(wanted) - 1;
  std::nth_element(scratch.ranked_maxima.begin(), nth, scratch.ranked_maxima.end(), std::greater<>());
  for (size_t g = 0; g < num_groups; ++g)
    if (scratch.maxima[g] >= *nth)
      for (size_t i = g * group; i < std::min(x.size(), (g + 1) * group); ++i)
        take(i, *nth);
  keep_best(found, wanted);
}

} // namespace vllm_rs
