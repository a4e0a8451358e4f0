#include "../simd/vec_avx512.hpp"
// the vector type comes first: the kernels are written over it
#include "../kernels/table.hpp"

namespace vllm_rs {

const KernelTable& avx512_kernels() {
  static constexpr KernelTable table = make_table<DotBf16Widened>("avx512");
  return table;
}

} // namespace vllm_rs
