#include "vllm_rs/roofline.hpp"

#include "vllm_rs/aligned_buffer.hpp"
#include "vllm_rs/check.hpp"
#include "vllm_rs/isa.hpp"
#include "vllm_rs/kernels.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

namespace vllm_rs {
namespace {

constexpr int64_t chunk_bytes = 1 << 20;
constexpr int peak_steps = 200'000;
constexpr size_t phases = 1000;

template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_peak(ThreadPool& pool, double (*peak)(int, float*), int rounds) {
  double best = 0.0;
  const int threads = pool.num_threads();
  for (int round = 0; round < rounds; ++round) {
    WorkQueue queue;
    std::atomic<double> flops{0.0};
    const double seconds = seconds_of([&] {
      pool.run([&](int) {
        queue.drain(pool, threads, 1, [&](int64_t, int64_t) {
          alignas(64) float sink[16];
          flops.fetch_add(peak(peak_steps, sink));
        });
      });
    });
    best = std::max(best, flops.load() / seconds);
  }
  return best;
}

double best_read(ThreadPool& pool, int64_t num_bytes, int rounds) {
  const AlignedBuffer buffer(static_cast<size_t>(num_bytes), Pages::huge);
  std::memset(buffer.data(), 1, buffer.size());
  double best = 0.0;
  for (int round = 0; round < rounds; ++round) {
    WorkQueue queue;
    const double seconds = seconds_of([&] {
      pool.run([&](int) {
        alignas(64) float sink[16];
        queue.drain(pool, num_bytes, chunk_bytes, [&](int64_t begin, int64_t end) {
          kernels().read_bytes(buffer.data() + begin, end - begin, sink);
        });
      });
    });
    best = std::max(best, static_cast<double>(num_bytes) / seconds);
  }
  return best;
}

} // namespace

Roofline measure_roofline(ThreadPool& pool, int64_t num_bytes, int rounds) {
  check_range("num_bytes", num_bytes, chunk_bytes, int64_t{1} << 40);
  check_range("rounds", rounds, 1, 1000);
  const int64_t whole_chunks = num_bytes / chunk_bytes * chunk_bytes;
  Roofline result{};
  result.read_bytes_per_s = best_read(pool, whole_chunks, rounds);
  result.bf16_flops_per_s = best_peak(pool, kernels().peak_bf16, rounds);
  result.f32_flops_per_s = best_peak(pool, kernels().peak_f32, rounds);
  result.phase_s = 1.0;
  std::vector<WorkQueue> queues(phases);
  for (int round = 0; round < rounds; ++round) {
    for (WorkQueue& queue : queues)
      queue.reset();
    const double seconds = seconds_of([&] {
      pool.run([&](int) {
        for (WorkQueue& queue : queues)
          queue.drain(pool, pool.num_threads(), 1, [](int64_t, int64_t) {});
      });
    });
    result.phase_s = std::min(result.phase_s, seconds / phases);
  }
  return result;
}

} // namespace vllm_rs
