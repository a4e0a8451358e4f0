// Calls that work row by row: embedding, norms, residual add, gated activation, row gather.
#include "vllm_rs/op.hpp"

#include <cstring>

namespace vllm_rs {
namespace {

std::string shape_of(const Buffer& buffer) {
  return std::string("[") + (buffer.rows == RowSpace::tokens ? "tokens, " : "logit_rows, ") +
         std::to_string(buffer.cols) + "] " + name_of(buffer.dtype);
}

RowOut row_out(const RunContext& context, const BufferRef& buffer, int64_t row) {
  return {row_of(context, buffer, row), buffer->dtype};
}

template <class Fn>
void for_each_row(const RunContext& context, WorkQueue& queue, RowSpace rows, Fn&& fn) {
  queue.drain(*context.pool, context.num_rows(rows), row_grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      fn(row);
  });
}

void zero_tail(std::byte* row, const Buffer& buffer) {
  const int64_t used = buffer.cols * size_of(buffer.dtype);
  std::memset(row + used, 0, static_cast<size_t>(buffer.stride() - used));
}

class Embedding final : public Op {
public:
  Embedding(BufferRef out, std::shared_ptr<const PackedLinear> table)
      : out_(std::move(out)), table_(std::move(table)) {}
  const char* name() const override { return "embedding"; }
  std::string describe() const override { return shape_of(*out_) + " table " + name_of(table_->dtype()); }
  int64_t scratch_bytes() const override { return int64_t{table_->in_features()} * 4; }

  void run(const RunContext& context, WorkQueue* queues, int worker) const override {
    std::byte* scratch = context.worker_scratch + worker * context.worker_scratch_bytes;
    for_each_row(context, queues[0], RowSpace::tokens, [&](int64_t row) {
      copy(context, context.step->token_ids[static_cast<size_t>(row)], row_of(context, out_, row), scratch);
    });
  }

private:
  void copy(const RunContext& context, int token, std::byte* row, std::byte* scratch) const {
    const int cols = out_->cols;
    if (out_->dtype == DType::f32 && table_->dtype() == DType::f32) {
      table_->read_row(token, reinterpret_cast<float*>(row));
    } else if (out_->dtype == DType::f32) {
      table_->read_row_bf16(token, reinterpret_cast<uint16_t*>(scratch));
      context.kernels->to_f32(reinterpret_cast<float*>(row), reinterpret_cast<const uint16_t*>(scratch),
                              cols);
    } else if (table_->dtype() == DType::f32) {
      table_->read_row(token, reinterpret_cast<float*>(scratch));
      context.kernels->to_bf16(reinterpret_cast<uint16_t*>(row), reinterpret_cast<const float*>(scratch),
                               cols);
    } else {
      table_->read_row_bf16(token, reinterpret_cast<uint16_t*>(row));
    }
    zero_tail(row, *out_);
  }

  BufferRef out_;
  std::shared_ptr<const PackedLinear> table_;
};

class RmsNorm final : public Op {
public:
  RmsNorm(BufferRef out, BufferRef x, BufferRef add, std::vector<float> weight, float eps)
      : out_(std::move(out)), x_(std::move(x)), add_(std::move(add)), weight_(std::move(weight)), eps_(eps) {}
  const char* name() const override { return add_ != nullptr ? "add_rms_norm" : "rms_norm"; }
  std::string describe() const override { return shape_of(*out_) + " eps " + std::to_string(eps_); }

  void run(const RunContext& context, WorkQueue* queues, int /*worker*/) const override {
    for_each_row(context, queues[0], x_->rows, [&](int64_t row) {
      context.kernels->rms_norm(row_out(context, out_, row),
                                reinterpret_cast<float*>(row_of(context, x_, row)),
                                add_ != nullptr ? row_of(context, add_, row) : nullptr,
                                add_ != nullptr ? add_->dtype : DType::f32, weight_.data(), x_->cols, eps_);
    });
  }

private:
  BufferRef out_, x_, add_;
  std::vector<float> weight_;
  float eps_;
};

class Add final : public Op {
public:
  Add(BufferRef residual, BufferRef x) : residual_(std::move(residual)), x_(std::move(x)) {}
  const char* name() const override { return "add"; }
  std::string describe() const override { return shape_of(*residual_); }

  void run(const RunContext& context, WorkQueue* queues, int /*worker*/) const override {
    for_each_row(context, queues[0], x_->rows, [&](int64_t row) {
      context.kernels->add(reinterpret_cast<float*>(row_of(context, residual_, row)),
                           row_of(context, x_, row), x_->dtype, x_->cols);
    });
  }

private:
  BufferRef residual_, x_;
};

class SiluMul final : public Op {
public:
  SiluMul(BufferRef out, BufferRef gate_up) : out_(std::move(out)), gate_up_(std::move(gate_up)) {}
  const char* name() const override { return "silu_mul"; }
  std::string describe() const override { return shape_of(*out_); }

  void run(const RunContext& context, WorkQueue* queues, int /*worker*/) const override {
    for_each_row(context, queues[0], out_->rows, [&](int64_t row) {
      context.kernels->silu_mul(row_out(context, out_, row), row_of(context, gate_up_, row), gate_up_->dtype,
                                out_->cols);
    });
  }

private:
  BufferRef out_, gate_up_;
};

class GatherRows final : public Op {
public:
  GatherRows(BufferRef out, BufferRef x) : out_(std::move(out)), x_(std::move(x)) {}
  const char* name() const override { return "gather_rows"; }
  std::string describe() const override { return shape_of(*out_); }

  void run(const RunContext& context, WorkQueue* queues, int /*worker*/) const override {
    for_each_row(context, queues[0], RowSpace::logit_rows, [&](int64_t row) {
      const int source = context.step->logit_rows[static_cast<size_t>(row)];
      std::memcpy(row_of(context, out_, row), row_of(context, x_, source), static_cast<size_t>(x_->stride()));
    });
  }

private:
  BufferRef out_, x_;
};

} // namespace

std::unique_ptr<Op> make_embedding(BufferRef out, std::shared_ptr<const PackedLinear> table) {
  return std::make_unique<Embedding>(std::move(out), std::move(table));
}
std::unique_ptr<Op> make_rms_norm(BufferRef out, BufferRef x, BufferRef add, std::vector<float> weight,
                                  float eps) {
  return std::make_unique<RmsNorm>(std::move(out), std::move(x), std::move(add), std::move(weight), eps);
}
std::unique_ptr<Op> make_add(BufferRef residual, BufferRef x) {
  return std::make_unique<Add>(std::move(residual), std::move(x));
}
std::unique_ptr<Op> make_silu_mul(BufferRef out, BufferRef gate_up) {
  return std::make_unique<SiluMul>(std::move(out), std::move(gate_up));
}
std::unique_ptr<Op> make_gather_rows(BufferRef out, BufferRef x) {
  return std::make_unique<GatherRows>(std::move(out), std::move(x));
}

} // namespace vllm_rs
