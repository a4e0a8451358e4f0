// One pass over a row of logits: maximum, sums of exponentials, counts. Used by the sampler.
#pragma once

#include "math.hpp"

namespace vllm_rs {
namespace {

constexpr float minus_infinity = -__builtin_inff();

// Four independent chains keep the loop at the speed of the loads.
SampleScan scan_row(const float* x, int n) {
  const Vec::F top = Vec::set1(__builtin_inff());
  const Vec::F bottom = Vec::set1(minus_infinity);
  Vec::F best[4] = {bottom, bottom, bottom, bottom};
  int finite = 0;
  for (int i = 0; i < n; i += 64)
    for (int j = 0; j < 4; ++j) {
      const Vec::F v = Vec::load_n(x + i + 16 * j, n - i - 16 * j, minus_infinity);
      best[j] = Vec::max(v, best[j]); // a NaN in v yields best
      finite += __builtin_popcount(Vec::mask_greater(v, bottom) & Vec::mask_greater(top, v));
    }
  const float max = Vec::max_lane(Vec::max(Vec::max(best[0], best[1]), Vec::max(best[2], best[3])));
  const Vec::F wanted = Vec::set1(max);
  for (int i = 0; max > minus_infinity && i < n; i += 16) {
    const uint32_t mask = Vec::mask_equal(Vec::load_n(x + i, n - i, minus_infinity), wanted);
    if (mask != 0)
      return {max, i + __builtin_ctz(mask), n - finite};
  }
  return {max, 0, n - finite};
}

double exp_sum_row(const float* x, float max, int n) {
  const Vec::F shift = Vec::set1(max);
  double total = 0.0;
  for (int i = 0; i < n; i += 64) {
    Vec::F block = Vec::zero();
    for (int j = i; j < i + 64; j += 16)
      block = Vec::add(block, exp(Vec::sub(Vec::load_n(x + j, n - j, minus_infinity), shift)));
    total += Vec::sum_f64(block);
  }
  return total;
}

double exp_store_row(float* out, const float* x, float max, float scale, float floor, int n) {
  double total = 0.0;
  for (int i = 0; i < n; i += 16) {
    const Vec::F distance = Vec::sub(Vec::load_n(x + i, n - i, minus_infinity), Vec::set1(max));
    Vec::F weight = exp(Vec::mul(distance, Vec::set1(scale)));
    weight = Vec::keep_at_least(weight, weight, floor);
    Vec::store_n(out + i, weight, n - i);
    total += Vec::sum_f64(weight);
  }
  return total;
}

void group_max_row(float* out, const float* x, int n, int group_size) {
  for (int first = 0; first < n; first += group_size) {
    Vec::F best = Vec::set1(minus_infinity);
    const int last = first + group_size < n ? first + group_size : n;
    for (int i = first; i < last; i += 16)
      best = Vec::max(Vec::load_n(x + i, last - i, minus_infinity), best);
    *out++ = Vec::max_lane(best);
  }
}

int count_greater_row(const float* x, float than, int n) {
  const Vec::F bound = Vec::set1(than);
  int count = 0;
  for (int i = 0; i < n; i += 16)
    count += __builtin_popcount(Vec::mask_greater(Vec::load_n(x + i, n - i, minus_infinity), bound));
  return count;
}

} // namespace
} // namespace vllm_rs
