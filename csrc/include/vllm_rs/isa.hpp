// What this CPU offers, and which kernel set is in use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vllm_rs {

struct KernelTable;

struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512f = false; // with BW, DQ and VL, as our kernels need them together
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool amx_bf16 = false; // the kernel has also granted the tile registers
  bool amx_int8 = false;
};

// Detected once; the first call asks the kernel for the AMX tile registers, so it must precede any thread.
const CpuFeatures& cpu_features();

// Names of the kernel sets that may run here, best first.
std::vector<std::string> available_isas();
const KernelTable& kernels();
// Throws ArgumentError listing available_isas(). "amx_emulated" runs the AMX kernels on emulated tiles
// (tests).
void set_isa(std::string_view name);

} // namespace vllm_rs
