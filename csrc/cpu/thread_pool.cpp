#include "vllm_rs/thread_pool.hpp"

#include "vllm_rs/check.hpp"

#include <climits>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace vllm_rs {
namespace {

// About 20 µs for the end of a phase inside a step, and 50 µs for the gap between two calls of one step.
constexpr int phase_spins = 1000;
constexpr int job_spins = 2500;

constexpr uint32_t job_closed = 1U << 31;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

uint32_t* futex_word(const std::atomic<uint32_t>& value) {
  return const_cast<uint32_t*>(reinterpret_cast<const uint32_t*>(&value));
}

// Checked before any thread starts, so that a refusal leaves nothing running.
void check_pins(std::span<const int> pin_cpus, int num_threads) {
  if (pin_cpus.empty())
    return;
  if (pin_cpus.size() != static_cast<size_t>(num_threads))
    bad_argument("pin_cpus", std::to_string(num_threads) + " CPU numbers",
                 static_cast<int64_t>(pin_cpus.size()));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  for (const int cpu : pin_cpus)
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed))
      bad_argument("pin_cpus", "CPUs this process may use", cpu);
}

void pin_to_cpu(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread, sizeof(set),
                         &set); // the CPU may have gone offline since the check: run unpinned
}

} // namespace

void WaitCounter::advance() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0)
    syscall(SYS_futex, futex_word(value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void WaitCounter::wait_while(uint32_t old_value, int spins) const {
  for (int spin = 0; spin < spins; ++spin) {
    if (value_.load(std::memory_order_acquire) != old_value)
      return;
    pause_cpu();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == old_value)
    syscall(SYS_futex, futex_word(value_), FUTEX_WAIT_PRIVATE, old_value, nullptr, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

ThreadPool::ThreadPool(int num_threads, std::span<const int> pin_cpus)
    : num_threads_(num_threads), inside_(job_closed) {
  check_range("num_threads", num_threads, 1, 1024);
  check_pins(pin_cpus, num_threads);
  threads_.reserve(static_cast<size_t>(num_threads - 1));
  for (int worker = 1; worker < num_threads; ++worker) {
    threads_.emplace_back([this, worker] { worker_loop(worker); });
    pthread_setname_np(threads_.back().native_handle(), "vllm-rs-kernel");
  }
  for (size_t worker = 1; worker < pin_cpus.size(); ++worker)
    pin_to_cpu(threads_[worker - 1].native_handle(), pin_cpus[worker]);
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_release);
  jobs_.advance();
  for (std::thread& thread : threads_)
    thread.join();
}

void ThreadPool::run_erased(Call call, void* context) {
  const std::lock_guard lock(turn_);
  if (num_threads_ == 1) {
    call(context, 0);
    return;
  }
  call_ = call;
  context_ = context;
  inside_.fetch_and(~job_closed,
                    std::memory_order_acq_rel); // a late worker may be passing through: keep its count
  jobs_.advance();
  call(context, 0);
  inside_.fetch_or(job_closed, std::memory_order_acq_rel);
  for (;;) {
    const uint32_t seen = progress_.value();
    if (inside_.load(std::memory_order_acquire) == job_closed)
      return;
    progress_.wait_while(seen, phase_spins);
  }
}

void ThreadPool::worker_loop(int worker) {
  for (uint32_t seen = 0;;) {
    jobs_.wait_while(seen, job_spins);
    if (stopping_.load(std::memory_order_acquire))
      return;
    seen = jobs_.value();
    if ((inside_.fetch_add(1, std::memory_order_acq_rel) & job_closed) == 0)
      call_(context_, worker);
    if (inside_.fetch_sub(1, std::memory_order_acq_rel) == (job_closed | 1U))
      progress_.advance();
  }
}

void WorkQueue::wait(const ThreadPool& pool, int64_t count) const {
  for (;;) {
    const uint32_t seen = pool.progress_.value();
    if (done_.load(std::memory_order_acquire) >= count)
      return;
    pool.progress_.wait_while(seen, phase_spins);
  }
}

} // namespace vllm_rs
