"""The same tokens whatever the budget, block size, pool, policy, sharing, preemption or steps in flight."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SHARED = [random.Random(5).randrange(1000) for _ in range(64)]


def workload(seed, count):
    rng = random.Random(seed)
    for index in range(count):
        prompt = SHARED[: rng.randrange(65)] + [rng.randrange(1000) for _ in range(rng.randrange(1, 100))]
        yield rng.randrange(20), f"r{index}", prompt, rng.randrange(1, 50), rng.randrange(3)


def play(h, seed, count):
    todo = sorted(workload(seed, count), key=lambda item: item[0])
    step = 0
    while todo or h.scheduler.has_work:
        while todo and todo[0][0] <= step:
            _, name, prompt, max_tokens, priority = todo.pop(0)
            h.add(name, prompt, max_tokens=max_tokens, priority=priority)
        h.step()
        step += 1
        assert step < 5000
    return h


@pytest.mark.covers("SCHED-08", "SCHED-33")
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    block_size=st.sampled_from([8, 16, 32]),
    blocks_over_minimum=st.integers(0, 60),
    max_num_seqs=st.integers(1, 8),
    budget_over_minimum=st.integers(0, 100),
    threshold=st.sampled_from([0, 1, 24]),
    policy=st.sampled_from(["fcfs", "priority"]),
    chunked=st.booleans(),
    caching=st.booleans(),
    depth=st.sampled_from([1, 2]),
)
def test_tokens_depend_on_nothing_but_the_request(
    harness, seed, block_size, blocks_over_minimum, max_num_seqs, budget_over_minimum, threshold, policy,
    chunked, caching, depth,
):  # fmt: skip
    h = harness(
        num_blocks=-(-256 // block_size) + blocks_over_minimum,
        block_size=block_size,
        max_model_len=256,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_seqs + budget_over_minimum,
        long_prefill_token_threshold=threshold,
        policy=policy,
        enable_chunked_prefill=chunked,
        enable_caching=caching,
        depth=depth,
    )
    play(h, seed, 10)
    for _, name, prompt, max_tokens, _ in workload(seed, 10):
        assert h.tokens(name) == h.expected(prompt, max_tokens)
        assert h.outputs[name][-1].finish_reason is not None
    assert h.kv.num_free_blocks == h.kv.pool.num_blocks


@pytest.mark.covers("SCHED-13", "SCHED-14")
@pytest.mark.parametrize("caching", [True, False])
def test_preemption_equals_an_ample_pool(harness, caching):
    small = harness(num_blocks=40, max_num_seqs=6, max_model_len=512, enable_caching=caching)
    ample = harness(num_blocks=400, max_num_seqs=6, max_model_len=512, enable_caching=caching)
    for index in range(6):
        for h in (small, ample):
            h.add(f"r{index}", range(index, index + 20), max_tokens=150)
    small.run()
    ample.run()
    counters = small.scheduler.counters
    assert counters.num_preemptions > 0
    assert ample.scheduler.counters.num_preemptions == 0
    for index in range(6):
        assert small.tokens(f"r{index}") == ample.tokens(f"r{index}")

    def tokens_run(h):
        return sum(plan.num_tokens for plan in h.plans)

    assert counters.num_recomputed_tokens == tokens_run(small) - tokens_run(ample)
    assert small.kv.num_free_blocks == 40


@pytest.mark.covers("SCHED-03")
def test_a_long_prompt_runs_in_chunks_of_the_budget(harness):
    prompt = [index % 97 for index in range(1000)]
    chunked = harness(num_blocks=128, max_num_batched_tokens=64, max_model_len=1024)
    chunked.add("A", prompt)
    log = chunked.run()
    prefill = [share["A"] for share in log if share["A"] > 1]
    assert prefill == [64] * 15 + [40]
    whole = harness(num_blocks=128, max_num_batched_tokens=2048, max_model_len=1024)
    whole.add("A", prompt)
    whole.run()
    assert chunked.tokens("A") == whole.tokens("A") == whole.expected(prompt, 8)


def test_drafts_are_verified_and_rejected_ones_cost_nothing(harness):
    h = harness()
    request = h.add("A", [1, 2, 3], max_tokens=40)
    truth = h.expected([1, 2, 3], 40)
    rng = random.Random(2)
    steps = 0
    while h.scheduler.has_work:
        done = request.num_output_tokens
        if done:
            request.draft_token_ids = [t if rng.random() < 0.7 else 0 for t in truth[done : done + 3]]
        h.step()
        steps += 1
    assert h.tokens("A") == truth
    assert steps < 30, "accepted drafts save steps"


def test_abort_at_any_moment_frees_everything(harness):
    for moment in range(25):
        for depth in (1, 2):
            h = harness(
                num_blocks=12, max_num_seqs=4, max_num_batched_tokens=32, max_model_len=128, depth=depth
            )
            for index in range(6):
                h.add(f"r{index}", range(index, index + 30), max_tokens=20)
            for _ in range(moment):
                h.step()
            alive = set(h.scheduler.requests)
            assert {request.request_id for request in h.scheduler.abort([*alive, "unknown"])} == alive
            h.run()
            assert h.kv.num_free_blocks == 12
            assert h.scheduler.counters.num_started == sum(h.scheduler.counters.num_finished.values())
