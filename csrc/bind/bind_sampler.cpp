// Sampler and its results.
#include "arrays.hpp"
#include "module.hpp"

#include "vllm_rs/program.hpp"
#include "vllm_rs/sampler.hpp"

#include <limits>
#include <memory>

namespace vllm_rs::bind {

uint64_t seed_bits(const py::int_& seed); // bind_runtime.cpp

namespace {

struct SampleResult {
  py::array_t<int32_t> token_ids;
  py::list logprobs;
  py::array_t<int32_t> num_nonfinite;
  py::array_t<bool> exhausted;
};

std::vector<const float*> program_rows(const Program& program, const Sampler& sampler,
                                       const py::array& indices) {
  check_equal("program vocabulary", program.vocab_size(), sampler.vocab_size());
  std::vector<const float*> rows;
  for (const int32_t index : checked<int32_t>("logit_indices", indices, {-1})) {
    check_range("logit_indices", index, 0, program.num_logit_rows() - 1);
    rows.push_back(program.logits_row(index));
  }
  return rows;
}

SampleResult sample_rows(Sampler& sampler, const std::vector<const float*>& rows, const py::array& slots,
                         const py::array& positions, uint32_t stream) {
  const auto slot_ids = checked<int32_t>("slots", slots, {-1});
  const auto at = checked<int32_t>("positions", positions, {-1});
  std::vector<RowSample> samples(rows.size());
  {
    const py::gil_scoped_release release;
    sampler.sample(rows, slot_ids, at, stream, samples);
  }
  const auto count = static_cast<py::ssize_t>(rows.size());
  SampleResult result{py::array_t<int32_t>(count), py::list(), py::array_t<int32_t>(count),
                      py::array_t<bool>(count)};
  for (size_t i = 0; i < samples.size(); ++i) {
    result.token_ids.mutable_data()[i] = samples[i].token_id;
    result.num_nonfinite.mutable_data()[i] = samples[i].num_nonfinite;
    result.exhausted.mutable_data()[i] = samples[i].exhausted;
    const auto& found = samples[i].logprobs;
    if (found)
      result.logprobs.append(
          py::make_tuple(to_array(found->token_ids), to_array(found->logprobs), found->rank));
    else
      result.logprobs.append(py::none());
  }
  return result;
}

SampleResult sample(Sampler& sampler, const Program& program, const py::array& logit_indices,
                    const py::array& slots, const py::array& positions, uint32_t stream) {
  return sample_rows(sampler, program_rows(program, sampler, logit_indices), slots, positions, stream);
}

SampleResult sample_logits(Sampler& sampler, const py::array& logits, const py::array& slots,
                           const py::array& positions, uint32_t stream) {
  const auto values = checked<float>("logits", logits, {-1, sampler.vocab_size()});
  std::vector<const float*> rows;
  for (py::ssize_t i = 0; i < logits.shape(0); ++i)
    rows.push_back(values.data() + i * sampler.vocab_size());
  return sample_rows(sampler, rows, slots, positions, stream);
}

py::tuple score(Sampler& sampler, const Program& program, const py::array& logit_indices,
                const py::array& target_ids, int num_logprobs) {
  const std::vector<const float*> rows = program_rows(program, sampler, logit_indices);
  const auto targets = checked<int32_t>("target_ids", target_ids, {-1});
  std::vector<TokenLogprobs> scores(rows.size());
  {
    const py::gil_scoped_release release;
    sampler.score(rows, targets, num_logprobs, scores);
  }
  const auto count = static_cast<py::ssize_t>(rows.size());
  const py::ssize_t cols = 1 + (num_logprobs < 0 ? sampler.vocab_size() : num_logprobs);
  py::array_t<int32_t> ids({count, cols});
  py::array_t<float> values({count, cols});
  py::array_t<int32_t> ranks(count);
  for (py::ssize_t i = 0; i < count; ++i) {
    const TokenLogprobs& found = scores[static_cast<size_t>(i)];
    ranks.mutable_data()[i] = found.rank;
    for (py::ssize_t j = 0; j < cols;
         ++j) { // fewer than asked only if logits are NaN: filled with the target
      const bool known = j < static_cast<py::ssize_t>(found.token_ids.size());
      ids.mutable_at(i, j) = found.token_ids[known ? static_cast<size_t>(j) : 0];
      values.mutable_at(i, j) =
          known ? found.logprobs[static_cast<size_t>(j)] : -std::numeric_limits<float>::infinity();
    }
  }
  return py::make_tuple(ids, values, ranks);
}

void set_slot(Sampler& sampler, int slot, float temperature, int top_k, float top_p, float min_p,
              float repetition_penalty, float presence_penalty, float frequency_penalty, const py::int_& seed,
              int min_tokens, const py::array& stop_token_ids, const py::array& logit_bias_ids,
              const py::array& logit_bias_values, const std::optional<py::array>& allowed_token_ids,
              std::vector<std::vector<int32_t>> bad_words, std::optional<int> num_logprobs,
              const py::array& prompt_token_ids, const py::array& output_token_ids) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  params.repetition_penalty = repetition_penalty;
  params.presence_penalty = presence_penalty;
  params.frequency_penalty = frequency_penalty;
  params.seed = seed_bits(seed);
  params.min_tokens = min_tokens;
  params.stop_token_ids = copied<int32_t>("stop_token_ids", stop_token_ids);
  params.logit_bias_ids = copied<int32_t>("logit_bias_ids", logit_bias_ids);
  params.logit_bias_values = copied<float>("logit_bias_values", logit_bias_values);
  if (allowed_token_ids)
    params.allowed_token_ids = copied<int32_t>("allowed_token_ids", *allowed_token_ids);
  params.bad_words = std::move(bad_words);
  params.num_logprobs = num_logprobs;
  const auto prompt = checked<int32_t>("prompt_token_ids", prompt_token_ids, {-1});
  const auto output = checked<int32_t>("output_token_ids", output_token_ids, {-1});
  const py::gil_scoped_release release;
  sampler.set_slot(slot, std::move(params), prompt, output);
}

} // namespace

