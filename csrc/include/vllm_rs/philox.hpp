// Philox4x32-10, the counter-based generator of Salmon et al. (2011): a draw is a pure function of its
// coordinates.
#pragma once

#include <array>
#include <cstdint>

namespace vllm_rs {

inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t low = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t high = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(high >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(high),
               static_cast<uint32_t>(low >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(low)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

// Uniform in [0, 1) with 53 random bits; key = seed, counter = (position, stream).
inline double philox_uniform(uint64_t seed, uint64_t position, uint32_t stream) {
  const auto bits =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t mantissa = (uint64_t{bits[0]} << 21) | (bits[1] >> 11);
  return static_cast<double>(mantissa) * 0x1.0p-53;
}

} // namespace vllm_rs
