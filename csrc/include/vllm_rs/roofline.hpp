// The limits of this machine as our own inner loops meet them: the yardstick for every kernel's speed.
#pragma once

#include "vllm_rs/thread_pool.hpp"

namespace vllm_rs {

struct Roofline {
  double read_bytes_per_s; // all threads reading a buffer far larger than the caches
  double bf16_flops_per_s; // all threads, selected instruction set, operands in registers
  double f32_flops_per_s;
  double phase_s; // one phase of shared work with nothing in it
};

// Best of `rounds`; the buffer is num_bytes large.
Roofline measure_roofline(ThreadPool& pool, int64_t num_bytes, int rounds);

} // namespace vllm_rs
