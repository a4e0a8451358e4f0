// Rotary embedding of q and k, and the write of k and v into the cache.
#include "vllm_rs/op.hpp"

namespace vllm_rs {
namespace {

class RopeKvWrite final : public Op {
public:
  RopeKvWrite(BufferRef qkv, HeadShape heads, std::shared_ptr<const RotaryTable> table, int layer)
      : qkv_(std::move(qkv)), heads_(heads), table_(std::move(table)), layer_(layer) {}
  const char* name() const override { return "rope_kv_write"; }
  std::string describe() const override {
    return "layer " + std::to_string(layer_) + " heads " + std::to_string(heads_.num_heads) + "/" +
           std::to_string(heads_.num_kv_heads) + " head_dim " + std::to_string(heads_.head_dim) +
           " rotary_dim " + std::to_string(table_->rotary_dim);
  }

  void run(const RunContext& context, WorkQueue* queues, int /*worker*/) const override {
    const auto num_blocks = static_cast<int64_t>(context.row_blocks.size());
    queues[0].drain(*context.pool, num_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        write(context, context.row_blocks[static_cast<size_t>(i)]);
    });
  }

private:
  void write(const RunContext& context, const RowBlock& block) const {
    const int64_t q_cols = int64_t{heads_.num_heads} * heads_.head_dim;
    const int64_t kv_cols = int64_t{heads_.num_kv_heads} * heads_.head_dim;
    const auto row_at = [&](int row) { return reinterpret_cast<float*>(row_of(context, qkv_, row)); };
    for (int row = block.first_row; row < block.first_row + block.num_rows; ++row) {
      const int64_t position = context.step->positions[static_cast<size_t>(row)];
      context.kernels->rope(row_at(row), heads_.num_heads + heads_.num_kv_heads, heads_.head_dim,
                            table_->values.data() + position * table_->rotary_dim, table_->rotary_dim);
    }
    const KvLayer layer = context.kv_layer(layer_);
    for (int row = 0; row < block.num_rows;) {
      const int position = block.first_position + row;
      const int slot = position % layer.block_size;
      // Slots 2i and 2i + 1 are written together when both are here; row blocks never split such a pair.
      const bool pair = slot % 2 == 0 && row + 1 < block.num_rows;
      std::byte* cache_block =
          layer.base + block.block_table[position / layer.block_size] * layer.block_stride;
      const float* k = row_at(block.first_row + row) + q_cols;
      const float* next_k = pair ? row_at(block.first_row + row + 1) + q_cols : nullptr;
      context.kernels->kv_write(layer, cache_block, slot, k, k + kv_cols, next_k,
                                pair ? next_k + kv_cols : nullptr, heads_.num_kv_heads, heads_.head_dim);
      row += pair ? 2 : 1;
    }
  }

  BufferRef qkv_;
  HeadShape heads_;
  std::shared_ptr<const RotaryTable> table_;
  int layer_;
};

} // namespace

std::unique_ptr<Op> make_rope_kv_write(BufferRef qkv, HeadShape heads,
                                       std::shared_ptr<const RotaryTable> table, int layer) {
  return std::make_unique<RopeKvWrite>(std::move(qkv), heads, std::move(table), layer);
}

} // namespace vllm_rs
