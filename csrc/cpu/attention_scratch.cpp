#include "vllm_rs/kernels.hpp"

namespace vllm_rs {

// The sum of the pieces that `carve` (kernels/attention.hpp) takes, at 4 bytes per element.
int64_t attention_scratch_bytes(int group, int head_dim) {
  const int64_t rows = int64_t{row_block_tokens} * group;
  const int64_t q = rows * round_up(int64_t{head_dim} * 4, 64);
  const int64_t scores = rows * attention_tile_keys * 4;
  const int64_t k_tile = int64_t{attention_tile_keys} * head_dim * 4;
  return q + 2 * scores + round_up(rows * 4, 64) + k_tile;
}

} // namespace vllm_rs
