// Paged attention as a recorded call.
//
// Work is dealt out by (row block, KV head). When that is too little for the threads and contexts are long,
// it is dealt out by (row block, KV head, segment) and the segments' states are combined afterwards: the same
// states in the same order, so the same bits.
#include "vllm_rs/op.hpp"

#include <algorithm>

namespace vllm_rs {
namespace {

class Attention final : public Op {
public:
  Attention(BufferRef out, BufferRef qkv, HeadShape heads, float scale, int layer, int sliding_window)
      : out_(std::move(out)), qkv_(std::move(qkv)), heads_(heads), scale_(scale), layer_(layer),
        sliding_window_(sliding_window) {}
  const char* name() const override { return "attention"; }
  std::string describe() const override {
    return "layer " + std::to_string(layer_) + " heads " + std::to_string(heads_.num_heads) + "/" +
           std::to_string(heads_.num_kv_heads) + " head_dim " + std::to_string(heads_.head_dim) + " window " +
           std::to_string(sliding_window_);
  }
  int64_t scratch_bytes() const override {
    return round_up(attention_scratch_bytes(group(), heads_.head_dim), 64) + 2 * state_bytes();
  }

  void run(const RunContext& context, WorkQueue* queues, int worker) const override {
    AttentionArgs args{};
    args.qkv = reinterpret_cast<const float*>(row_of(context, qkv_, 0));
    args.qkv_stride = qkv_->stride() / 4;
    args.num_heads = heads_.num_heads;
    args.num_kv_heads = heads_.num_kv_heads;
    args.head_dim = heads_.head_dim;
    args.scale = scale_;
    args.sliding_window = sliding_window_;
    args.kv = context.kv_layer(layer_);
    const int threads = context.pool->num_threads();
    const int64_t items = static_cast<int64_t>(context.row_blocks.size()) * heads_.num_kv_heads;
    const int64_t segments = most_segments(context);
    const bool split = threads > 1 && segments > 1 && items < 4 * int64_t{threads} &&
                       items * segments * state_bytes() <= attention_partial_bytes;
    if (split)
      run_split(context, args, queues, worker, segments);
    else
      run_whole(context, args, queues[0], worker);
  }

private:
  int group() const { return heads_.num_heads / heads_.num_kv_heads; }
  int64_t state_bytes() const {
    return round_up(attention_state_floats(int64_t{row_block_tokens} * group(), heads_.head_dim) * 4, 64);
  }
  AttentionState state_at(std::byte* memory) const {
    const int64_t rows = int64_t{row_block_tokens} * group();
    float* out = reinterpret_cast<float*>(memory);
    float* max = out + rows * round_up(heads_.head_dim, tile_cols);
    return {max, max + rows, out};
  }
  static int64_t end_segment(const RowBlock& block) {
    return ceil_div(block.first_position + block.num_rows, segment_keys);
  }
  // Segments wholly before every row's window hold nothing.
  int64_t first_segment(const RowBlock& block) const {
    const int first_key = sliding_window_ > 0 ? block.first_position - sliding_window_ + 1 : 0;
    return std::max(first_key, 0) / segment_keys;
  }
  int64_t most_segments(const RunContext& context) const {
    int64_t most = 0;
    for (const RowBlock& block : context.row_blocks)
      most = std::max(most, end_segment(block));
    return most;
  }
  void store(const RunContext& context, const AttentionArgs& args, const RowBlock& block, int kv_head,
             const AttentionState& state) const {
    context.kernels->attention_store(args, block, kv_head, state, row_of(context, out_, 0), out_->stride(),
                                     out_->dtype);
  }

  void run_whole(const RunContext& context, const AttentionArgs& args, WorkQueue& queue, int worker) const {
    std::byte* scratch = context.worker_scratch + worker * context.worker_scratch_bytes;
    const AttentionState total = state_at(scratch);
    const AttentionState part = state_at(scratch + state_bytes());
    std::byte* kernel_scratch = scratch + 2 * state_bytes();
    const auto num_blocks = static_cast<int64_t>(context.row_blocks.size());
    const int64_t items = num_blocks * heads_.num_kv_heads;
    queue.drain(*context.pool, items, 1, [&](int64_t item, int64_t) {
      // Last rows first: they have the most keys, and short items at the end even out the threads.
      const RowBlock& block =
          context.row_blocks[static_cast<size_t>(num_blocks - 1 - item / heads_.num_kv_heads)];
      const int kv_head = static_cast<int>(item % heads_.num_kv_heads);
      const int64_t first = first_segment(block);
      for (int64_t segment = first; segment < end_segment(block); ++segment) {
        context.kernels->attention_segment(args, block, kv_head, static_cast<int>(segment), kernel_scratch,
                                           segment == first ? total : part);
        if (segment != first)
          context.kernels->attention_combine(total, part, block.num_rows * group(), heads_.head_dim);
      }
      store(context, args, block, kv_head, total);
    });
  }

  void run_split(const RunContext& context, const AttentionArgs& args, WorkQueue* queues, int worker,
                 int64_t segments) const {
    std::byte* kernel_scratch =
        context.worker_scratch + worker * context.worker_scratch_bytes + 2 * state_bytes();
    const int64_t items = static_cast<int64_t>(context.row_blocks.size()) * heads_.num_kv_heads;
    const auto partial = [&](int64_t item, int64_t segment) {
      return state_at(context.partials + (item * segments + segment) * state_bytes());
    };
    const auto block_of = [&](int64_t item) -> const RowBlock& {
      return context.row_blocks[static_cast<size_t>(item / heads_.num_kv_heads)];
    };
    queues[0].drain(*context.pool, items * segments, 1, [&](int64_t index, int64_t) {
      const int64_t item = index / segments;
      const int64_t segment = index % segments;
      const RowBlock& block = block_of(item);
      if (segment >= first_segment(block) && segment < end_segment(block))
        context.kernels->attention_segment(args, block, static_cast<int>(item % heads_.num_kv_heads),
                                           static_cast<int>(segment), kernel_scratch, partial(item, segment));
    });
    queues[1].drain(*context.pool, items, 1, [&](int64_t item, int64_t) {
      const RowBlock& block = block_of(item);
      const AttentionState total = partial(item, first_segment(block));
      for (int64_t segment = first_segment(block) + 1; segment < end_segment(block); ++segment)
        context.kernels->attention_combine(total, partial(item, segment), block.num_rows * group(),
                                           heads_.head_dim);
      store(context, args, block, static_cast<int>(item % heads_.num_kv_heads), total);
    });
  }

  BufferRef out_, qkv_;
  HeadShape heads_;
  float scale_;
  int layer_;
  int sliding_window_;
};

} // namespace

std::unique_ptr<Op> make_attention(BufferRef out, BufferRef qkv, HeadShape heads, float scale, int layer,
                                   int sliding_window) {
  return std::make_unique<Attention>(std::move(out), std::move(qkv), heads, scale, layer, sliding_window);
}

} // namespace vllm_rs
