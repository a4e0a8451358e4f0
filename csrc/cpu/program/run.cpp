// Planning and replay.
#include "vllm_rs/check.hpp"
#include "vllm_rs/isa.hpp"
#include "vllm_rs/program.hpp"

#include <algorithm>
#include <chrono>

namespace vllm_rs {
namespace {

constexpr int scratch_block_size = 16;
constexpr int queues_per_op = 2;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

void Program::finalize() {
  if (finalized_)
    throw StateError("the program is finalized already");
  const int end = num_ops();
  std::vector<Lifetime> lives;
  for (const auto& buffer : buffers_) {
    const int max_rows = buffer->rows == RowSpace::tokens ? limits_.max_tokens : limits_.max_logit_rows;
    // AMX tiles read whole groups of 16 rows.
    lives.push_back({round_up(max_rows, 16) * buffer->stride(), end, -1});
  }
  for (int i = 0; i < end; ++i)
    for (const auto* handles : {&ops_[static_cast<size_t>(i)]->reads, &ops_[static_cast<size_t>(i)]->writes})
      for (const int handle : *handles) {
        Lifetime& life = lives[static_cast<size_t>(handle)];
        life.first_use = std::min(life.first_use, i);
        life.last_use = std::max(life.last_use, i);
      }
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i]->kept)
      lives[i].last_use = end;
  std::vector<int64_t> offsets;
  workspace_ = AlignedBuffer(static_cast<size_t>(plan_offsets(lives, offsets)));
  for (size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i]->offset = offsets[i];

  for (const auto& op : ops_)
    worker_scratch_bytes_ = std::max(worker_scratch_bytes_, round_up(op->scratch_bytes(), 4096));
  worker_scratch_ = AlignedBuffer(static_cast<size_t>(worker_scratch_bytes_ * pool_->num_threads()));
  partials_ = AlignedBuffer(static_cast<size_t>(heads_.head_dim != 0 ? attention_partial_bytes : 0));
  logits_ = AlignedBuffer(static_cast<size_t>(int64_t{limits_.max_logit_rows} * vocab_size_ * 4));
  queues_ = std::vector<WorkQueue>(static_cast<size_t>(end) * queues_per_op);
  row_blocks_.reserve(static_cast<size_t>(limits_.max_tokens));
  finalized_ = true;
}

int64_t Program::workspace_bytes() const {
  return static_cast<int64_t>(workspace_.size() + logits_.size() + worker_scratch_.size());
}

// Profile runs: the step's own rows as short sequences in a cache of one layer that lives for this run only.
std::unique_ptr<KVCache> Program::scratch_cache(const StepInput& step) {
  scratch_tables_.clear();
  int64_t num_blocks = 0;
  for (size_t s = 0; s + 1 < step.query_start.size(); ++s)
    num_blocks += ceil_div(step.query_start[s + 1] - step.query_start[s], scratch_block_size);
  for (int64_t block = 0; block < num_blocks; ++block)
    scratch_tables_.push_back(static_cast<int32_t>(block));
  return std::make_unique<KVCache>(1, std::max<int64_t>(num_blocks, 1), scratch_block_size,
                                   heads_.num_kv_heads, heads_.head_dim, DType::f32);
}

std::vector<RowBlock>& Program::split_step(const KVCache* kv, const StepInput& step) {
  if (kv != nullptr) {
    split_rows(
        step, row_blocks_,
        [&](size_t s) { return step.block_tables.data() + static_cast<int64_t>(s) * step.table_cols; },
        [](size_t) { return 0; });
    return row_blocks_;
  }
  int64_t used = 0;
  size_t current = 0;
  const auto table_of = [&](size_t s) {
    for (; current < s; ++current)
      used += ceil_div(step.query_start[current + 1] - step.query_start[current], scratch_block_size);
    return static_cast<const int32_t*>(scratch_tables_.data()) + used;
  };
  const auto offset_of = [&](size_t s) { return step.positions[static_cast<size_t>(step.query_start[s])]; };
  split_rows(step, row_blocks_, table_of, offset_of);
  return row_blocks_;
}

