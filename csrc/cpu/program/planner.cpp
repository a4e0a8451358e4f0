#include "vllm_rs/program.hpp"

#include <algorithm>
#include <numeric>

namespace vllm_rs {

// Largest buffers first, each at the lowest offset that is free during its whole life.
int64_t plan_offsets(const std::vector<Lifetime>& lifetimes, std::vector<int64_t>& offsets) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> placed;
  int64_t total = 0;
  for (const size_t current : order) {
    const Lifetime& life = lifetimes[current];
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const size_t other : placed)
      if (lifetimes[other].first_use <= life.last_use && life.first_use <= lifetimes[other].last_use)
        taken.emplace_back(offsets[other], offsets[other] + lifetimes[other].bytes);
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + life.bytes <= begin)
        break;
      offset = std::max(offset, end);
    }
    offsets[current] = offset;
    total = std::max(total, offset + life.bytes);
    placed.push_back(current);
  }
  return total;
}

} // namespace vllm_rs
