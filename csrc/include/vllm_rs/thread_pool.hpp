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

  // Runs body(worker) on the caller, as worker 0, and on every other worker that comes while it runs; returns
  // when all that came have left. A worker whose core is busy elsewhere is not waited for, so body shares its
  // work by `drain`. body must not throw. Calls from several threads take turns; a call from inside body
  // would never return.
  template <class Body>
  void run(Body&& body) {
    run_erased(
        [](void* context, int worker) { (*static_cast<std::remove_reference_t<Body>*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

private:
  friend class WorkQueue;
  using Call = void (*)(void* context, int worker);
  void run_erased(Call call, void* context);
  void worker_loop(int worker);

  int num_threads_;
  std::mutex turn_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  WaitCounter jobs_;     // advanced when a job opens
  WaitCounter progress_; // advanced when a queue is finished, and when the last worker leaves a closed job
  alignas(64) std::atomic<uint32_t> inside_; // workers in the open job, and whether it is closed
  std::vector<std::thread> threads_;
};

// One phase of shared work: an index range dealt out in chunks to whichever worker is free. The phase is over
// when every chunk is done, not when every worker has arrived: who comes late finds nothing to do and goes
// on.
class alignas(64) WorkQueue {
public:
  void reset() {
    next_.store(0, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
  }

  // Runs body(begin, end) over chunks of [0, count); returns when the whole range is done. Every worker
  // passes the same pool, count and grain.
  template <class Body>
  void drain(ThreadPool& pool, int64_t count, int64_t grain, Body&& body) {
    if (pool.num_threads() == 1) {
      for (int64_t begin = 0; begin < count; begin += grain)
        body(begin, begin + grain < count ? begin + grain : count);
      return;
    }
    for (int64_t begin = claim(grain); begin < count; begin = claim(grain)) {
      const int64_t end = begin + grain < count ? begin + grain : count;
      body(begin, end);
      if (done_.fetch_add(end - begin, std::memory_order_acq_rel) + end - begin == count)
        pool.progress_.advance();
    }
    wait(pool, count);
  }

private:
  int64_t claim(int64_t grain) { return next_.fetch_add(grain, std::memory_order_relaxed); }
  void wait(const ThreadPool& pool, int64_t count) const;

  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> done_{0};
};

} // namespace vllm_rs
