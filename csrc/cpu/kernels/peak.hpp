// What this core can do at best: the inner steps on registers alone, and loads alone. For the roofline.
#pragma once

#include "dot.hpp"

namespace vllm_rs {
namespace {

// Independent chains: enough to hide the latency of a step, few enough for the registers.
constexpr int peak_chains = Vec::many_registers ? 24 : 5;

// Runs `steps` steps on each chain; returns the floating-point operations done, through out so that they are.
template <class Dot>
double dot_peak(int steps, float* out) {
  alignas(64) std::byte ones[64];
  for (int i = 0; i < 16; ++i) {
    const float one = 1.0F;
    __builtin_memcpy(ones + 4 * i, &one, 4);
  }
  const typename Dot::A a = Dot::load_a(ones);
  const typename Dot::B b = Dot::load_b(ones);
  Vec::F acc[peak_chains];
#pragma GCC unroll 32
  for (int i = 0; i < peak_chains; ++i)
    acc[i] = Vec::set1(static_cast<float>(i));
  for (int s = 0; s < steps; ++s)
#pragma GCC unroll 32
    for (int i = 0; i < peak_chains; ++i)
      acc[i] = Dot::step(acc[i], a, b);
  Vec::F total = Vec::zero();
#pragma GCC unroll 32
  for (int i = 0; i < peak_chains; ++i)
    total = Vec::add(total, acc[i]);
  Vec::store(out, total);
  return 2.0 * Dot::k_per_step * 16 * peak_chains * static_cast<double>(steps);
}

// Loads num_bytes (a multiple of 256) once.
void read_bytes(const std::byte* data, int64_t num_bytes, float* out) {
  Vec::F sums[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  for (int64_t i = 0; i < num_bytes; i += 256)
    for (int j = 0; j < 4; ++j)
      sums[j] = Vec::max(sums[j], Vec::load(reinterpret_cast<const float*>(data + i + 64 * j)));
  Vec::store(out, Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])));
}

} // namespace
} // namespace vllm_rs
