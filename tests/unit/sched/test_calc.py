"""The worked examples, exact."""

import pytest


@pytest.mark.covers("CALC-01", "SCHED-01")
def test_calc_01(harness):
    h = harness(
        num_blocks=512, max_num_seqs=4, max_num_batched_tokens=4096, max_model_len=8192, enable_caching=False
    )
    free = []
    arrivals = [("A", 2048, 1), ("B", 512, 2), ("C", 3072, 3)]
    shares = []
    for step in range(4):
        if step < 3:
            name, length, token = arrivals[step]
            h.add(name, [token] * length, max_tokens=100)
        shares.append(h.step())
        free.append(h.kv.num_free_blocks)
    assert shares == [
        {"A": 2048},
        {"A": 1, "B": 512},
        {"A": 1, "B": 1, "C": 3072},
        {"A": 1, "B": 1, "C": 1},
    ]
    assert free == [384, 351, 158, 157]


@pytest.mark.parametrize("budget", [8192, 512, 96])
def test_calc_03_ten_requests_share_one_system_prompt(harness, budget):
    """512 shared tokens: 32 blocks instead of 320, each with ten owners, even when all arrive at once."""
    system = list(range(512))
    h = harness(num_blocks=400, max_num_seqs=16, max_num_batched_tokens=budget, max_model_len=1024)
    for index in range(10):
        h.add(f"r{index}", [*system, 900 + index], max_tokens=60)
    while not all(request.num_output_tokens for request in h.scheduler.requests.values()):
        h.step()
    tables = [h.kv.block_ids(f"r{index}")[0][:32] for index in range(10)]
    assert len({block for table in tables for block in table}) == 32
    assert {h.kv.pool.blocks[block].ref_count for block in tables[0]} == {10}
    prefill = sum(len(row.token_ids) for plan in h.plans for row in plan.rows if len(row.token_ids) > 1)
    assert prefill <= 512 + 10 * 16, "the shared part was computed once"
    h.run()
    for index in range(10):
        assert h.tokens(f"r{index}") == h.expected([*system, 900 + index], 60)
    unshared = harness(
        num_blocks=400, max_num_seqs=16, max_num_batched_tokens=8192, enable_caching=False, max_model_len=1024
    )
    for index in range(10):
        unshared.add(f"r{index}", [*system[:511], 900 + index])
    unshared.step()
    assert 400 - unshared.kv.num_free_blocks == 320
