#include "vllm_rs/isa.hpp"

#include "vllm_rs/check.hpp"
#include "vllm_rs/kernels.hpp"

#include <atomic>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace vllm_rs {
namespace {

#if defined(__x86_64__)
struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers query(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(uint32_t word, int index) { return ((word >> index) & 1U) != 0; }

uint64_t enabled_state() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux grants the 8 KiB of tile registers on request only.
bool request_tile_registers() {
  constexpr int arch_req_xcomp_perm = 0x1023;
  constexpr int tile_data = 18;
  return syscall(SYS_arch_prctl, arch_req_xcomp_perm, tile_data) == 0;
}

CpuFeatures detect() {
  CpuFeatures features;
  const Registers basic = query(1, 0);
  if (!bit(basic.ecx, 27)) // OSXSAVE: without it no vector state is usable
    return features;
  const uint64_t state = enabled_state();
  const bool ymm = (state & 0x6) == 0x6;
  const bool zmm = (state & 0xe6) == 0xe6;
  const bool tiles = (state & 0x60000) == 0x60000;
  const Registers extended = query(7, 0);
  const Registers more = query(7, 1);
  features.fma = ymm && bit(basic.ecx, 12);
  features.f16c = ymm && bit(basic.ecx, 29);
  features.avx2 = ymm && bit(extended.ebx, 5);
  features.avx512f =
      zmm && bit(extended.ebx, 16) && bit(extended.ebx, 17) && bit(extended.ebx, 30) && bit(extended.ebx, 31);
  features.avx512_bf16 = features.avx512f && bit(more.eax, 5);
  features.avx512_vnni = features.avx512f && bit(extended.ecx, 11);
  const bool granted = tiles && bit(extended.edx, 24) && request_tile_registers();
  features.amx_bf16 = granted && bit(extended.edx, 22);
  features.amx_int8 = granted && bit(extended.edx, 25);
  return features;
}
#else
CpuFeatures detect() { return {}; }
#endif

struct Candidate {
  const char* name;
  const KernelTable& (*table)();
  bool (*runs)(const CpuFeatures&);
  bool on_by_default;
};

// Best first. AMX stays off by default until its kernels have run on the hardware.
const Candidate candidates[] = {
#if defined(__x86_64__)
    {"amx", amx_kernels, [](const CpuFeatures& f) { return f.amx_bf16 && f.avx512_bf16; }, false},
    {"avx512_bf16", avx512_bf16_kernels, [](const CpuFeatures& f) { return f.avx512_bf16; }, true},
    {"avx512", avx512_kernels, [](const CpuFeatures& f) { return f.avx512f; }, true},
    {"avx2", avx2_kernels, [](const CpuFeatures& f) { return f.avx2 && f.fma; }, true},
#endif
    {"scalar", scalar_kernels, [](const CpuFeatures&) { return true; }, true},
};

const KernelTable* best_default() {
  for (const Candidate& candidate : candidates)
    if (candidate.on_by_default && candidate.runs(cpu_features()))
      return &candidate.table();
  return &scalar_kernels();
}

std::atomic<const KernelTable*>& selection() {
  static std::atomic<const KernelTable*> selected{best_default()};
  return selected;
}

} // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates)
    if (candidate.runs(cpu_features()))
      names.emplace_back(candidate.name);
  return names;
}

const KernelTable& kernels() { return *selection().load(std::memory_order_acquire); }

void set_isa(std::string_view name) {
  for (const Candidate& candidate : candidates)
    if (name == candidate.name && candidate.runs(cpu_features())) {
      selection().store(&candidate.table(), std::memory_order_release);
      return;
    }
#if defined(__x86_64__)
  if (name == "amx_emulated") {
    selection().store(&amx_emulated_kernels(), std::memory_order_release);
    return;
  }
#endif
  std::string expected = "one of";
  for (const std::string& available : available_isas())
    expected.append(" ").append(available);
  bad_argument("name", expected, name);
}

} // namespace vllm_rs
