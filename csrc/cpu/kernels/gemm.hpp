// Matrix product over packed weights: register tiles, a panel of weights at a time against all rows.
#pragma once

#include "dot.hpp"

namespace vllm_rs {
namespace {

VLLM_RS_INLINE void finish_output(const GemmArgs& args, int row, int tile, Vec::F acc) {
  const int first = tile * tile_cols;
  const int n = args.out_features - first;
  if (args.bias != nullptr)
    acc = Vec::add(acc, Vec::load_n(args.bias + first, n));
  store_row(args.out + row * args.out_stride, args.out_dtype, first, acc, n);
}

// The first rows to meet a panel fetch the next one (panels follow each other in memory), so that the stream
// of weights from memory never pauses for arithmetic.
template <class Dot, int MR, int NR, bool First>
void gemm_tile(const GemmArgs& args, int row, int tile) {
  Vec::F acc[MR][NR];
  const std::byte* b[NR];
#pragma GCC unroll 16
  for (int n = 0; n < NR; ++n)
    b[n] = args.weight + (tile + n) * args.tile_stride;
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      acc[m][n] = Vec::zero();
  accumulate<Dot, MR, NR, First>(acc, args.x + row * args.x_stride, args.x_stride, b, 64, args.steps,
                                 NR * args.tile_stride);
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      finish_output(args, row + m, tile + n, acc[m][n]);
}

// Rows [row_begin, row_end) against NR tiles, MR rows at a time, the rest by smaller tiles.
template <class Dot, int MR, int NR, bool First>
void gemm_panel(const GemmArgs& args, int row_begin, int row_end, int tile) {
  int row = row_begin;
  if (First && row + MR <= row_end) {
    gemm_tile<Dot, MR, NR, true>(args, row, tile);
    row += MR;
  }
  for (; row + MR <= row_end; row += MR)
    gemm_tile<Dot, MR, NR, false>(args, row, tile);
  if constexpr (MR > 1)
    if (row < row_end)
      gemm_panel<Dot, MR / 2, NR, false>(args, row, row_end, tile);
}

// A panel is NR tiles wide; what is left at the right edge goes tile by tile.
template <class Dot, int MR, int NR>
void gemm_panels(const GemmArgs& args, int row_begin, int row_end, int tile_begin, int tile_end) {
  int tile = tile_begin;
  for (; tile + NR <= tile_end; tile += NR)
    gemm_panel<Dot, MR, NR, true>(args, row_begin, row_end, tile);
  for (; tile < tile_end; ++tile)
    gemm_panel<Dot, MR, 1, true>(args, row_begin, row_end, tile);
}

template <class Dot>
void gemm(const GemmArgs& args, int row_begin, int row_end, int tile_begin, int tile_end) {
  const int rows = row_end - row_begin;
  if constexpr (!Vec::many_registers) {
    if (rows == 1)
      return gemm_panels<Dot, 1, 2>(args, row_begin, row_end, tile_begin, tile_end);
    return gemm_panels<Dot, 4, 1>(args, row_begin, row_end, tile_begin, tile_end);
  } else {
    switch (rows) {
    case 1:
      return gemm_panels<Dot, 1, 6>(args, row_begin, row_end, tile_begin, tile_end);
    case 2:
      return gemm_panels<Dot, 2, 6>(args, row_begin, row_end, tile_begin, tile_end);
    case 3:
      return gemm_panels<Dot, 3, 6>(args, row_begin, row_end, tile_begin, tile_end);
    case 4:
      return gemm_panels<Dot, 4, 6>(args, row_begin, row_end, tile_begin, tile_end);
    case 5:
      return gemm_panels<Dot, 5, 4>(args, row_begin, row_end, tile_begin, tile_end);
    case 6:
      return gemm_panels<Dot, 6, 4>(args, row_begin, row_end, tile_begin, tile_end);
    case 7:
      return gemm_panels<Dot, 7, 3>(args, row_begin, row_end, tile_begin, tile_end);
    default:
      return gemm_panels<Dot, 8, 3>(args, row_begin, row_end, tile_begin, tile_end);
    }
  }
}

} // namespace
} // namespace vllm_rs
