// KVCache.
#include "arrays.hpp"
#include "module.hpp"

#include "vllm_rs/kv_cache.hpp"

#include <memory>

namespace vllm_rs::bind {
namespace {

std::vector<int64_t> block_shape(const KVCache& cache) {
  const KvLayout& layout = cache.layout();
  return {layout.block_size, layout.num_kv_heads, layout.head_dim};
}

py::tuple read(const KVCache& cache, int layer, int64_t block) {
  py::array_t<float> k(block_shape(cache));
  py::array_t<float> v(block_shape(cache));
  cache.read(layer, block, k.mutable_data(), v.mutable_data());
  return py::make_tuple(k, v);
}

void write(KVCache& cache, int layer, int64_t block, const py::array& k, const py::array& v) {
  const auto k_values = checked<float>("k", k, block_shape(cache));
  const auto v_values = checked<float>("v", v, block_shape(cache));
  cache.write(layer, block, k_values.data(), v_values.data());
}

} // namespace

void bind_kv_cache(py::module_& module) {
  py::class_<KVCache, std::shared_ptr<KVCache>>(module, "KVCache")
      .def(py::init([](int num_layers, int64_t num_blocks, int block_size, int num_kv_heads, int head_dim,
                       const std::string& dtype) {
             return std::make_shared<KVCache>(num_layers, num_blocks, block_size, num_kv_heads, head_dim,
                                              parse_dtype("dtype", dtype));
           }),
           py::arg("num_layers"), py::arg("num_blocks"), py::arg("block_size"), py::arg("num_kv_heads"),
           py::arg("head_dim"), py::arg("dtype"))
      .def_property_readonly("nbytes", &KVCache::nbytes)
      .def_property_readonly("num_blocks", &KVCache::num_blocks)
      .def_property_readonly("block_size", [](const KVCache& cache) { return cache.layout().block_size; })
      .def_property_readonly(
          "strides",
          [](const KVCache& cache) { return py::make_tuple(cache.block_stride(), cache.layer_stride()); })
      .def("resident_bytes", &KVCache::resident_bytes, py::call_guard<py::gil_scoped_release>())
      .def("read", &read, py::arg("layer"), py::arg("block"))
      .def("write", &write, py::arg("layer"), py::arg("block"), py::arg("k"), py::arg("v"));
}

} // namespace vllm_rs::bind
