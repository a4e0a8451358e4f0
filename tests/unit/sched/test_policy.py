"""Who runs first, who gives way."""

import pytest

from vllm_rs.sched.latency import InterTokenTarget
from vllm_rs.sched.queue import make_queue
from vllm_rs.wire import EventType


def order_of_first_tokens(h, log):
    seen = []
    for share in log:
        seen += [name for name in share if name not in seen]
    return seen


@pytest.mark.covers("SCHED-02")
def test_a_freed_place_is_taken_in_the_next_step(harness):
    h = harness(max_num_seqs=2)
    for name, count in (("A", 3), ("B", 6), ("C", 2)):
        h.add(name, [1, 2, len(name)], max_tokens=count)
    log = h.run()
    assert [set(share) for share in log] == [{"A", "B"}] * 3 + [{"B", "C"}] * 2 + [{"B"}]


@pytest.mark.covers("SCHED-21")
def test_first_come_first_served(harness):
    h = harness(max_num_seqs=2, policy="fcfs")
    for index in range(6):
        h.add(f"r{index}", [index] * 5, max_tokens=2, priority=-index)
    assert order_of_first_tokens(h, h.run()) == [f"r{index}" for index in range(6)]


@pytest.mark.covers("SCHED-22")
def test_smaller_priority_first_ties_by_arrival(harness):
    h = harness(max_num_seqs=1, policy="priority")
    for name, priority in (("low", 5), ("first", 1), ("second", 1), ("top", -3)):
        h.add(name, [1, 2], max_tokens=2, priority=priority)
    assert order_of_first_tokens(h, h.run()) == ["top", "first", "second", "low"]


@pytest.mark.covers("SCHED-16")
@pytest.mark.parametrize(("policy", "victim"), [("fcfs", "late"), ("priority", "unimportant")])
def test_the_victim_is_the_latest_or_the_least_important(harness, policy, victim):
    h = harness(num_blocks=7, max_num_seqs=3, max_num_batched_tokens=256, max_model_len=112, policy=policy)
    requests = [
        h.add(name, [index] * 30, max_tokens=20, priority=priority)
        for index, (name, priority) in enumerate([("early", 2), ("unimportant", 9), ("late", 1)])
    ]
    while not h.scheduler.counters.num_preemptions:
        h.step()
    assert [request.request_id for request in requests if request.num_preemptions] == [victim]
    h.run()


@pytest.mark.covers("SCHED-16")
def test_blocks_of_a_finished_request_are_used_before_anyone_is_preempted(harness):
    h = harness(num_blocks=4, max_num_seqs=2, max_num_batched_tokens=64, max_model_len=64)
    h.add("A", [1] * 32, max_tokens=1)
    h.add("B", [2] * 31, max_tokens=20)
    h.run()
    assert h.scheduler.counters.num_preemptions == 0


def test_a_waiting_request_preempts_only_less_important_ones_and_only_under_priority(harness):
    def fill(policy, waiting_priority):
        h = harness(num_blocks=4, max_num_seqs=4, max_num_batched_tokens=64, max_model_len=64, policy=policy)
        for name, priority in (("A", 1), ("B", 5)):
            h.add(name, [len(name)] * 30, max_tokens=2, priority=priority)
        h.step()
        h.add("W", [7] * 30, max_tokens=2, priority=waiting_priority)
        return h, h.step()

    for policy, priority in (("fcfs", 0), ("priority", 5), ("priority", 9)):
        h, share = fill(policy, priority)
        assert set(share) == {"A", "B"}
        assert h.scheduler.counters.num_preemptions == 0
    h, share = fill("priority", 3)
    assert set(share) == {"A", "W"}
    assert h.scheduler.requests["B"].num_preemptions == 1
    h.run()
    h, share = fill("priority", 0)
    assert set(share) == {"A", "W"}, "only as many as it needs"


@pytest.mark.covers("SCHED-12")
def test_admission_takes_exactly_the_branches_of_ten_blocks(harness):
    h = harness(num_blocks=10, max_num_seqs=3, max_num_batched_tokens=100, max_model_len=160)
    h.add("A", [1] * 60, max_tokens=30)
    h.add("B", [2] * 70, max_tokens=30)
    h.add("C", [3] * 40, max_tokens=2)
    assert h.step() == {"A": 60, "B": 40}, "the token budget cuts B"
    assert h.kv.num_free_blocks == 10 - 4 - 3
    assert h.step() == {"A": 1, "B": 30}, "C needs three blocks, one is free: admission stops"
    assert list(r.request_id for r in h.scheduler.waiting) == ["C"]
    assert h.kv.num_free_blocks == 1
    h.add("D", [4] * 10, max_tokens=2)
    assert set(h.step()) == {"A", "B"}, "FCFS: D does not overtake C"
    log = h.run()
    assert h.scheduler.counters.num_preemptions > 0, "A and B outgrow ten blocks"
    assert order_of_first_tokens(h, log)[-2:] == ["C", "D"]


