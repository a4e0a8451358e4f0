"""How requests end, and what their outputs say."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_rs.core.fake_executor import FakeExecutor
from vllm_rs.errors import InvariantError
from vllm_rs.sched.commit import commit_step
from vllm_rs.sched.plan import PromptLogprobs, RowResult, StepResult
from vllm_rs.sched.stop import repeats
from vllm_rs.wire import FinishReason, RepetitionDetection

PROMPT = [3, 1, 4, 1, 5]


def last(h, name="A"):
    return h.outputs[name][-1]


def test_stop_by_end_of_sequence(harness):
    h = harness()
    truth = h.expected(PROMPT, 8)
    h.add("A", PROMPT, _eos_token_id=truth[3])
    h.run()
    assert h.tokens("A") == truth[:4]
    assert (last(h).finish_reason, last(h).stop_reason) == (FinishReason.STOP, None)


def test_stop_by_token_id_names_it(harness):
    h = harness()
    truth = h.expected(PROMPT, 8)
    h.add("A", PROMPT, stop_token_ids=[truth[5], truth[2]])
    h.run()
    assert h.tokens("A") == truth[:3]
    assert (last(h).finish_reason, last(h).stop_reason) == (FinishReason.STOP, truth[2])


def test_ignored_end_of_sequence_and_owed_tokens_do_not_stop(harness):
    h = harness()
    truth = h.expected(PROMPT, 8)
    h.add("A", PROMPT, _eos_token_id=truth[1], ignore_eos=True)
    h.add("B", PROMPT, stop_token_ids=[truth[1], truth[6]], min_tokens=5)
    h.run()
    assert h.tokens("A") == truth
    assert h.tokens("B") == truth[:7]


@pytest.mark.parametrize(("max_tokens", "max_model_len", "count"), [(1, 64, 1), (6, 64, 6), (60, 16, 11)])
def test_length(harness, max_tokens, max_model_len, count):
    h = harness(max_model_len=max_model_len)
    h.add("A", PROMPT, max_tokens=max_tokens)
    h.run()
    assert len(h.tokens("A")) == count
    assert last(h).finish_reason is FinishReason.LENGTH
    assert [output.finish_reason for output in h.outputs["A"][:-1]] == [None] * (count - 1)


def test_repetition_ends_a_request_whatever_its_penalty(harness):
    h = harness(executor=FakeExecutor(vocab_size=1))
    h.add(
        "A", [0, 0], max_tokens=40, repetition_detection=RepetitionDetection(2, 1, 5), repetition_penalty=2.0
    )
    h.add("B", [0, 0], max_tokens=40, repetition_penalty=2.0)
    h.run()
    assert (len(h.tokens("A")), last(h).finish_reason) == (5, FinishReason.REPETITION)
    assert last(h).stop_reason == "repetition_detected"
    assert len(h.tokens("B")) == 40


@given(st.lists(st.integers(0, 2), max_size=14), st.integers(0, 4), st.integers(0, 4), st.integers(2, 4))
def test_repetition_is_what_its_definition_says(tokens, low, high, count):
    def by_definition():
        for size in range(max(1, low), high + 1):
            pattern = tokens[len(tokens) - size :]
            if len(tokens) >= size * count and tokens[len(tokens) - size * count :] == pattern * count:
                return True
        return False

    assert repeats([5, *tokens], 1, RepetitionDetection(high, low, count)) is by_definition()


def test_patterns_that_do_not_end_in_the_last_token_cost_no_copy():
    class NoSlices(list):
        def __getitem__(self, index):
            assert isinstance(index, int), "the tail is copied only where it may match"
            return super().__getitem__(index)

    assert repeats(NoSlices(range(5000)), 0, RepetitionDetection(1024, 1, 2)) is False


def test_non_finite_logits_end_only_their_request_and_leave_nothing_in_the_cache(harness):
    truth = harness().expected(PROMPT * 8, 8)
    h = harness(executor=FakeExecutor(nonfinite_token_id=truth[2]))
    h.add("A", PROMPT * 8)
    h.add("B", [9] * 40)
    h.run()
    assert h.tokens("A") == truth[:3]
    assert last(h).finish_reason is FinishReason.ERROR
    assert last(h).num_nans_in_logits == 1
    assert h.tokens("B") == h.expected([9] * 40, 8)
    again = h.add("C", PROMPT * 8)
    h.run()
    assert again.num_cached_tokens == 0


@pytest.mark.parametrize("budget", [8, 256])
def test_prompt_logprobs_come_once_and_whole(harness, budget):
    h = harness(max_num_batched_tokens=budget)
    prompt = list(range(10, 50))
    h.add("warm", prompt)
    h.run()
    h.add("A", prompt, prompt_logprobs=0, logprobs=2)
    h.run()
    first = h.outputs["A"][0]
    assert first.new_prompt_logprobs_tensors.token_ids.array[:, 0].tolist() == prompt[1:]
    assert all(output.new_prompt_logprobs_tensors is None for output in h.outputs["A"][1:])
    assert all(output.new_logprobs.token_ids.shape == (1, 3) for output in h.outputs["A"])


def test_a_prompt_of_one_token_is_answered_with_no_rows(harness):
    h = harness()
    h.add("A", [5], prompt_logprobs=3)
    h.run()
    tensors = h.outputs["A"][0].new_prompt_logprobs_tensors
    assert [tensor.array.shape for tensor in tensors[:3]] == [(0, 4), (0, 4), (0,)]
    assert all(output.new_prompt_logprobs_tensors is None for output in h.outputs["A"][1:])


def test_a_failed_row_sends_neither_tokens_nor_logprobs(harness):
    truth = harness().expected(PROMPT, 8)
    h = harness(executor=FakeExecutor(nonfinite_token_id=truth[1]))
    h.add("A", PROMPT, logprobs=2, prompt_logprobs=1)
    h.run()
    assert h.outputs["A"][0].new_prompt_logprobs_tensors is not None
    assert (last(h).finish_reason, last(h).new_token_ids) == (FinishReason.ERROR, [])
    assert last(h).new_logprobs is None


def test_prompt_logprobs_cross_as_bytes_of_arrays():
    ids = np.arange(6, dtype=np.int32).reshape(2, 3)
    part = PromptLogprobs.from_arrays(ids, -ids.astype(np.float32), np.array([1, 2], np.int32))
    row = msgspec.msgpack.decode(
        msgspec.msgpack.encode(RowResult([], prompt_logprobs=[part])), type=RowResult
    )
    for sent, got in zip(part.arrays(), row.prompt_logprobs[0].arrays(), strict=True):
        assert (sent.dtype, sent.tolist()) == (got.dtype, got.tolist())
    assert len(msgspec.msgpack.encode(part)) < 8 * ids.size + 4 * 2 + 16


def test_prompt_logprobs_survive_preemption(harness):
    h = harness(num_blocks=8, max_num_seqs=2, max_num_batched_tokens=3, max_model_len=128)
    h.add("A", [1] * 30, max_tokens=90)
    h.add("B", list(range(70)), prompt_logprobs=0, max_tokens=10)
    h.run()
    assert h.scheduler.counters.num_preemptions > 0
    tensors = [output.new_prompt_logprobs_tensors for output in h.outputs["B"]]
    assert [tensor is not None for tensor in tensors].count(True) == 1
    assert tensors[0].token_ids.array[:, 0].tolist() == list(range(1, 70))


@pytest.mark.covers("ENG-12")
def test_outputs_name_exactly_the_requests_that_got_a_token(harness):
    h = harness(max_num_batched_tokens=16)
    h.add("A", [1] * 4)
    h.add("B", [2] * 30)
    log = []
    while h.scheduler.has_work:
        before = {name: len(outputs) for name, outputs in h.outputs.items()}
        share = h.step()
        heard = {name for name, outputs in h.outputs.items() if len(outputs) > before[name]}
        sampled = {row.slot for row in h.plans[-1].rows if row.num_sampled_rows}
        assert len(heard) == len(sampled)
        assert heard <= set(share)
        log.append(heard)
    assert log[0] == {"A"}


def test_a_result_for_another_step_is_refused(harness):
    h = harness()
    h.add("A", PROMPT)
    h.scheduler.schedule()
    with pytest.raises(InvariantError, match="step 7"):
        commit_step(h.scheduler, StepResult(7, []))