void Program::run(const KVCache* kv, const StepInput& step, int first_op, int last_op,
                  std::vector<std::pair<const char*, double>>* times) {
  if (!finalized_)
    throw StateError("the program is not finalized");
  const std::lock_guard lock(running_);
  check_range("first_op", first_op, 0, num_ops());
  check_range("last_op", last_op, -1, num_ops() - 1);
  if (kv != nullptr && heads_.head_dim != 0) {
    check_equal("kv.num_kv_heads", kv->layout().num_kv_heads, heads_.num_kv_heads);
    check_equal("kv.head_dim", kv->layout().head_dim, heads_.head_dim);
    check_range("kv.num_layers", kv->num_layers(), num_layers_, INT32_MAX);
  }
  check_step(step, limits_, kv);
  num_tokens_ = static_cast<int>(step.token_ids.size());
  num_logit_rows_ = static_cast<int>(step.logit_rows.size());
  if (num_tokens_ == 0)
    return;

  std::unique_ptr<KVCache> scratch;
  if (kv == nullptr && heads_.head_dim != 0)
    scratch = scratch_cache(step);
  for (WorkQueue& queue : queues_)
    queue.reset();
  RunContext context{};
  context.kernels = &kernels();
  context.pool = pool_.get();
  context.workspace = workspace_.data();
  context.step = &step;
  context.kv = kv != nullptr ? kv : scratch.get();
  context.single_layer_cache = kv == nullptr;
  context.row_blocks = split_step(kv, step);
  context.queues = queues_.data();
  context.worker_scratch = worker_scratch_.data();
  context.worker_scratch_bytes = worker_scratch_bytes_;
  context.partials = partials_.data();
  context.logits = logits_.as<float>();
  replay(context, first_op, last_op < 0 ? num_ops() : last_op + 1, times);
}

void Program::replay(RunContext& context, int first_op, int end_op,
                     std::vector<std::pair<const char*, double>>* times) {
  if (times != nullptr)
    times->reserve(static_cast<size_t>(num_ops()));
  // From the end of one call to the end of the next, as the caller sees them: the sum is the step's time even
  // when the caller lost its core and others did the work.
  double last = times != nullptr ? seconds_now() : 0.0;
  pool_->run([&](int worker) {
    for (int i = first_op; i < end_op; ++i) {
      const Op& op = *ops_[static_cast<size_t>(i)];
      op.run(context, &context.queues[i * queues_per_op], worker);
      if (times == nullptr || worker != 0)
        continue;
      const double now = seconds_now();
      times->emplace_back(op.name(), now - last);
      last = now;
    }
  });
}

std::pair<int, int> Program::kept_shape(int handle) const {
  if (!finalized_)
    throw StateError("the program is not finalized");
  check_range("handle", handle, 0, static_cast<int64_t>(buffers_.size()) - 1);
  const Buffer& buffer = *buffers_[static_cast<size_t>(handle)];
  if (!buffer.kept)
    bad_argument("handle", "a buffer marked by keep", handle);
  return {buffer.rows == RowSpace::tokens ? num_tokens_ : num_logit_rows_, buffer.cols};
}

void Program::read_kept(int handle, float* out) const {
  const auto [rows, cols] = kept_shape(handle);
  const Buffer& buffer = *buffers_[static_cast<size_t>(handle)];
  for (int row = 0; row < rows; ++row) {
    const std::byte* in = workspace_.data() + buffer.offset + row * buffer.stride();
    for (int col = 0; col < cols; ++col)
      *out++ = buffer.dtype == DType::f32 ? reinterpret_cast<const float*>(in)[col]
                                          : bf16_to_f32(reinterpret_cast<const uint16_t*>(in)[col]);
  }
}

} // namespace vllm_rs
