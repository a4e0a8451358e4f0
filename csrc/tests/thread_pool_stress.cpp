// Many short jobs over shared counters: every index is done exactly once, in phase order, whoever comes late.
// Meant for -fsanitize=thread: cmake -DVLLM_RS_TESTS=ON -DCMAKE_CXX_FLAGS=-fsanitize=thread.
#include "vllm_rs/thread_pool.hpp"

#include <cstdio>
#include <vector>

namespace {

constexpr int num_jobs = 3000;
constexpr size_t num_phases = 8; // even: every job starts from values[0]
constexpr int64_t range = 37;

// Plain memory on purpose: phase p reads what phase p - 1 wrote elsewhere, and only the pool orders the two.
bool run_jobs(int num_threads) {
  vllm_rs::ThreadPool pool(num_threads, {});
  std::vector<vllm_rs::WorkQueue> queues(num_phases);
  std::vector<int64_t> values[2] = {std::vector<int64_t>(range, 0), std::vector<int64_t>(range, 0)};
  for (int job = 0; job < num_jobs; ++job) {
    for (vllm_rs::WorkQueue& queue : queues)
      queue.reset();
    pool.run([&](int) {
      for (size_t phase = 0; phase < num_phases; ++phase) {
        const std::vector<int64_t>& from = values[phase % 2];
        std::vector<int64_t>& to = values[(phase + 1) % 2];
        queues[phase].drain(pool, range, 1 + static_cast<int64_t>(phase), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            to[static_cast<size_t>(i)] = from[static_cast<size_t>((i + 1) % range)] + 1;
        });
      }
    });
  }
  for (const int64_t value : values[0])
    if (value != int64_t{num_jobs} * num_phases)
      return false;
  return true;
}

} // namespace

int main() {
  for (const int num_threads : {1, 2, 3, 5}) {
    if (!run_jobs(num_threads)) {
      std::printf("wrong count with %d threads\n", num_threads);
      return 1;
    }
  }
  return 0;
}
