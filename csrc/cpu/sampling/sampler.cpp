#include "vllm_rs/sampler.hpp"

#include "vllm_rs/check.hpp"
#include "vllm_rs/isa.hpp"
#include "vllm_rs/philox.hpp"

#include <limits>
#include <string>

namespace vllm_rs {

Sampler::Sampler(std::shared_ptr<ThreadPool> pool, int num_slots, int vocab_size)
    : pool_(std::move(pool)), vocab_size_(vocab_size) {
  check_range("num_slots", num_slots, 1, 1 << 20);
  check_range("vocab_size", vocab_size, 1, 1 << 24);
  slots_.resize(static_cast<size_t>(num_slots));
  scratch_.resize(static_cast<size_t>(pool_->num_threads()));
}

Slot& Sampler::checked(int slot) {
  check_range("slot", slot, 0, static_cast<int64_t>(slots_.size()) - 1);
  auto& held = slots_[static_cast<size_t>(slot)];
  if (!held)
    bad_argument("slot", "a slot that was set", slot);
  return *held;
}

void Sampler::set_slot(int slot, SamplingParams params, std::span<const int32_t> prompt,
                       std::span<const int32_t> output) {
  check_range("slot", slot, 0, static_cast<int64_t>(slots_.size()) - 1);
  check_params(params, vocab_size_);
  for (const auto& [name, ids] :
       {std::pair{"prompt_token_ids", prompt}, std::pair{"output_token_ids", output}})
    for (const int32_t id : ids)
      check_range(name, id, 0, vocab_size_ - 1);
  const std::lock_guard lock(running_);
  slots_[static_cast<size_t>(slot)].emplace(std::move(params), prompt, output);
}

void Sampler::clear_slot(int slot) {
  check_range("slot", slot, 0, static_cast<int64_t>(slots_.size()) - 1);
  const std::lock_guard lock(running_);
  slots_[static_cast<size_t>(slot)].reset();
}

void Sampler::append(int slot, std::span<const int32_t> token_ids) {
  Slot& held = checked(slot);
  for (const int32_t id : token_ids)
    check_range("token_ids", id, 0, vocab_size_ - 1);
  const std::lock_guard lock(running_);
  held.append(token_ids);
}

RowSample Sampler::sample_row(const float* logits, const Slot& slot, int position, uint32_t stream,
                              SamplingScratch& scratch) const {
  const KernelTable& table = kernels();
  const std::span<const float> raw(logits, static_cast<size_t>(vocab_size_));
  const SamplingParams& params = slot.params();
  SampleScan scan = table.scan(logits, vocab_size_);
  RowSample result;
  result.num_nonfinite = scan.num_nonfinite;
  const float raw_max = scan.max;

  std::span<const float> row = raw;
  if (slot.constrains()) {
    scratch.logits.resize(raw.size());
    slot.apply(scratch.logits, raw);
    row = scratch.logits;
    scan = table.scan(row.data(), vocab_size_);
  }
  if (!(scan.max > -std::numeric_limits<float>::infinity())) {
    result.exhausted = true;
    return result;
  }
  result.token_id = params.temperature == 0.0F
                        ? scan.argmax
                        : draw(table, row, scan, params,
                               philox_uniform(params.seed, static_cast<uint64_t>(position), stream), scratch);
  if (params.num_logprobs) {
    result.logprobs.emplace();
    token_logprobs(table, raw, raw_max, result.token_id, *params.num_logprobs, scratch, *result.logprobs);
  }
  return result;
}

template <class Fn>
void Sampler::for_each_row(size_t rows, Fn&& fn) {
  const std::lock_guard lock(running_);
  if (rows == 1) { // waking the workers costs more than a row
    fn(size_t{0}, scratch_[0]);
    return;
  }
  WorkQueue queue;
  pool_->run([&](int worker) {
    queue.drain(*pool_, static_cast<int64_t>(rows), 1, [&](int64_t row, int64_t) {
      fn(static_cast<size_t>(row), scratch_[static_cast<size_t>(worker)]);
    });
  });
}

void Sampler::sample(std::span<const float* const> rows, std::span<const int32_t> slots,
                     std::span<const int32_t> positions, uint32_t stream, std::span<RowSample> out) {
  check_equal("len(slots)", static_cast<int64_t>(slots.size()), static_cast<int64_t>(rows.size()));
  check_equal("len(positions)", static_cast<int64_t>(positions.size()), static_cast<int64_t>(rows.size()));
  for (const int32_t slot : slots)
    checked(slot);
  for (const int32_t position : positions)
    check_range("positions", position, 0, INT32_MAX);
  if (!rows.empty())
    for_each_row(rows.size(), [&](size_t i, SamplingScratch& scratch) {
      out[i] = sample_row(rows[i], *slots_[static_cast<size_t>(slots[i])], positions[i], stream, scratch);
    });
}

void Sampler::score(std::span<const float* const> rows, std::span<const int32_t> targets, int num_logprobs,
                    std::span<TokenLogprobs> out) {
  check_equal("len(target_ids)", static_cast<int64_t>(targets.size()), static_cast<int64_t>(rows.size()));
  check_range("num_logprobs", num_logprobs, -1, vocab_size_);
  for (const int32_t target : targets)
    check_range("target_ids", target, 0, vocab_size_ - 1);
  if (!rows.empty())
    for_each_row(rows.size(), [&](size_t i, SamplingScratch& scratch) {
      const float max = kernels().scan(rows[i], vocab_size_).max;
      token_logprobs(kernels(), {rows[i], static_cast<size_t>(vocab_size_)}, max, targets[i], num_logprobs,
                     scratch, out[i]);
    });
}

} // namespace vllm_rs
