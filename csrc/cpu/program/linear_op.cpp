// The matrix product as a recorded call: how rows and tiles are dealt out. The deal never changes a bit of
// the result.
#include "vllm_rs/op.hpp"

#include <algorithm>

namespace vllm_rs {
namespace {

// Rows of x that stay in the second-level cache while all weights pass by.
constexpr int64_t resident_bytes = 256 << 10;
// Pieces of work per thread: few enough to keep streams long, many enough to even out a core that is
// disturbed.
constexpr int64_t pieces_per_thread = 4;
// Tiles per piece are a multiple of every panel width (6, 4, 3, 2).
constexpr int64_t tile_quantum = 12;

class Linear final : public Op {
public:
  Linear(BufferRef out, BufferRef x, std::shared_ptr<const PackedLinear> weight)
      : out_(std::move(out)), x_(std::move(x)), weight_(std::move(weight)) {}
  const char* name() const override { return out_ != nullptr ? "linear" : "logits"; }
  std::string describe() const override {
    return std::to_string(weight_->in_features()) + " -> " + std::to_string(weight_->out_features()) + " " +
           name_of(weight_->dtype()) + (weight_->bias() != nullptr ? " + bias" : "");
  }

  void run(const RunContext& context, WorkQueue* queues, int /*worker*/) const override {
    const int num_rows = context.num_rows(x_->rows);
    if (num_rows == 0)
      return;
    const GemmArgs args = arguments(context);
    const GemmKernel kernel =
        weight_->dtype() == DType::f32 ? context.kernels->gemm_f32 : context.kernels->gemm_bf16;
    const int num_tiles = weight_->num_tiles();
    const int64_t rows_per_piece = std::max<int64_t>(resident_bytes / x_->stride() / 32 * 32, 64);
    const int64_t row_pieces = ceil_div(num_rows, rows_per_piece);
    const int64_t threads = context.pool->num_threads();
    const int64_t wanted = std::max<int64_t>(threads * pieces_per_thread / row_pieces, 1);
    const int64_t quantum = num_tiles / wanted >= tile_quantum ? tile_quantum : tile_quantum / 2;
    const int64_t tiles_per_piece = threads == 1 ? num_tiles : round_up(ceil_div(num_tiles, wanted), quantum);
    const int64_t tile_pieces = ceil_div(num_tiles, tiles_per_piece);
    queues[0].drain(*context.pool, row_pieces * tile_pieces, 1, [&](int64_t piece, int64_t) {
      const int64_t row = piece / tile_pieces * rows_per_piece;
      const int64_t tile = piece % tile_pieces * tiles_per_piece;
      kernel(args, static_cast<int>(row), static_cast<int>(std::min<int64_t>(row + rows_per_piece, num_rows)),
             static_cast<int>(tile), static_cast<int>(std::min<int64_t>(tile + tiles_per_piece, num_tiles)));
    });
  }

private:
  GemmArgs arguments(const RunContext& context) const {
    GemmArgs args{};
    args.x = row_of(context, x_, 0);
    args.x_stride = x_->stride();
    args.weight = weight_->data();
    args.tile_stride = weight_->tile_stride();
    args.steps = weight_->steps();
    args.bias = weight_->bias();
    args.out = out_ != nullptr ? row_of(context, out_, 0) : reinterpret_cast<std::byte*>(context.logits);
    args.out_stride = out_ != nullptr ? out_->stride() : int64_t{weight_->out_features()} * 4;
    args.out_dtype = out_ != nullptr ? out_->dtype : DType::f32;
    args.out_features = weight_->out_features();
    return args;
  }

  BufferRef out_, x_;
  std::shared_ptr<const PackedLinear> weight_;
};

} // namespace

std::unique_ptr<Op> make_linear(BufferRef out, BufferRef x, std::shared_ptr<const PackedLinear> weight) {
  return std::make_unique<Linear>(std::move(out), std::move(x), std::move(weight));
}

} // namespace vllm_rs
