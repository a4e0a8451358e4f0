// Element types of weights, activations and the KV cache, and the scalar bf16 conversions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace vllm_rs {

// Kernel translation units are built with other flags than the rest, so every function they share with it
// must be inlined: a copy emitted there could be the one the linker keeps for all.
#define VLLM_RS_INLINE [[gnu::always_inline]] inline

enum class DType : uint8_t { f32, bf16 };

VLLM_RS_INLINE constexpr int64_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }
VLLM_RS_INLINE constexpr const char* name_of(DType dtype) {
  return dtype == DType::f32 ? "float32" : "bfloat16";
}

VLLM_RS_INLINE float bf16_to_f32(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
VLLM_RS_INLINE uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U)
    return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

VLLM_RS_INLINE constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
VLLM_RS_INLINE constexpr int64_t ceil_div(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

} // namespace vllm_rs
