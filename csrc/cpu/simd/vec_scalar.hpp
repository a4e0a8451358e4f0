// Sixteen f32 lanes in plain C++: the portable kernels, and the reference for the others.
#pragma once

#include "vllm_rs/dtype.hpp"

#include <cmath>
#include <cstring>

namespace vllm_rs {
namespace {

struct Vec {
  static constexpr bool many_registers = false; // 32 vectors rather than 8: shapes the register tiles
  struct F {
    float x[16];
  };

  template <class Fn>
  static F map(Fn fn) {
    F r;
    for (int i = 0; i < 16; ++i)
      r.x[i] = fn(i);
    return r;
  }
  static F zero() { return set1(0.0F); }
  static F set1(float v) {
    return map([&](int) { return v; });
  }
  static F load(const float* p) {
    F r;
    std::memcpy(r.x, p, sizeof(r.x));
    return r;
  }
  static F load_n(const float* p, int n, float fill = 0.0F) {
    return map([&](int i) { return i < n ? p[i] : fill; });
  }
  static void store(float* p, F v) { std::memcpy(p, v.x, sizeof(v.x)); }
  static void store_n(float* p, F v, int n) {
    for (int i = 0; i < n && i < 16; ++i)
      p[i] = v.x[i];
  }
  static F load_bf16(const uint16_t* p) {
    return map([&](int i) { return bf16_to_f32(p[i]); });
  }
  static F load_bf16_n(const uint16_t* p, int n) {
    return map([&](int i) { return i < n ? bf16_to_f32(p[i]) : 0.0F; });
  }
  static void store_bf16(uint16_t* p, F v) { store_bf16_n(p, v, 16); }
  static void store_bf16_n(uint16_t* p, F v, int n) {
    for (int i = 0; i < n && i < 16; ++i)
      p[i] = f32_to_bf16(v.x[i]);
  }
  // p[2 i] = even lane i, p[2 i + 1] = odd lane i.
  static void store_bf16_pairs(uint16_t* p, F even, F odd, int n) {
    for (int i = 0; i < n && i < 16; ++i) {
      p[2 * i] = f32_to_bf16(even.x[i]);
      p[2 * i + 1] = f32_to_bf16(odd.x[i]);
    }
  }
  static F add(F a, F b) {
    return map([&](int i) { return a.x[i] + b.x[i]; });
  }
  static F sub(F a, F b) {
    return map([&](int i) { return a.x[i] - b.x[i]; });
  }
  static F mul(F a, F b) {
    return map([&](int i) { return a.x[i] * b.x[i]; });
  }
  static F div(F a, F b) {
    return map([&](int i) { return a.x[i] / b.x[i]; });
  }
  static F fma(F a, F b, F c) {
    return map([&](int i) { return a.x[i] * b.x[i] + c.x[i]; });
  }
  static F max(F a, F b) { // b if either is NaN, as the x86 instruction
    return map([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
  }
  static F min(F a, F b) {
    return map([&](int i) { return a.x[i] < b.x[i] ? a.x[i] : b.x[i]; });
  }
  static F round(F a) {
    return map([&](int i) { return std::nearbyint(a.x[i]); });
  }
  // 2^n for integral n in [-126, 127].
  static F pow2(F n) {
    return map([&](int i) { return std::bit_cast<float>((static_cast<int32_t>(n.x[i]) + 127) << 23); });
  }
  // value where x >= bound, else 0.
  static F keep_at_least(F value, F x, float bound) {
    return map([&](int i) { return x.x[i] >= bound ? value.x[i] : 0.0F; });
  }
  // Lanes [first, last) of x, fill elsewhere.
  static F keep_lanes(F x, int first, int last, float fill) {
    return map([&](int i) { return i >= first && i < last ? x.x[i] : fill; });
  }
  static float sum(F a) {
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i)
        a.x[i] += a.x[i + width];
    return a.x[0];
  }
  static float max_lane(F a) {
    for (int i = 1; i < 16; ++i)
      a.x[0] = a.x[0] > a.x[i] ? a.x[0] : a.x[i];
    return a.x[0];
  }
  static double sum_f64(F a) {
    double s[8];
    for (int i = 0; i < 8; ++i)
      s[i] = static_cast<double>(a.x[i]) + static_cast<double>(a.x[i + 8]);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
  static uint32_t mask_greater(F a, F b) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; ++i)
      mask |= static_cast<uint32_t>(a.x[i] > b.x[i]) << i;
    return mask;
  }
  static uint32_t mask_equal(F a, F b) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; ++i)
      mask |= static_cast<uint32_t>(a.x[i] == b.x[i]) << i;
    return mask;
  }
  // Sixteen (even, odd) bf16 pairs, widened.
  struct Pair {
    F even, odd;
  };
  static Pair load_pairs(const std::byte* p) {
    uint16_t raw[32];
    std::memcpy(raw, p, sizeof(raw));
    return {map([&](int i) { return bf16_to_f32(raw[2 * i]); }),
            map([&](int i) { return bf16_to_f32(raw[2 * i + 1]); })};
  }
  static Pair broadcast_pair(const std::byte* p) {
    uint16_t raw[2];
    std::memcpy(raw, p, sizeof(raw));
    return {set1(bf16_to_f32(raw[0])), set1(bf16_to_f32(raw[1]))};
  }
};

} // namespace
} // namespace vllm_rs
