// bf16 matrix product on AMX tiles: 16 rows x 16 columns x 32 k per instruction.
//
// Packed weights are AMX B tiles as they lie: 16 pairs of k by 16 columns are 1 KiB in a row. Rows beyond the
// last are computed from whatever memory follows (buffers are readable to a multiple of 16 rows) and not
// stored.
#pragma once

#include "gemm.hpp"

namespace vllm_rs {
namespace {

// Tiles is the hardware's or an emulation; MT x NT accumulators of 16 x 16.
template <class Tiles, int MT, int NT>
void amx_block(Tiles& tiles, const GemmArgs& args, int row, int tile) {
  for (int i = 0; i < MT * NT; ++i)
    tiles.zero(i);
  const int k_tiles = static_cast<int>(ceil_div(args.steps, 16));
  for (int k = 0; k < k_tiles; ++k) {
    for (int n = 0; n < NT; ++n)
      tiles.load(6 + n, args.weight + (tile + n) * args.tile_stride + int64_t{k} * 1024, 64);
    for (int m = 0; m < MT; ++m) {
      tiles.load(4 + m, args.x + (row + 16 * m) * args.x_stride + int64_t{k} * 64, args.x_stride);
      for (int n = 0; n < NT; ++n)
        tiles.multiply(m * NT + n, 4 + m, 6 + n);
    }
  }
}

template <class Tiles, int MT, int NT>
void amx_store(Tiles& tiles, const GemmArgs& args, int row, int row_end, int tile) {
  alignas(64) float out[16][16];
  for (int m = 0; m < MT; ++m)
    for (int n = 0; n < NT; ++n) {
      tiles.store(m * NT + n, &out[0][0], 64);
      for (int i = 0; i < 16 && row + 16 * m + i < row_end; ++i)
        finish_output(args, row + 16 * m + i, tile + n, Vec::load(out[i]));
    }
}

template <class Tiles, int MT, int NT>
void amx_rows(Tiles& tiles, const GemmArgs& args, int row, int row_end, int tile) {
  amx_block<Tiles, MT, NT>(tiles, args, row, tile);
  amx_store<Tiles, MT, NT>(tiles, args, row, row_end, tile);
}

template <class Tiles>
void amx_gemm(const GemmArgs& args, int row_begin, int row_end, int tile_begin, int tile_end) {
  Tiles tiles;
  int tile = tile_begin;
  for (; tile + 2 <= tile_end; tile += 2) {
    int row = row_begin;
    for (; row + 16 < row_end; row += 32)
      amx_rows<Tiles, 2, 2>(tiles, args, row, row_end, tile);
    if (row < row_end)
      amx_rows<Tiles, 1, 2>(tiles, args, row, row_end, tile);
  }
  for (; tile < tile_end; ++tile)
    for (int row = row_begin; row < row_end; row += 16)
      amx_rows<Tiles, 1, 1>(tiles, args, row, row_end, tile);
}

} // namespace
} // namespace vllm_rs
