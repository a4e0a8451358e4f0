// Paged attention of one row block and one KV head over one segment of keys: scores, online softmax, weighted
// V.
//
// Rows are (token, head of the group) pairs, so one load of K or V serves every head of the group and up to
// row_block_tokens tokens. Tiles of keys start at fixed absolute positions and every row's arithmetic is its
// own, so a row's bits do not depend on the rows beside it, on the block size or on the table. A tile that a
// row may not see leaves its state unchanged, bit for bit.
#pragma once

#include "dot.hpp"

#include "vllm_rs/kv_layout.hpp"

namespace vllm_rs {
namespace {

constexpr int tile_vectors = attention_tile_keys / 16;
constexpr float lowest_score = -__builtin_inff();

struct AttentionScratch {
  std::byte* q;      // [rows][q_stride]
  float* scores;     // [rows][attention_tile_keys]
  std::byte* p;      // [rows][attention_tile_keys] elements
  float* correction; // [rows]
  std::byte* k_tile; // [attention_tile_keys / 16][head_dim][16] elements, for blocks of 8
};

struct AttentionShape {
  KvLayout layout;
  int group, rows;
  int64_t q_stride; // bytes
};

VLLM_RS_INLINE AttentionScratch carve(const AttentionShape& shape, void* memory) {
  AttentionScratch scratch;
  std::byte* next = static_cast<std::byte*>(memory);
  const auto take = [&next](int64_t bytes) {
    std::byte* piece = next;
    next += round_up(bytes, 64);
    return piece;
  };
  scratch.q = take(shape.rows * shape.q_stride);
  scratch.scores = reinterpret_cast<float*>(take(int64_t{shape.rows} * attention_tile_keys * 4));
  scratch.p = take(int64_t{shape.rows} * attention_tile_keys * 4);
  scratch.correction = reinterpret_cast<float*>(take(int64_t{shape.rows} * 4));
  scratch.k_tile = take(int64_t{attention_tile_keys} * shape.layout.head_dim * 4);
  return scratch;
}

template <class Dot>
void load_queries(const AttentionArgs& args, const RowBlock& block, const AttentionShape& shape, int kv_head,
                  std::byte* q) {
  for (int row = 0; row < shape.rows; ++row) {
    const int64_t head = int64_t{kv_head} * shape.group + row % shape.group;
    const float* in =
        args.qkv + (block.first_row + row / shape.group) * args.qkv_stride + head * args.head_dim;
    for (int d = 0; d < args.head_dim; d += 16)
      store_row(q + row * shape.q_stride, Dot::dtype, d, Vec::load_n(in + d, args.head_dim - d),
                args.head_dim - d);
  }
}

// Copies two groups of 8 keys side by side into one of 16.
void join_groups(std::byte* out, const std::byte* left, const std::byte* right, int64_t steps) {
  for (int64_t s = 0; s < steps; ++s) {
    __builtin_memcpy(out + s * 64, left + s * 32, 32);
    __builtin_memcpy(out + s * 64 + 32, right + s * 32, 32);
  }
}

struct TilePointers {
  const std::byte* k[tile_vectors];            // 16 keys each
  const std::byte* v[attention_tile_keys / 8]; // one group (8 or 16 keys) each
};

void locate_tile(const AttentionArgs& args, const RowBlock& block, const AttentionShape& shape,
                 const AttentionScratch& scratch, int kv_head, int first_key, int num_keys,
                 TilePointers& tile) {
  const KvLayout& layout = shape.layout;
  const int group = layout.group();
  const std::byte* k[attention_tile_keys / 8];
  for (int i = 0; i < attention_tile_keys / group; ++i) {
    // Groups beyond the last key are computed and masked: point them at the first one, which is readable.
    const int key = first_key + (i * group < num_keys ? i * group : 0);
    const int64_t index = block.block_table[key / args.kv.block_size];
    const std::byte* base = args.kv.base + index * args.kv.block_stride;
    k[i] = base + layout.k_at(kv_head, key % args.kv.block_size, 0);
    tile.v[i] = base + layout.v_at(kv_head, key % args.kv.block_size, 0);
  }
  const int64_t steps = ceil_div(int64_t{layout.head_dim} * size_of(layout.dtype), 4);
  for (int j = 0; j < tile_vectors; ++j) {
    if (group == 16) {
      tile.k[j] = k[j];
      continue;
    }
    std::byte* joined = scratch.k_tile + j * steps * 64;
    join_groups(joined, k[2 * j], k[2 * j + 1], steps);
    tile.k[j] = joined;
  }
}

template <class Dot, int MR>
void score_rows(const AttentionShape& shape, const AttentionScratch& scratch, const TilePointers& tile,
                int row) {
  constexpr int NR = Vec::many_registers ? 4 : 1;
  for (int j = 0; j < tile_vectors; j += NR) {
    Vec::F acc[MR][NR];
    const std::byte* b[NR];
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      b[n] = tile.k[j + n];
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 16
      for (int n = 0; n < NR; ++n)
        acc[m][n] = Vec::zero();
    const int steps = shape.layout.head_dim / Dot::k_per_step;
    accumulate<Dot, MR, NR>(acc, scratch.q + row * shape.q_stride, shape.q_stride, b, 64, steps);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 16
      for (int n = 0; n < NR; ++n)
        Vec::store(scratch.scores + (row + m) * attention_tile_keys + (j + n) * 16, acc[m][n]);
  }
}

// Turns a row of scores into probabilities relative to the running maximum. Keys [low, high) of the tile are
// visible.
template <class Dot>
void soften_row(const AttentionScratch& scratch, const AttentionState& state, int row, float scale, int low,
                int high) {
  Vec::F s[tile_vectors];
  const float* scores = scratch.scores + row * attention_tile_keys;
  for (int j = 0; j < tile_vectors; ++j) {
    s[j] = Vec::mul(Vec::load(scores + 16 * j), Vec::set1(scale));
    if (low > 0 || high < attention_tile_keys)
      s[j] = Vec::keep_lanes(s[j], low - 16 * j, high - 16 * j, lowest_score);
  }
  const float old_max = state.max[row];
  const float tile_max = Vec::max_lane(Vec::max(Vec::max(s[0], s[1]), Vec::max(s[2], s[3])));
  const float new_max = tile_max > old_max ? tile_max : old_max;
  const Vec::F base = Vec::set1(new_max == lowest_score ? 0.0F : new_max);
  Vec::F sums = Vec::zero();
  std::byte* p = scratch.p + row * attention_tile_keys * size_of(Dot::dtype);
  for (int j = 0; j < tile_vectors; ++j) {
    const Vec::F weight = exp(Vec::sub(s[j], base));
    sums = Vec::add(sums, weight);
    store_row(p, Dot::dtype, 16 * j, weight, 16);
  }
  float correction = 1.0F;
  if (new_max != old_max) {
    alignas(64) float lanes[16];
    Vec::store(lanes, exp(Vec::sub(Vec::set1(old_max), base)));
    correction = lanes[0];
  }
  scratch.correction[row] = correction;
  state.max[row] = new_max;
  state.sum[row] = state.sum[row] * correction + Vec::sum(sums);
}

template <class Dot, int MR, int NR>
VLLM_RS_INLINE void weigh_vectors(const AttentionShape& shape, const AttentionScratch& scratch,
                                  const TilePointers& tile, const AttentionState& state, int row,
                                  int first_vector, int num_keys) {
  const int64_t padded_dim = shape.layout.padded_dim();
  const int64_t p_stride = attention_tile_keys * size_of(Dot::dtype);
  float* out = state.out + row * padded_dim + first_vector * 16;
  Vec::F acc[MR][NR];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    const Vec::F correction = Vec::set1(scratch.correction[row + m]);
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      acc[m][n] = Vec::mul(Vec::load(out + m * padded_dim + n * 16), correction);
  }
  const int group = shape.layout.group();
  for (int key = 0; key < num_keys; key += group) {
    const std::byte* b[NR];
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      b[n] = tile.v[key / group] + (first_vector + n) * 64;
    const int keys = num_keys - key < group ? num_keys - key : group;
    const int steps = (keys + Dot::k_per_step - 1) / Dot::k_per_step;
    accumulate<Dot, MR, NR>(acc, scratch.p + row * p_stride + key * size_of(Dot::dtype), p_stride, b,
                            padded_dim * 4, steps);
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 16
    for (int n = 0; n < NR; ++n)
      Vec::store(out + m * padded_dim + n * 16, acc[m][n]);
}

template <class Dot, int MR>
void weigh_rows(const AttentionShape& shape, const AttentionScratch& scratch, const TilePointers& tile,
                const AttentionState& state, int row, int num_keys) {
  constexpr int NR = Vec::many_registers ? 4 : 1;
  const int vectors = static_cast<int>(shape.layout.padded_dim() / 16);
  int vector = 0;
  for (; vector + NR <= vectors; vector += NR)
    weigh_vectors<Dot, MR, NR>(shape, scratch, tile, state, row, vector, num_keys);
  for (; vector < vectors; ++vector)
    weigh_vectors<Dot, MR, 1>(shape, scratch, tile, state, row, vector, num_keys);
}

// Calls fn with a compile-time row count, in near-equal pieces of at most six (three with few registers).
template <class Fn>
VLLM_RS_INLINE void for_row_tiles(int rows, Fn&& fn) {
  constexpr int most = Vec::many_registers ? 6 : 3;
  const int pieces = (rows + most - 1) / most;
  for (int piece = 0, row = 0; piece < pieces; ++piece) {
    const int count = rows / pieces + (piece < rows % pieces ? 1 : 0);
    switch (count) {
    case 1:
      fn.template operator()<1>(row);
      break;
    case 2:
      fn.template operator()<2>(row);
      break;
    case 3:
      fn.template operator()<3>(row);
      break;
    case 4:
      fn.template operator() < most<4 ? 1 : 4>(row);
      break;
    case 5:
      fn.template operator() < most<5 ? 1 : 5>(row);
      break;
    default:
      fn.template operator() < most<6 ? 1 : 6>(row);
      break;
    }
    row += count;
  }
}

template <class Dot>
void segment_of(const AttentionArgs& args, const RowBlock& block, int kv_head, int segment, void* memory,
                const AttentionState& state) {
  const int group = args.num_heads / args.num_kv_heads;
  const AttentionShape shape{{args.kv.block_size, args.num_kv_heads, args.head_dim, args.kv.dtype},
                             group,
                             block.num_rows * group,
                             round_up(int64_t{args.head_dim} * size_of(Dot::dtype), 64)};
  const AttentionScratch scratch = carve(shape, memory);
  for (int row = 0; row < shape.rows; ++row) {
    state.max[row] = lowest_score;
    state.sum[row] = 0.0F;
  }
  __builtin_memset(state.out, 0, static_cast<size_t>(shape.rows * shape.layout.padded_dim() * 4));
  load_queries<Dot>(args, block, shape, kv_head, scratch.q);

  const int first_key = segment * segment_keys;
  const int past_last = block.first_position + block.num_rows;
  const int end_key = past_last < first_key + segment_keys ? past_last : first_key + segment_keys;
  const int window = args.sliding_window;
  for (int key = first_key; key < end_key; key += attention_tile_keys) {
    if (window > 0 && key + attention_tile_keys <= block.first_position - window + 1)
      continue; // no row sees this tile
    const int num_keys = end_key - key < attention_tile_keys ? end_key - key : attention_tile_keys;
    TilePointers tile;
    locate_tile(args, block, shape, scratch, kv_head, key, num_keys, tile);
    for_row_tiles(shape.rows, [&]<int MR>(int row) { score_rows<Dot, MR>(shape, scratch, tile, row); });
    for (int row = 0; row < shape.rows; ++row) {
      const int high = block.first_position + row / group + 1 - key;
      soften_row<Dot>(scratch, state, row, args.scale, window > 0 ? high - window : 0, high);
    }
    for_row_tiles(shape.rows,
                  [&]<int MR>(int row) { weigh_rows<Dot, MR>(shape, scratch, tile, state, row, num_keys); });
  }
}

template <class DotBf16>
void attention_segment(const AttentionArgs& args, const RowBlock& block, int kv_head, int segment,
                       void* scratch, const AttentionState& state) {
  if (args.kv.dtype == DType::f32)
    segment_of<DotF32>(args, block, kv_head, segment, scratch, state);
  else
    segment_of<DotBf16>(args, block, kv_head, segment, scratch, state);
}

VLLM_RS_INLINE Vec::F scale_for(float max, float base) {
  return exp(Vec::set1(max - (base == lowest_score ? 0.0F : base)));
}

void attention_combine(const AttentionState& into, const AttentionState& right, int num_rows, int head_dim) {
  const int64_t padded_dim = round_up(head_dim, 16);
  for (int row = 0; row < num_rows; ++row) {
    const float max = right.max[row] > into.max[row] ? right.max[row] : into.max[row];
    const Vec::F left_scale = scale_for(into.max[row], max);
    const Vec::F right_scale = scale_for(right.max[row], max);
    for (int64_t d = 0; d < padded_dim; d += 16) {
      float* out = into.out + row * padded_dim + d;
      const Vec::F scaled = Vec::mul(Vec::load(right.out + row * padded_dim + d), right_scale);
      Vec::store(out, Vec::fma(Vec::load(out), left_scale, scaled));
    }
    alignas(64) float lanes[16];
    Vec::store(lanes, Vec::fma(Vec::set1(into.sum[row]), left_scale,
                               Vec::mul(Vec::set1(right.sum[row]), right_scale)));
    into.sum[row] = lanes[0];
    into.max[row] = max;
  }
}

void attention_store(const AttentionArgs& args, const RowBlock& block, int kv_head,
                     const AttentionState& state, std::byte* out, int64_t out_stride, DType out_dtype) {
  const int group = args.num_heads / args.num_kv_heads;
  const int64_t padded_dim = round_up(args.head_dim, 16);
  for (int row = 0; row < block.num_rows * group; ++row) {
    std::byte* out_row = out + (block.first_row + row / group) * out_stride;
    const int first = (kv_head * group + row % group) * args.head_dim;
    const Vec::F scale = Vec::set1(1.0F / state.sum[row]);
    for (int d = 0; d < args.head_dim; d += 16)
      store_row(out_row, out_dtype, first + d, Vec::mul(Vec::load(state.out + row * padded_dim + d), scale),
                args.head_dim - d);
    if (kv_head == 0 && row % group == 0)
      zero_row_tail({out_row, out_dtype}, args.num_heads * args.head_dim);
  }
}

} // namespace
} // namespace vllm_rs