@pytest.mark.covers("SCHED-17")
def test_shared_blocks_stay_under_pressure(harness):
    shared = list(range(512))
    h = harness(num_blocks=40, max_num_seqs=10, max_num_batched_tokens=512, max_model_len=640)
    for index in range(10):
        h.add(f"r{index}", [*shared, index], max_tokens=40)
    table = None
    while h.scheduler.has_work:
        h.step()
        running = h.scheduler.running
        if len(running) > 1 and all(request.num_output_tokens for request in running):
            current = h.kv.block_ids(running[0].request_id)[0][:32]
            table = table or current
            assert current == table
            assert all(h.kv.pool.blocks[block].ref_count >= len(running) for block in table)
    assert h.scheduler.counters.num_preemptions > 0
    assert h.scheduler.counters.num_recomputed_tokens < 10 * 64, "the shared part was never computed again"


@pytest.mark.covers("SCHED-05", "SCHED-24")
def test_decodes_run_in_every_step_beside_a_long_prefill(harness):
    h = harness(num_blocks=600, max_num_batched_tokens=64, max_model_len=9000)
    for index in range(4):
        h.add(f"d{index}", [index], max_tokens=200)
    h.step()
    long = h.add("long", [index % 91 for index in range(8000)], max_tokens=2)
    done = 0
    while long.num_output_tokens == 0 and h.scheduler.has_work:
        share = h.step()
        assert share["long"] > 0, "starts within one step and keeps going"
        assert all(share[name] == 1 for name in share if name != "long")
        if done < 195:
            assert sum(name.startswith("d") for name in share) == 4
        assert long.num_computed_tokens > done
        done = long.num_computed_tokens


@pytest.mark.covers("SCHED-31", "KV-15", "KV-19")
def test_a_second_identical_prompt_runs_only_its_tail(harness):
    h = harness(max_num_batched_tokens=256)
    prompt = list(range(100))
    h.add("A", prompt, max_tokens=20)
    h.step()
    h.add("B", prompt, max_tokens=20)
    assert h.step() == {"A": 1, "B": 100 - 96}
    assert h.kv.block_ids("A")[0][:6] == h.kv.block_ids("B")[0][:6]
    h.run()
    stats = h.outputs["B"][0].prefill_stats
    assert (stats.num_prompt_tokens, stats.num_cached_tokens, stats.num_computed_tokens) == (100, 96, 4)
    prefix = h.scheduler.counters.take_prefix_cache()
    assert (prefix.requests, prefix.queries, prefix.hits) == (2, 200, 96)
    assert h.tokens("A") == h.tokens("B")


def test_generated_tokens_are_cached_for_the_next_turn(harness):
    h = harness(max_num_batched_tokens=256)
    prompt = list(range(20))
    h.add("A", prompt, max_tokens=30)
    h.run()
    turn = h.add("B", [*prompt, *h.tokens("A"), 1, 2, 3], max_tokens=2)
    h.run()
    assert turn.num_cached_tokens == 48, "49 tokens of the first turn were computed"


def test_salted_requests_do_not_share(harness):
    h = harness(max_num_batched_tokens=256)
    requests = [h.add(f"r{index}", range(64), salt=salt) for index, salt in enumerate(["a", "b", None, "a"])]
    h.run()
    assert [request.num_cached_tokens for request in requests] == [0, 0, 0, 48]


def test_the_chunk_threshold_bounds_every_chunk(harness):
    h = harness(max_num_batched_tokens=128, long_prefill_token_threshold=40, num_blocks=64)
    for index in range(3):
        h.add(f"r{index}", [index] * 150, max_tokens=2)
    assert max(tokens for share in h.run() for tokens in share.values()) == 40


@pytest.mark.covers("SCHED-07")
def test_without_chunking_a_prompt_runs_whole_or_waits(harness):
    h = harness(max_num_batched_tokens=100, enable_chunked_prefill=False, num_blocks=64)
    h.add("A", [1] * 60, max_tokens=5)
    h.add("B", [2] * 60, max_tokens=2)
    h.add("long", [3] * 250, max_tokens=2)
    log = h.run()
    assert [share["B"] for share in log if "B" in share] == [60, 1]
    assert log[0] == {"A": 60}
    longs = [share["long"] for share in log if "long" in share]
    assert sum(longs[:-1]) == 250, "larger than the whole budget: it is cut after all, as it could never run"


