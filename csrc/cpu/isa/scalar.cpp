#include "../simd/vec_scalar.hpp"
// the vector type comes first: the kernels are written over it
#include "../kernels/table.hpp"

namespace vllm_rs {

const KernelTable& scalar_kernels() {
  static constexpr KernelTable table = make_table<DotBf16Widened>("scalar");
  return table;
}

} // namespace vllm_rs
