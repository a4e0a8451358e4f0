// Builds the kernel table of one instruction set from the kernels above. Include after one vec_*.hpp.
#pragma once

#include "attention.hpp"
#include "gemm.hpp"
#include "kv_write.hpp"
#include "peak.hpp"
#include "rows.hpp"
#include "scan.hpp"

namespace vllm_rs {
namespace {

template <class DotBf16>
VLLM_RS_INLINE constexpr KernelTable make_table(const char* name) {
  return {.name = name,
          .gemm_bf16 = gemm<DotBf16>,
          .gemm_f32 = gemm<DotF32>,
          .rms_norm = rms_norm_row,
          .add = add_row,
          .silu_mul = silu_mul_row,
          .rope = rope_row,
          .kv_write = kv_write,
          .attention_segment = attention_segment<DotBf16>,
          .attention_combine = attention_combine,
          .attention_store = attention_store,
          .scan = scan_row,
          .exp_sum = exp_sum_row,
          .exp_store = exp_store_row,
          .group_max = group_max_row,
          .count_greater = count_greater_row,
          .peak_bf16 = dot_peak<DotBf16>,
          .peak_f32 = dot_peak<DotF32>,
          .read_bytes = read_bytes,
          .to_f32 = to_f32_row,
          .to_bf16 = to_bf16_row};
}

} // namespace
} // namespace vllm_rs
