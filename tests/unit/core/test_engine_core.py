"""EngineCore driven by hand, as `LLM` does it in its own process."""

import pytest

from vllm_rs.config import (
    CacheConfig,
    ConfigError,
    EngineConfig,
    ModelConfig,
    ObservabilityConfig,
    SchedulerConfig,
)
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.core.fake_executor import FakeExecutor, FakeExecutorError
from vllm_rs.core.inbox import Add, MessageReader, Refused
from vllm_rs.errors import EngineDeadError, InvariantError, RequestError
from vllm_rs.sched.latency import InterTokenTarget, Unlimited
from vllm_rs.wire import EngineCoreRequest, FinishReason, SamplingParams
from vllm_rs.wire_codec import Encoder


def request(name, *, prompt=(1, 2, 3), client=0, **params):
    return EngineCoreRequest(
        name,
        list(prompt),
        None,
        SamplingParams(**params),
        None,
        0.0,
        client_index=client,
        trace_headers={"a": name},
    )


def make_core(*, model=None, executor=None, **scheduler):
    config = EngineConfig(
        model=model or ModelConfig(),
        cache=CacheConfig(kv_cache_memory_bytes=1 << 20),
        scheduler=SchedulerConfig(**scheduler),
        observability=ObservabilityConfig(),
    )
    return EngineCore(executor or FakeExecutor(), config, check_integrity=True)


def run(core):
    tokens, last = {}, {}
    while core.has_work:
        for message in core.step().values():
            for output in message.outputs:
                tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
                last[output.request_id] = output
    return tokens, last


@pytest.mark.covers("ENG-22")
def test_steps_until_the_longest_is_done():
    core = make_core()
    for name, count in (("A", 3), ("B", 9), ("C", 5)):
        core.add_request(request(name, max_tokens=count))
    steps = 0
    while core.has_work:
        core.step()
        steps += 1
    assert steps == 9


def test_one_message_per_client_and_statistics_in_only_one():
    core = make_core()
    for client in range(3):
        core.add_request(request(f"r{client}", client=client, max_tokens=2))
    messages = core.step()
    assert sorted(messages) == [0, 1, 2]
    assert [message.scheduler_stats is not None for message in messages.values()].count(True) == 1
    stats = next(message.scheduler_stats for message in messages.values() if message.scheduler_stats)
    assert (stats.num_running_reqs, stats.num_waiting_reqs) == (3, 0)
    assert 0 < stats.kv_cache_usage < 0.05
    assert messages[1].outputs[0].trace_headers == {"a": "r1"}


def test_seeds_are_drawn_or_derived_or_kept():
    drawn = [make_core().prepare(request("A")).seed for _ in range(2)]
    assert drawn[0] != drawn[1]
    derived = [make_core(model=ModelConfig(seed=5)).prepare(request(name)).seed for name in ("A", "A", "B")]
    assert derived[0] == derived[1] != derived[2]
    assert make_core().prepare(request("A", seed=-1)).seed == 2**64 - 1


def test_a_full_queue_and_a_used_id_are_refused():
    core = make_core(max_num_queued_reqs=2)
    core.add_request(request("A"))
    with pytest.raises(RequestError, match="request_id must be unique"):
        core.add_request(request("A"))
    core.add_request(request("B"))
    with pytest.raises(RequestError, match="max_num_queued_reqs must be at most 2"):
        core.add_request(request("C"))


def test_stopping_ends_everything_with_an_answer():
    core = make_core()
    for client in range(2):
        core.add_request(request(f"r{client}", client=client))
    core.step()
    messages = core.abort_all()
    for client in range(2):
        assert [output.finish_reason for output in messages[client].outputs] == [FinishReason.ABORT]
        assert messages[client].finished_requests == {f"r{client}"}
    assert not core.has_work
    core.check_integrity()


def test_a_client_that_is_gone_loses_only_its_own_requests():
    core = make_core()
    for client in range(2):
        core.add_request(request(f"r{client}", client=client, max_tokens=4))
    core.step()
    core.abort_client(1)
    tokens, _ = run(core)
    assert set(tokens) == {"r0"}


@pytest.mark.covers("SCHED-30")
def test_a_recorded_plan_gives_the_same_result_in_a_fresh_executor():
    executor = FakeExecutor()
    core = make_core(executor=executor, max_num_batched_tokens=64)
    for index in range(6):
        core.add_request(request(f"r{index}", prompt=range(index, index + 90), max_tokens=12, seed=index))
    results = []
    submit = executor.submit
    executor.submit = lambda plan: results.append(submit(plan)) or results[-1]
    run(core)
    fresh = FakeExecutor()
    fresh.allocate_kv_cache(core.budget.num_blocks, 16)
    assert [fresh.submit(plan).result() for plan in executor.steps] == [handle.result() for handle in results]


