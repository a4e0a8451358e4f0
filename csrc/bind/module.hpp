// One function per group of Python classes.
#pragma once

#include <pybind11/pybind11.h>

namespace vllm_rs::bind {

void bind_runtime(pybind11::module_& module);
void bind_linear(pybind11::module_& module);
void bind_kv_cache(pybind11::module_& module);
void bind_program(pybind11::module_& module);
void bind_sampler(pybind11::module_& module);

} // namespace vllm_rs::bind
