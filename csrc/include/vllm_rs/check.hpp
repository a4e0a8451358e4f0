// Argument checks: every refusal names the argument, what was expected and what was given.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vllm_rs {

// Becomes ValueError in Python.
class ArgumentError : public std::invalid_argument {
public:
  using std::invalid_argument::invalid_argument;
};

// Becomes RuntimeError in Python: the call is not possible in the object's present state.
class StateError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void bad_argument(std::string_view name, std::string_view expected,
                                      std::string_view given) {
  std::string message(name);
  message.append(": expected ").append(expected).append(", got ").append(given);
  throw ArgumentError(message);
}

[[noreturn]] inline void bad_argument(std::string_view name, std::string_view expected, int64_t given) {
  bad_argument(name, expected, std::to_string(given));
}

inline void check_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return;
  bad_argument(name, std::to_string(low) + " to " + std::to_string(high), value);
}

inline void check_equal(std::string_view name, int64_t value, int64_t expected) {
  if (value != expected)
    bad_argument(name, std::to_string(expected), value);
}

} // namespace vllm_rs
