// Recording: each method checks its arguments against the buffers and appends one call.
#include "vllm_rs/program.hpp"

#include "vllm_rs/check.hpp"

#include <algorithm>
#include <cstring>

namespace vllm_rs {
namespace {

void expect_cols(const char* name, const BufferRef& buffer, int64_t cols) {
  if (buffer->cols != cols)
    bad_argument(name, "a buffer of " + std::to_string(cols) + " columns", buffer->cols);
}

void expect_dtype(const char* name, const BufferRef& buffer, DType dtype) {
  if (buffer->dtype != dtype)
    bad_argument(name, std::string("a ") + name_of(dtype) + " buffer", name_of(buffer->dtype));
}

const char* name_of(RowSpace rows) { return rows == RowSpace::tokens ? "tokens" : "logit_rows"; }

void expect_rows(const char* name, const BufferRef& buffer, RowSpace rows) {
  if (buffer->rows != rows)
    bad_argument(name, std::string("a buffer with one row per ") + name_of(rows), name_of(buffer->rows));
}

void expect_weight(const std::vector<float>& weight, int cols) {
  check_equal("len(weight)", static_cast<int64_t>(weight.size()), cols);
}

} // namespace

Program::Program(std::shared_ptr<ThreadPool> pool, int max_tokens, int max_logit_rows, int max_sequences)
    : pool_(std::move(pool)), limits_{max_tokens, max_logit_rows, max_sequences, 0, 0} {
  check_range("max_tokens", max_tokens, 1, 1 << 20);
  check_range("max_logit_rows", max_logit_rows, 1, 1 << 20);
  check_range("max_sequences", max_sequences, 1, 1 << 20);
}

void Program::check_recording() const {
  if (finalized_)
    throw StateError("the program is finalized: nothing more can be recorded");
  if (vocab_size_ != 0)
    throw StateError("logits was recorded: it is the last call");
}

Buffer& Program::checked(const char* name, int handle) {
  check_range(name, handle, 0, static_cast<int64_t>(buffers_.size()) - 1);
  return *buffers_[static_cast<size_t>(handle)];
}

BufferRef Program::input(const char* name, int handle) {
  checked(name, handle);
  if (!written_[static_cast<size_t>(handle)])
    bad_argument(name, "a buffer that an earlier call wrote", "buffer " + std::to_string(handle));
  return buffers_[static_cast<size_t>(handle)];
}

BufferRef Program::output(const char* name, int handle) {
  checked(name, handle);
  return buffers_[static_cast<size_t>(handle)];
}

void Program::record(std::unique_ptr<Op> op, std::vector<int> reads, std::vector<int> writes) {
  for (const int handle : writes)
    written_[static_cast<size_t>(handle)] = true;
  op->reads = std::move(reads);
  op->writes = std::move(writes);
  ops_.push_back(std::move(op));
}

int Program::buffer(RowSpace rows, int cols, DType dtype) {
  check_recording();
  check_range("cols", cols, 1, 1 << 24);
  buffers_.push_back(std::make_shared<Buffer>(Buffer{rows, cols, dtype}));
  written_.push_back(false);
  return static_cast<int>(buffers_.size()) - 1;
}

void Program::embedding(int out, std::shared_ptr<const PackedLinear> table) {
  check_recording();
  const BufferRef to = output("out", out);
  expect_rows("out", to, RowSpace::tokens);
  expect_cols("out", to, table->in_features());
  const int64_t rows = table->out_features();
  limits_.vocab_size = limits_.vocab_size == 0 ? rows : std::min(limits_.vocab_size, rows);
  record(make_embedding(to, std::move(table)), {}, {out});
}

void Program::rms_norm(int out, int x, std::vector<float> weight, float eps) {
  check_recording();
  const BufferRef from = input("x", x);
  const BufferRef to = output("out", out);
  expect_dtype("x", from, DType::f32);
  expect_rows("out", to, from->rows);
  expect_cols("out", to, from->cols);
  expect_weight(weight, from->cols);
  record(make_rms_norm(to, from, nullptr, std::move(weight), eps), {x}, {out});
}

void Program::add_rms_norm(int out, int residual, int x, std::vector<float> weight, float eps) {
  check_recording();
  const BufferRef sum = input("residual", residual);
  const BufferRef from = input("x", x);
  const BufferRef to = output("out", out);
  expect_dtype("residual", sum, DType::f32);
  for (const auto& [name, buffer] : {std::pair{"x", from}, std::pair{"out", to}}) {
    expect_rows(name, buffer, sum->rows);
    expect_cols(name, buffer, sum->cols);
  }
  if (out == residual)
    bad_argument("out", "another buffer than residual", out);
  expect_weight(weight, sum->cols);
  record(make_rms_norm(to, sum, from, std::move(weight), eps), {residual, x}, {residual, out});
}

void Program::add(int residual, int x) {
  check_recording();
  const BufferRef sum = input("residual", residual);
  const BufferRef from = input("x", x);
  expect_dtype("residual", sum, DType::f32);
  expect_rows("x", from, sum->rows);
  expect_cols("x", from, sum->cols);
  record(make_add(sum, from), {residual, x}, {residual});
}

void Program::linear(int out, int x, std::shared_ptr<const PackedLinear> weight) {
  check_recording();
  const BufferRef from = input("x", x);
  const BufferRef to = output("out", out);
  expect_dtype("x", from, weight->dtype());
  expect_cols("x", from, weight->in_features());
  expect_rows("out", to, from->rows);
  expect_cols("out", to, weight->out_features());
  if (out == x)
    bad_argument("out", "another buffer than x", out);
  record(make_linear(to, from, std::move(weight)), {x}, {out});
}

void Program::check_heads(const Buffer& qkv, const HeadShape& heads, int layer) {
  check_range("num_kv_heads", heads.num_kv_heads, 1, 1 << 12);
  check_range("num_heads", heads.num_heads, heads.num_kv_heads, 1 << 12);
  check_range("head_dim", heads.head_dim, 2, 1 << 12);
  if (heads.head_dim % 2 != 0)
    bad_argument("head_dim", "an even number", heads.head_dim);
  if (heads.num_heads % heads.num_kv_heads != 0)
    bad_argument("num_heads", "a multiple of num_kv_heads", heads.num_heads);
  check_range("layer", layer, 0, 1 << 14);
  const int64_t cols = (int64_t{heads.num_heads} + 2 * heads.num_kv_heads) * heads.head_dim;
  if (qkv.cols != cols || qkv.dtype != DType::f32 || qkv.rows != RowSpace::tokens)
    bad_argument("qkv", "a float32 tokens buffer of " + std::to_string(cols) + " columns", qkv.cols);
  if (heads_.head_dim != 0) {
    check_equal("num_kv_heads", heads.num_kv_heads, heads_.num_kv_heads); // one cache shape per program
    check_equal("head_dim", heads.head_dim, heads_.head_dim);
  }
  heads_ = heads;
  num_layers_ = std::max(num_layers_, layer + 1);
}

void Program::rope_kv_write(int qkv, HeadShape heads, RotaryTable table, int layer) {
  check_recording();
  const BufferRef buffer = input("qkv", qkv);
  check_heads(*buffer, heads, layer);
  check_range("cos_sin", table.rotary_dim, 2, heads.head_dim);
  if (table.rotary_dim % 2 != 0)
    bad_argument("cos_sin", "an even number of columns", table.rotary_dim);
  check_range("len(cos_sin)", table.max_positions, 1, INT32_MAX);
  const int64_t limit = limits_.max_positions;
  limits_.max_positions = limit == 0 ? table.max_positions : std::min(limit, table.max_positions);
  auto same = std::find_if(rotary_tables_.begin(), rotary_tables_.end(), [&](const auto& known) {
    return known->rotary_dim == table.rotary_dim && known->values == table.values;
  });
  if (same == rotary_tables_.end())
    same = rotary_tables_.insert(same, std::make_shared<const RotaryTable>(std::move(table)));
  record(make_rope_kv_write(buffer, heads, *same, layer), {qkv}, {qkv});
}

void Program::attention(int out, int qkv, HeadShape heads, float scale, int layer, int sliding_window) {
  check_recording();
  const BufferRef from = input("qkv", qkv);
  const BufferRef to = output("out", out);
  check_heads(*from, heads, layer);
  check_range("sliding_window", sliding_window, 0, INT32_MAX);
  expect_rows("out", to, RowSpace::tokens);
  expect_cols("out", to, int64_t{heads.num_heads} * heads.head_dim);
  record(make_attention(to, from, heads, scale, layer, sliding_window), {qkv}, {out});
}

void Program::silu_mul(int out, int gate_up) {
  check_recording();
  const BufferRef from = input("gate_up", gate_up);
  const BufferRef to = output("out", out);
  expect_rows("out", to, from->rows);
  if (from->cols % 2 != 0)
    bad_argument("gate_up", "an even number of columns", from->cols);
  expect_cols("out", to, from->cols / 2);
  record(make_silu_mul(to, from), {gate_up}, {out});
}

void Program::gather_rows(int out, int x) {
  check_recording();
  const BufferRef from = input("x", x);
  const BufferRef to = output("out", out);
  expect_rows("x", from, RowSpace::tokens);
  expect_rows("out", to, RowSpace::logit_rows);
  expect_cols("out", to, from->cols);
  expect_dtype("out", to, from->dtype);
  record(make_gather_rows(to, from), {x}, {out});
}

void Program::logits(int x, std::shared_ptr<const PackedLinear> lm_head) {
  check_recording();
  const BufferRef from = input("x", x);
  expect_rows("x", from, RowSpace::logit_rows);
  expect_dtype("x", from, lm_head->dtype());
  expect_cols("x", from, lm_head->in_features());
  const int vocab_size = lm_head->out_features();
  record(make_linear(nullptr, from, std::move(lm_head)), {x}, {});
  vocab_size_ = vocab_size;
}

void Program::keep(int handle) {
  if (finalized_)
    throw StateError("the program is finalized: keep buffers before");
  checked("handle", handle).kept = true;
}

std::vector<std::string> Program::describe() const {
  std::vector<std::string> lines;
  for (const auto& op : ops_) {
    std::string line = op->name();
    line += '(';
    for (const int handle : op->reads)
      line.append("b").append(std::to_string(handle)).append(" ");
    line += "->";
    for (const int handle : op->writes)
      line.append(" b").append(std::to_string(handle));
    line.append(") ").append(op->describe());
    lines.push_back(std::move(line));
  }
  return lines;
}

} // namespace vllm_rs