void bind_sampler(py::module_& module) {
  py::class_<SampleResult>(module, "SampleResult")
      .def_readonly("token_ids", &SampleResult::token_ids)
      .def_readonly("logprobs", &SampleResult::logprobs)
      .def_readonly("num_nonfinite", &SampleResult::num_nonfinite)
      .def_readonly("exhausted", &SampleResult::exhausted);
  py::class_<Sampler>(module, "Sampler")
      .def(py::init([](std::shared_ptr<ThreadPool> pool, int num_slots, int vocab_size) {
             return std::make_unique<Sampler>(std::move(pool), num_slots, vocab_size);
           }),
           py::arg("pool").none(false), py::arg("num_slots"), py::arg("vocab_size"))
      .def("set_slot", &set_slot, py::arg("slot"), py::kw_only(), py::arg("temperature"), py::arg("top_k"),
           py::arg("top_p"), py::arg("min_p"), py::arg("repetition_penalty"), py::arg("presence_penalty"),
           py::arg("frequency_penalty"), py::arg("seed"), py::arg("min_tokens"), py::arg("stop_token_ids"),
           py::arg("logit_bias_ids"), py::arg("logit_bias_values"), py::arg("allowed_token_ids").none(true),
           py::arg("bad_words"), py::arg("num_logprobs").none(true), py::arg("prompt_token_ids"),
           py::arg("output_token_ids"))
      .def("clear_slot", &Sampler::clear_slot, py::arg("slot"))
      .def(
          "append",
          [](Sampler& sampler, int slot, const py::array& token_ids) {
            sampler.append(slot, checked<int32_t>("token_ids", token_ids, {-1}));
          },
          py::arg("slot"), py::arg("token_ids"))
      .def("sample", &sample, py::arg("program"), py::arg("logit_indices"), py::arg("slots"),
           py::arg("positions"), py::arg("stream") = 0)
      .def("sample_logits", &sample_logits, py::arg("logits"), py::arg("slots"), py::arg("positions"),
           py::arg("stream") = 0)
      .def("score", &score, py::arg("program"), py::arg("logit_indices"), py::arg("target_ids"),
           py::arg("num_logprobs"));
}

} // namespace vllm_rs::bind
