"""Plans to arrays: a hand-made table, and slot mapping as a bijection."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_rs.errors import InvariantError
from vllm_rs.exec.batch import InputBatch
from vllm_rs.exec.step import StepArrays
from vllm_rs.sched.plan import NewRequest, PreviousToken, ScheduledRow, StepPlan
from vllm_rs.wire import SamplingParams


def new_request(slot, blocks, computed=0, prompt=(1, 2, 3)):
    return NewRequest(f"r{slot}", slot, list(prompt), [], SamplingParams(), 0, [list(blocks)], computed)


@pytest.mark.covers("EXEC-25")
def test_three_request_step_equals_the_hand_made_table():
    batch = InputBatch(num_slots=4, max_blocks=8, max_tokens=32)
    batch.apply(StepPlan(1, new_requests=[new_request(2, [7, 3, 9], computed=4)]))
    plan = StepPlan(
        2,
        new_requests=[new_request(0, [5]), new_request(3, [1, 2], computed=4)],
        rows=[
            ScheduledRow(2, 9, [PreviousToken(1)], new_block_ids=[[4]], num_sampled_rows=1),
            ScheduledRow(0, 0, [11, 12, 13], num_sampled_rows=0, num_prompt_logprob_rows=2),
            ScheduledRow(3, 4, [21, 22], num_draft_tokens=1, num_sampled_rows=2),
        ],
    )
    batch.apply(plan)
    step = batch.flatten(plan.rows, previous_tokens=[77, 99])
    assert step.token_ids.tolist() == [99, 11, 12, 13, 21, 22]
    assert step.positions.tolist() == [9, 0, 1, 2, 4, 5]
    assert step.query_start.tolist() == [0, 1, 4, 6]
    assert step.sequence_lengths.tolist() == [10, 3, 6]
    table = step.block_tables[0]
    assert [table[0].tolist(), table[1, :1].tolist(), table[2, :2].tolist()] == [[7, 3, 9, 4], [5], [1, 2]]
    assert step.logit_rows.tolist() == [0, 4, 5]
    assert step.logit_sequences.tolist() == [0, 2, 2]
    assert step.logit_positions.tolist() == [9, 4, 5]
    assert step.slot_mapping(4).tolist() == [9 * 4 + 1, 20, 21, 22, 2 * 4 + 0, 2 * 4 + 1]
    assert all(a.dtype == np.int32 and a.flags.c_contiguous for a in (step.token_ids, step.positions, table))


def test_freed_slot_takes_a_new_request_and_an_occupied_one_refuses():
    batch = InputBatch(num_slots=1, max_blocks=4, max_tokens=8)
    batch.apply(StepPlan(1, new_requests=[new_request(0, [1, 2])]))
    with pytest.raises(InvariantError, match="slot 0 given to r0 is still occupied"):
        batch.apply(StepPlan(2, new_requests=[new_request(0, [3])]))
    plan = StepPlan(3, freed_slots=[0], new_requests=[new_request(0, [3])], rows=[ScheduledRow(0, 0, [5])])
    batch.apply(plan)
    assert batch.flatten(plan.rows, []).block_tables[0].tolist() == [[3]]


@st.composite
def schedules(draw):
    """Per request: (prompt length, chunk sizes), and a block size."""
    block_size = draw(st.sampled_from([1, 4, 8]))
    chunks = st.lists(st.integers(1, 9), min_size=1, max_size=5)
    return block_size, draw(st.lists(chunks, min_size=1, max_size=5))


@pytest.mark.covers("EXEC-26")
@given(schedules(), st.randoms(use_true_random=False))
def test_slot_mapping_is_a_bijection_over_all_steps(schedule, random):
    block_size, requests = schedule
    free = list(range(256))
    random.shuffle(free)
    batch = InputBatch(num_slots=len(requests), max_blocks=64, max_tokens=64)
    computed, blocks = [0] * len(requests), [0] * len(requests)
    written: dict[int, tuple[int, int]] = {}
    for index in range(max(map(len, requests))):
        plan = StepPlan(index)
        active = [slot for slot, chunks in enumerate(requests) if index < len(chunks)]
        random.shuffle(active)
        for slot in active:
            count = requests[slot][index]
            needed = -(-(computed[slot] + count) // block_size) - blocks[slot]
            ids = [free.pop() for _ in range(needed)]
            blocks[slot] += needed
            if index == 0:
                plan.new_requests.append(new_request(slot, ids))
            new_blocks = [ids] if index and ids else []
            plan.rows.append(ScheduledRow(slot, computed[slot], [0] * count, new_block_ids=new_blocks))
        batch.apply(plan)
        step = batch.flatten(plan.rows, [])
        sequence = np.repeat(active, np.diff(step.query_start)).tolist()
        for slot, position, place in zip(
            sequence, step.positions.tolist(), step.slot_mapping(block_size).tolist(), strict=True
        ):
            assert place not in written, "two tokens share a place in the cache"
            written[place] = (slot, position)
        for slot in active:
            computed[slot] += requests[slot][index]
    expected = {(slot, position) for slot, count in enumerate(computed) for position in range(count)}
    assert set(written.values()) == expected


def test_step_arrays_of_an_empty_sampling_step_have_no_logit_rows():
    batch = InputBatch(num_slots=1, max_blocks=4, max_tokens=8)
    plan = StepPlan(1, new_requests=[new_request(0, [1])], rows=[ScheduledRow(0, 0, [5, 6])])
    batch.apply(plan)
    step = batch.flatten(plan.rows, [])
    assert isinstance(step, StepArrays)
    assert step.logit_rows.shape == step.logit_sequences.shape == (0,)