def test_short_prompts_are_not_blocked_by_a_long_one(harness):
    def steps_to_first_token(h):
        log = []
        while any(not h.outputs[f"s{index}"] for index in range(20)):
            log.append(h.step())
        return len(log)

    lone = harness(num_blocks=600, max_num_seqs=32, max_num_batched_tokens=256, max_model_len=5000)
    loaded = harness(num_blocks=600, max_num_seqs=32, max_num_batched_tokens=256, max_model_len=5000)
    loaded.add("long", [index % 89 for index in range(4096)])
    loaded.step()
    for h in (lone, loaded):
        for index in range(20):
            h.add(f"s{index}", [index] * 40)
    assert steps_to_first_token(loaded) < 3 * steps_to_first_token(lone)
    assert loaded.scheduler.requests["long"].num_computed_tokens > 256


@pytest.mark.covers("ENG-14")
def test_a_preempted_request_tells_its_life_in_order(harness):
    h = harness(num_blocks=8, max_num_seqs=2, max_num_batched_tokens=64, max_model_len=128)
    for name in ("A", "B"):
        h.add(name, [ord(name)] * 40, max_tokens=60)
    h.run()
    events = [event for output in h.outputs["B"] for event in output.events or ()]
    kinds = [event.type for event in events]
    assert kinds[:4] == [EventType.QUEUED, EventType.SCHEDULED, EventType.PREEMPTED, EventType.SCHEDULED]
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)


def test_the_decode_latency_budget_cuts_prefill_only_beside_streams(harness):
    target = InterTokenTarget(0.010, smoothing=1.0)
    h = harness(num_blocks=200, max_num_batched_tokens=256, max_model_len=2000, latency=target)
    h.add("stream", [1], max_tokens=100)
    h.step()
    target.observe(1, 0, 0.002)
    target.observe(1, 100, 0.012)  # 100 us per prefill token
    h.add("long", [index % 83 for index in range(900)])
    assert h.step() == {"stream": 1, "long": 80}
    h.scheduler.abort(["stream"])
    assert h.step() == {"long": 256}


class FixedLimit:
    def __init__(self):
        self.limit = None

    def prefill_limit_tokens(self, num_decode_rows):
        return self.limit

    def observe(self, num_decode_tokens, num_prefill_tokens, elapsed_s):
        pass


def test_a_preempted_prompt_gives_its_prefill_budget_to_those_behind_it(harness):
    latency = FixedLimit()
    h = harness(
        num_blocks=20, max_num_batched_tokens=512, max_model_len=320, policy="priority", latency=latency,
        long_prefill_token_threshold=48,
    )  # fmt: skip
    h.add("stream", [1], max_tokens=100)
    h.add("unimportant", [9] * 208, priority=9)
    h.step()
    for token, name in enumerate("ABC"):
        h.add(name, [token] * 112, priority=1)
    h.step()
    latency.limit = 72  # unimportant takes 48 and the blocks, A 16; B then takes its blocks and 8 tokens
    assert h.step() == {"stream": 1, "A": 16, "B": 8, "C": 48}


def test_a_step_tells_the_latency_budget_its_decode_and_prefill_tokens(harness):
    seen = []
    latency = FixedLimit()
    latency.observe = lambda *step: seen.append(step)
    h = harness(latency=latency)
    h.add("stream", [1, 2, 3])
    h.step()
    h.add("long", [7] * 40)
    h.step()
    for plan in h.plans:
        h.scheduler.observe(plan, 0.25)
    assert seen == [(0, 3, 0.25), (1, 40, 0.25)]


def test_queues_keep_their_order_when_requests_leave_from_the_middle(harness):
    h = harness()
    for policy in ("fcfs", "priority"):
        queue = make_queue(policy)
        requests = [h.add(f"{policy}{index}", [1], priority=index % 7) for index in range(2000)]
        for request in requests:
            queue.add(request)
        for request in requests[::2]:
            queue.remove(request)
        left = [queue.pop() for _ in range(len(queue))]
        key = (lambda r: r.arrival_order) if policy == "fcfs" else (lambda r: r.importance)
        assert left == sorted(requests[1::2], key=key)
        with pytest.raises(IndexError):
            queue.pop()
