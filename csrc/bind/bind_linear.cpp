// PackedLinear.
#include "arrays.hpp"
#include "module.hpp"

#include "vllm_rs/packed_linear.hpp"

#include <memory>

namespace vllm_rs::bind {
namespace {

std::shared_ptr<PackedLinear> pack(ThreadPool& pool, const py::array& weight, const std::string& dtype,
                                   const std::optional<py::array>& bias) {
  const DType packed = parse_dtype("dtype", dtype);
  const bool is_f32 = py::isinstance<py::array_t<float>>(weight);
  if (is_f32)
    checked<float>("weight", weight, {-1, -1});
  else if (py::isinstance<py::array_t<uint16_t>>(weight))
    checked<uint16_t>("weight", weight, {-1, -1});
  else
    bad_argument("weight", "a C-contiguous float32 or uint16 (bfloat16) array [n, n]", describe(weight));
  check_range("weight.shape[0]", weight.shape(0), 1, 1 << 24);
  check_range("weight.shape[1]", weight.shape(1), 1, 1 << 20);
  std::optional<std::span<const float>> bias_values;
  if (bias)
    bias_values = checked<float>("bias", *bias, {weight.shape(0)});
  const void* data = weight.data();
  const int out_features = static_cast<int>(weight.shape(0));
  const int in_features = static_cast<int>(weight.shape(1));
  const py::gil_scoped_release release;
  return std::make_shared<PackedLinear>(pool, data, is_f32 ? DType::f32 : DType::bf16, out_features,
                                        in_features, packed, bias_values);
}

py::array_t<float> unpack(const PackedLinear& linear) {
  py::array_t<float> out({linear.out_features(), linear.in_features()});
  float* data = out.mutable_data();
  const py::gil_scoped_release release;
  for (int row = 0; row < linear.out_features(); ++row)
    linear.read_row(row, data + static_cast<int64_t>(row) * linear.in_features());
  return out;
}

} // namespace

void bind_linear(py::module_& module) {
  py::class_<PackedLinear, std::shared_ptr<PackedLinear>>(module, "PackedLinear")
      .def_static("pack", &pack, py::arg("pool"), py::arg("weight"), py::arg("dtype"),
                  py::arg("bias") = py::none())
      .def_property_readonly("out_features", &PackedLinear::out_features)
      .def_property_readonly("in_features", &PackedLinear::in_features)
      .def_property_readonly("dtype", [](const PackedLinear& linear) { return name_of(linear.dtype()); })
      .def_property_readonly("nbytes", &PackedLinear::nbytes)
      .def("unpack", &unpack);
}

} // namespace vllm_rs::bind