@pytest.mark.covers("SCHED-09")
def test_defaults_of_a_bare_engine():
    limits = EngineCore(FakeExecutor(max_model_len=777), EngineConfig()).scheduler.limits
    assert (limits.max_num_batched_tokens, limits.max_num_seqs) == (512, 64), "CPU defaults, stated by --help"
    assert (limits.max_model_len, limits.policy) == (777, "fcfs")


def test_reader_attributes_what_it_can():
    core = make_core()
    reader = MessageReader(core.prepare, num_clients=2)
    encoder = Encoder()
    good = reader.read([b"\x00", *encoder.encode(request("A", client=1))])
    assert isinstance(good, Add)
    bad = reader.read([b"\x00", *encoder.encode(request("B", client=1, top_p=7.0))])
    assert isinstance(bad, Refused)
    assert (bad.client_index, bad.request_id) == (1, "B")
    assert reader.read([b"\x00", *encoder.encode(request("C", client=2))]) is None
    assert reader.read([b"\x00", *encoder.encode(request("D" * 2000))]) is None
    assert reader.num_dropped == 2


def test_a_bug_in_checking_a_request_costs_that_request_only(caplog):
    def prepare(wire):
        if wire.request_id == "A":
            raise ZeroDivisionError("a bug")
        return core.prepare(wire)

    core = make_core()
    reader, encoder = MessageReader(prepare, num_clients=2), Encoder()
    refused = reader.read([b"\x00", *encoder.encode(request("A", client=1))])
    assert isinstance(refused, Refused)
    assert (refused.client_index, refused.request_id) == (1, "A")
    assert "ZeroDivisionError: a bug" in refused.reason
    assert "Traceback" in caplog.text
    assert isinstance(reader.read([b"\x00", *encoder.encode(request("B"))]), Add)


def test_a_failed_step_ends_the_engine_and_later_calls_say_why():
    core = make_core(executor=FakeExecutor(fail_at_step=1))
    core.add_request(request("A", max_tokens=4))
    core.step()
    with pytest.raises(FakeExecutorError):
        core.step()
    for call in (core.step, lambda: core.add_request(request("B"))):
        with pytest.raises(EngineDeadError, match="FakeExecutorError: told to fail") as caught:
            call()
        assert isinstance(caught.value.__cause__, FakeExecutorError)
        assert not isinstance(caught.value, InvariantError)
    core.abort_requests(["A"])
    core.shutdown()


def test_the_engine_itself_holds_requests_to_max_logprobs():
    core = make_core(model=ModelConfig(max_logprobs=30))
    core.prepare(request("A", logprobs=30, prompt_logprobs=30))
    for field in ("logprobs", "prompt_logprobs"):
        for count in (31, -1):
            with pytest.raises(RequestError, match=f"^{field} must be at most 30, got {count}"):
                core.prepare(request("A", **{field: count}))
    with pytest.raises(RequestError, match="at most 20, got 21"):
        make_core().prepare(request("A", logprobs=21))


def test_the_latency_target_is_a_flag_and_off_by_default():
    assert isinstance(make_core().scheduler.latency, Unlimited)
    assert isinstance(make_core(decode_latency_target_ms=20.0).scheduler.latency, InterTokenTarget)
    with pytest.raises(ConfigError, match="--decode-latency-target-ms"):
        EngineConfig.from_keywords(decode_latency_target_ms=20.0, enable_chunked_prefill=False)


@pytest.mark.parametrize("disable_log_stats", [False, True])
def test_every_step_tells_what_it_ran_whether_statistics_are_logged_or_not(disable_log_stats):
    config = EngineConfig.from_keywords(disable_log_stats=disable_log_stats, kv_cache_memory_bytes=1 << 20)
    core = EngineCore(FakeExecutor(), config, check_integrity=True)
    core.add_request(request("A", max_tokens=3))
    core.step()
    core.add_request(request("B", prompt=range(40), max_tokens=1))
    (message,) = core.step().values()
    stats = message.scheduler_stats
    assert (stats.num_running_reqs, stats.prefix_cache_stats.requests) == (1, 1)
    details = stats.iteration_details
    assert (details.iteration_index, details.num_ctx_requests, details.num_ctx_tokens) == (1, 1, 40)
    assert (details.num_generation_requests, details.num_generation_tokens) == (1, 1)
    assert details.elapsed_ms > 0
    (idle,) = core.stats_only().values()
    assert idle.scheduler_stats.iteration_details is None
