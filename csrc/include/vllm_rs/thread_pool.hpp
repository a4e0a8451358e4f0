// Persistent worker threads for short kernels. The calling thread is worker 0; with one thread nothing is
// shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace vllm_rs {

// A counter that lets any number of threads wait for its change: spin briefly, then sleep on a futex.
class WaitCounter {
public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void advance();
  void wait_while(uint32_t old_value, int spins) const;

private:
  alignas(64) std::atomic<uint32_t> value_{0};
  mutable std::atomic<int32_t> sleepers_{0};
};

class ThreadPool {
public:
  // pin_cpus: empty, or one CPU number per thread; the caller (worker 0) is never pinned.
  ThreadPool(int num_threads, std::span<const int> pin_cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Runs body(worker) once on every worker and returns when all have returned. body must not throw.
  // Calls from several threads take turns; a call from inside body would never return.
  template <class Body>
  void run(Body&& body) {
    run_erased(
        [](void* context, int worker) { (*static_cast<std::remove_reference_t<Body>*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  // Inside run: returns when every worker has arrived.
  void barrier();

private:
  using Call = void (*)(void* context, int worker);
  void run_erased(Call call, void* context);
  void worker_loop(int worker);

  int num_threads_;
  std::mutex turn_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  WaitCounter jobs_;
  WaitCounter barriers_;
  alignas(64) std::atomic<int> arrived_{0};
  std::vector<std::thread> threads_;
};

// Hands out consecutive chunks of an index range to whichever worker is free.
class alignas(64) WorkQueue {
public:
  void reset() { next_.store(0, std::memory_order_relaxed); }
  int64_t claim(int64_t grain) { return next_.fetch_add(grain, std::memory_order_relaxed); }

private:
  std::atomic<int64_t> next_{0};
};

// Runs body(begin, end) over chunks of [0, count) until the queue is empty.
template <class Body>
void drain(WorkQueue& queue, int num_threads, int64_t count, int64_t grain, Body&& body) {
  if (num_threads == 1) {
    for (int64_t begin = 0; begin < count; begin += grain)
      body(begin, begin + grain < count ? begin + grain : count);
    return;
  }
  for (int64_t begin = queue.claim(grain); begin < count; begin = queue.claim(grain))
    body(begin, begin + grain < count ? begin + grain : count);
}

} // namespace vllm_rs
