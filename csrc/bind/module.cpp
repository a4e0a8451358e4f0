#include "module.hpp"

#include "vllm_rs/check.hpp"
#include "vllm_rs/isa.hpp"

PYBIND11_MODULE(_cpu, module) {
  vllm_rs::cpu_features(); // asks for the AMX tile registers before any thread of ours exists
  vllm_rs::bind::bind_runtime(module);
  vllm_rs::bind::bind_linear(module);
  vllm_rs::bind::bind_kv_cache(module);
  vllm_rs::bind::bind_program(module);
  vllm_rs::bind::bind_sampler(module);
}
