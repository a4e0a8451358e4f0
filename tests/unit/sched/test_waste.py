"""How much of the allocated cache holds nothing."""

import random

import pytest

from vllm_rs.core.fake_executor import FakeExecutor
from vllm_rs.sched.slots import cache_slots


def waste_per_step(harness, block_size):
    """(allocated, unused) token slots after every step of 32 streams with prompts of 100 to 1,000 tokens."""
    choose = random.Random(3)
    h = harness(
        num_blocks=40_000 // block_size,
        block_size=block_size,
        max_num_seqs=32,
        max_num_batched_tokens=512,
        max_model_len=2048,
        executor=FakeExecutor(),
    )
    for index in range(32):
        h.add(f"r{index}", [choose.randrange(900) for _ in range(choose.randrange(100, 1000))], max_tokens=64)
    seen = []
    while h.scheduler.has_work:
        h.step()
        if len(h.scheduler.running) == 32:
            seen.append(cache_slots(h.scheduler))
    assert len(seen) > 20
    return seen


@pytest.mark.covers("PERF-01", "KV-02")
def test_fewer_than_4_percent_of_allocated_slots_are_unused_at_32_streams(harness):
    seen = waste_per_step(harness, 16)
    assert max(slots.num_unused / slots.num_allocated for slots in seen) < 0.04
    assert min(slots.num_unused for slots in seen) >= 0


def test_larger_blocks_waste_more(harness):
    mean = {}
    for block_size in (8, 16, 32):
        seen = waste_per_step(harness, block_size)
        mean[block_size] = sum(slots.num_unused / slots.num_allocated for slots in seen) / len(seen)
    assert mean[8] < mean[16] < mean[32]


def test_shared_blocks_count_once(harness):
    h = harness(num_blocks=64, max_num_batched_tokens=256)
    for index in range(4):
        h.add(f"r{index}", [*range(64), index], max_tokens=8)
    while len(h.scheduler.running) < 4:
        h.step()
    slots = cache_slots(h.scheduler)
    assert slots.num_allocated == (4 + 4) * 16, "four shared blocks, one of its own for each"
    assert slots.num_unused == 4 * 15
