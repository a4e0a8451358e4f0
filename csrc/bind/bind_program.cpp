// Program: recording and replay.
#include "arrays.hpp"
#include "module.hpp"

#include "vllm_rs/program.hpp"

#include <memory>

namespace vllm_rs::bind {
namespace {

RowSpace parse_rows(const std::string& rows) {
  if (rows == "tokens")
    return RowSpace::tokens;
  if (rows == "logit_rows")
    return RowSpace::logit_rows;
  bad_argument("rows", "tokens or logit_rows", rows);
}

RotaryTable rotary_table(const py::array& cos_sin) {
  const auto values = checked<float>("cos_sin", cos_sin, {-1, -1});
  return {cos_sin.shape(0), static_cast<int>(cos_sin.shape(1)), {values.begin(), values.end()}};
}

StepInput step_input(const py::array& token_ids, const py::array& positions, const py::array& query_start,
                     const py::array& block_tables, const py::array& logit_rows) {
  StepInput step{};
  step.token_ids = checked<int32_t>("token_ids", token_ids, {-1});
  step.positions = checked<int32_t>("positions", positions, {-1});
  step.query_start = checked<int32_t>("query_start", query_start, {-1});
  step.block_tables = checked<int32_t>("block_tables", block_tables, {-1, -1});
  step.table_cols = block_tables.shape(1);
  step.logit_rows = checked<int32_t>("logit_rows", logit_rows, {-1});
  return step;
}

void run(Program& program, const KVCache* kv, const py::array& token_ids, const py::array& positions,
         const py::array& query_start, const py::array& block_tables, const py::array& logit_rows,
         int first_op, int last_op) {
  const StepInput step = step_input(token_ids, positions, query_start, block_tables, logit_rows);
  const py::gil_scoped_release release;
  program.run(kv, step, first_op, last_op);
}

std::vector<std::pair<const char*, double>>
run_traced(Program& program, const KVCache* kv, const py::array& token_ids, const py::array& positions,
           const py::array& query_start, const py::array& block_tables, const py::array& logit_rows) {
  const StepInput step = step_input(token_ids, positions, query_start, block_tables, logit_rows);
  std::vector<std::pair<const char*, double>> times;
  const py::gil_scoped_release release;
  program.run(kv, step, 0, -1, &times);
  return times;
}

py::array logits_view(py::object self) {
  const auto& program = self.cast<const Program&>();
  return py::array_t<float>({program.num_logit_rows(), program.vocab_size()}, program.logits_row(0), self);
}

py::array read_buffer(const Program& program, int handle) {
  const auto [rows, cols] = program.kept_shape(handle);
  py::array_t<float> out({rows, cols});
  program.read_kept(handle, out.mutable_data());
  return out;
}

using Weight = std::shared_ptr<PackedLinear>;

void bind_recording(py::class_<Program, std::shared_ptr<Program>>& cls) {
  cls.def(
         "buffer",
         [](Program& p, const std::string& rows, int cols, const std::string& dtype) {
           return p.buffer(parse_rows(rows), cols, parse_dtype("dtype", dtype));
         },
         py::arg("rows"), py::arg("cols"), py::arg("dtype"))
      .def(
          "embedding", [](Program& p, int out, Weight table) { p.embedding(out, std::move(table)); },
          py::arg("out"), py::arg("table").none(false))
      .def(
          "rms_norm",
          [](Program& p, int out, int x, const py::array& weight, float eps) {
            p.rms_norm(out, x, copied<float>("weight", weight), eps);
          },
          py::arg("out"), py::arg("x"), py::arg("weight"), py::arg("eps"))
      .def(
          "add_rms_norm",
          [](Program& p, int out, int residual, int x, const py::array& weight, float eps) {
            p.add_rms_norm(out, residual, x, copied<float>("weight", weight), eps);
          },
          py::arg("out"), py::arg("residual"), py::arg("x"), py::arg("weight"), py::arg("eps"))
      .def("add", &Program::add, py::arg("residual"), py::arg("x"))
      .def(
          "linear", [](Program& p, int out, int x, Weight weight) { p.linear(out, x, std::move(weight)); },
          py::arg("out"), py::arg("x"), py::arg("weight").none(false))
      .def(
          "rope_kv_write",
          [](Program& p, int qkv, int num_heads, int num_kv_heads, int head_dim, const py::array& cos_sin,
             int layer) {
            p.rope_kv_write(qkv, {num_heads, num_kv_heads, head_dim}, rotary_table(cos_sin), layer);
          },
          py::arg("qkv"), py::arg("num_heads"), py::arg("num_kv_heads"), py::arg("head_dim"),
          py::arg("cos_sin"), py::arg("layer"))
      .def(
          "attention",
          [](Program& p, int out, int qkv, int num_heads, int num_kv_heads, int head_dim, float scale,
             int layer, int sliding_window) {
            p.attention(out, qkv, {num_heads, num_kv_heads, head_dim}, scale, layer, sliding_window);
          },
          py::arg("out"), py::arg("qkv"), py::arg("num_heads"), py::arg("num_kv_heads"), py::arg("head_dim"),
          py::arg("scale"), py::arg("layer"), py::arg("sliding_window") = 0)
      .def("silu_mul", &Program::silu_mul, py::arg("out"), py::arg("gate_up"))
      .def("gather_rows", &Program::gather_rows, py::arg("out"), py::arg("x"))
      .def(
          "logits", [](Program& p, int x, Weight lm_head) { p.logits(x, std::move(lm_head)); }, py::arg("x"),
          py::arg("lm_head").none(false))
      .def("keep", &Program::keep, py::arg("handle"))
      .def("finalize", &Program::finalize);
}

} // namespace

void bind_program(py::module_& module) {
  py::class_<Program, std::shared_ptr<Program>> cls(module, "Program");
  cls.def(
      py::init([](std::shared_ptr<ThreadPool> pool, int max_tokens, int max_logit_rows, int max_sequences) {
        return std::make_shared<Program>(std::move(pool), max_tokens, max_logit_rows, max_sequences);
      }),
      py::arg("pool").none(false), py::arg("max_tokens"), py::arg("max_logit_rows"),
      py::arg("max_sequences"));
  bind_recording(cls);
  cls.def_property_readonly("num_ops", &Program::num_ops)
      .def_property_readonly("workspace_bytes", &Program::workspace_bytes)
      .def("describe", &Program::describe)
      .def("run", &run, py::arg("kv").none(true), py::arg("token_ids"), py::arg("positions"),
           py::arg("query_start"), py::arg("block_tables"), py::arg("logit_rows"), py::arg("first_op") = 0,
           py::arg("last_op") = -1)
      .def("run_traced", &run_traced, py::arg("kv").none(true), py::arg("token_ids"), py::arg("positions"),
           py::arg("query_start"), py::arg("block_tables"), py::arg("logit_rows"))
      .def("logits_view", &logits_view)
      .def("read_buffer", &read_buffer, py::arg("handle"));
}

} // namespace vllm_rs::bind
