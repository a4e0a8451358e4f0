// CPU features, instruction set, thread pool, random numbers.
#include "module.hpp"

#include "vllm_rs/aligned_buffer.hpp"
#include "vllm_rs/isa.hpp"
#include "vllm_rs/kernels.hpp"
#include "vllm_rs/philox.hpp"
#include "vllm_rs/roofline.hpp"
#include "vllm_rs/thread_pool.hpp"

#include <pybind11/stl.h>

#include <map>
#include <memory>

namespace vllm_rs::bind {

namespace py = pybind11;

namespace {

std::map<std::string, bool> features() {
  const CpuFeatures& f = cpu_features();
  return {{"avx2", f.avx2},
          {"fma", f.fma},
          {"f16c", f.f16c},
          {"avx512f", f.avx512f},
          {"avx512_bf16", f.avx512_bf16},
          {"avx512_vnni", f.avx512_vnni},
          {"amx_bf16", f.amx_bf16},
          {"amx_int8", f.amx_int8}};
}

} // namespace

static std::map<std::string, double> roofline(ThreadPool& pool, int64_t num_bytes, int rounds) {
  const py::gil_scoped_release release;
  const Roofline r = measure_roofline(pool, num_bytes, rounds);
  return {{"read_bytes_per_s", r.read_bytes_per_s},
          {"bf16_flops_per_s", r.bf16_flops_per_s},
          {"f32_flops_per_s", r.f32_flops_per_s},
          {"phase_s", r.phase_s}};
}

uint64_t seed_bits(const py::int_& seed) {
  const uint64_t bits = PyLong_AsUnsignedLongLongMask(seed.ptr());
  if (bits == static_cast<uint64_t>(-1) && PyErr_Occurred() != nullptr)
    throw py::error_already_set();
  return bits;
}

void bind_runtime(py::module_& module) {
  module.def("cpu_features", features);
  module.def("available_isas", available_isas);
  module.def("selected_isa", [] { return std::string(kernels().name); });
  module.def("set_isa", [](const std::string& name) { set_isa(name); }, py::arg("name"));
  module.def(
      "philox_uniform",
      [](const py::int_& seed, uint64_t position, uint32_t stream) {
        return philox_uniform(seed_bits(seed), position, stream);
      },
      py::arg("seed"), py::arg("position"), py::arg("stream"));
  module.def("allocation_count", &AlignedBuffer::count);
  module.def("measure_roofline", &roofline, py::arg("pool"), py::arg("num_bytes") = 256 << 20,
             py::arg("rounds") = 5);
  py::class_<ThreadPool, std::shared_ptr<ThreadPool>>(module, "ThreadPool")
      .def(py::init([](int num_threads, const std::vector<int>& pin_cpus) {
             return std::make_shared<ThreadPool>(num_threads, pin_cpus);
           }),
           py::arg("num_threads"), py::arg("pin_cpus") = std::vector<int>{})
      .def_property_readonly("num_threads", &ThreadPool::num_threads);
}

} // namespace vllm_rs::bind
