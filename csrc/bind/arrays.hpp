// Checked access to numpy arguments: dtype, rank, contiguity and shape, with errors that name the argument.
#pragma once

#include "vllm_rs/check.hpp"
#include "vllm_rs/dtype.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <span>
#include <string>
#include <vector>

namespace vllm_rs::bind {

namespace py = pybind11;

inline std::string describe(const py::array& array) {
  std::string text = py::str(array.dtype()).cast<std::string>() + " [";
  for (py::ssize_t i = 0; i < array.ndim(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  text += "]";
  return (array.flags() & py::array::c_style) != 0 ? text : text + " not contiguous";
}

// shape: one entry per dimension, -1 = any.
template <class T>
std::span<const T> checked(const char* name, const py::array& array, std::vector<int64_t> shape) {
  bool fits = py::isinstance<py::array_t<T>>(array) &&
              array.ndim() == static_cast<py::ssize_t>(shape.size()) &&
              (array.flags() & py::array::c_style) != 0;
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] < 0 || array.shape(static_cast<py::ssize_t>(i)) == shape[i];
  if (!fits) {
    std::string expected =
        "a C-contiguous " + py::str(py::dtype::of<T>()).template cast<std::string>() + " array [";
    for (size_t i = 0; i < shape.size(); ++i)
      expected += (i > 0 ? ", " : "") + (shape[i] < 0 ? "n" : std::to_string(shape[i]));
    bad_argument(name, expected + "]", describe(array));
  }
  return {static_cast<const T*>(array.data()), static_cast<size_t>(array.size())};
}

template <class T>
std::vector<T> copied(const char* name, const py::array& array) {
  const auto values = checked<T>(name, array, {-1});
  return {values.begin(), values.end()};
}

inline DType parse_dtype(const char* name, const std::string& text) {
  if (text == "float32")
    return DType::f32;
  if (text == "bfloat16")
    return DType::bf16;
  bad_argument(name, "float32 or bfloat16", text);
}

template <class T>
py::array_t<T> to_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

} // namespace vllm_rs::bind
