// The AMX kernels on tiles emulated in plain C++, so that their blocking is tested where there is no AMX.
#include "../simd/vec_scalar.hpp"
// the vector type comes first: the kernels are written over it
#include "../kernels/amx_gemm.hpp"
#include "../kernels/table.hpp"

namespace vllm_rs {
namespace {

class EmulatedTiles {
public:
  void zero(int tile) { std::memset(tiles_[tile], 0, sizeof(tiles_[tile])); }
  void load(int tile, const std::byte* p, int64_t stride) {
    for (int row = 0; row < 16; ++row)
      std::memcpy(tiles_[tile][row], p + row * stride, 64);
  }
  void store(int tile, float* p, int64_t stride) {
    for (int row = 0; row < 16; ++row)
      std::memcpy(reinterpret_cast<std::byte*>(p) + row * stride, tiles_[tile][row], 64);
  }
  // TDPBF16PS as the manual defines it: even and odd products in two chains of fused multiply-adds, their sum
  // added to the accumulator; subnormals are zero, everything rounds to nearest even.
  void multiply(int acc, int a, int b) {
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        float even = 0.0F;
        float odd = 0.0F;
        for (int k = 0; k < 16; ++k) {
          even = flush(std::fma(element(a, m, 2 * k), element(b, k, 2 * n), even));
          odd = flush(std::fma(element(a, m, 2 * k + 1), element(b, k, 2 * n + 1), odd));
        }
        float total;
        std::memcpy(&total, &tiles_[acc][m][4 * n], 4);
        total = flush(flush(total) + flush(even + odd));
        std::memcpy(&tiles_[acc][m][4 * n], &total, 4);
      }
  }

private:
  static float flush(float x) { return std::fabs(x) < 0x1.0p-126F ? std::copysign(0.0F, x) : x; }
  float element(int tile, int row, int index) const {
    uint16_t raw;
    std::memcpy(&raw, &tiles_[tile][row][2 * index], 2);
    return flush(bf16_to_f32(raw));
  }

  std::byte tiles_[8][16][64];
};

} // namespace

const KernelTable& amx_emulated_kernels() {
  static constexpr KernelTable table = [] {
    KernelTable kernels = make_table<DotBf16Widened>("amx_emulated");
    kernels.gemm_bf16 = amx_gemm<EmulatedTiles>;
    return kernels;
  }();
  return table;
}

} // namespace vllm_rs
