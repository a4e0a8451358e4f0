#include "../simd/vec_avx512.hpp"
// the vector type comes first: the kernels are written over it
#include "../kernels/amx_gemm.hpp"
#include "../kernels/table.hpp"

namespace vllm_rs {
namespace {

// The eight tile registers of this thread, configured to 16 rows of 64 bytes for the duration of one call.
class HardwareTiles {
public:
  HardwareTiles() {
    struct alignas(64) Config {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    _tile_loadconfig(&config);
  }
  ~HardwareTiles() { _tile_release(); }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;

  // Tile numbers are immediates of the instructions, hence the switches; callers' loops have constant bounds.
  VLLM_RS_INLINE void zero(int tile) {
    switch (tile) {
    case 0:
      _tile_zero(0);
      break;
    case 1:
      _tile_zero(1);
      break;
    case 2:
      _tile_zero(2);
      break;
    default:
      _tile_zero(3);
      break;
    }
  }
  VLLM_RS_INLINE void load(int tile, const std::byte* p, int64_t stride) {
    switch (tile) {
    case 4:
      _tile_loadd(4, p, stride);
      break;
    case 5:
      _tile_loadd(5, p, stride);
      break;
    case 6:
      _tile_loadd(6, p, stride);
      break;
    default:
      _tile_loadd(7, p, stride);
      break;
    }
  }
  VLLM_RS_INLINE void multiply(int acc, int a, int b) {
    switch (acc * 4 + (a - 4) * 2 + (b - 6)) {
    case 0 * 4 + 0:
      _tile_dpbf16ps(0, 4, 6);
      break;
    case 1 * 4 + 1:
      _tile_dpbf16ps(1, 4, 7);
      break;
    case 2 * 4 + 2:
      _tile_dpbf16ps(2, 5, 6);
      break;
    default:
      _tile_dpbf16ps(3, 5, 7);
      break;
    }
  }
  VLLM_RS_INLINE void store(int tile, float* p, int64_t stride) {
    switch (tile) {
    case 0:
      _tile_stored(0, p, stride);
      break;
    case 1:
      _tile_stored(1, p, stride);
      break;
    case 2:
      _tile_stored(2, p, stride);
      break;
    default:
      _tile_stored(3, p, stride);
      break;
    }
  }
};

} // namespace

const KernelTable& amx_kernels() {
  static constexpr KernelTable table = [] {
    KernelTable kernels = make_table<DotBf16Native>("amx");
    kernels.gemm_bf16 = amx_gemm<HardwareTiles>;
    return kernels;
  }();
  return table;
}

} // namespace vllm_rs
