"""The engine process as its parent sees it: handshake, requests, errors, and every way to end."""

import os
import signal
import time

import msgspec
import pytest

from vllm_rs.core.fake_executor import next_token
from vllm_rs.wire import FinishReason


def expected(prompt, count, seed):
    history = list(prompt)
    for _ in range(count):
        history.append(next_token(history, seed, 1000))
    return history[len(prompt) :]


@pytest.fixture
def engine(frontend, start_process):
    process = start_process(frontend.config().to_json(), "step_time_s=0.002")
    process.hands = frontend.shake_hands()
    return process


def cpu_time_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_start_up(frontend, engine):
    hello, (registration,), ready = engine.hands
    assert hello == {"status": "HELLO", "local": True, "headless": False}
    assert ready == {**hello, "status": "READY"}
    assert registration["max_model_len"] == 2048
    assert registration["vllm_version"] == "0.32.0"
    assert registration["extensions"]["vllm_rs"]["build_id"]
    required = (
        "max_model_len num_gpu_blocks block_size dp_stats_address dtype vllm_version world_size"
        " data_parallel_size tensor_parallel_size pipeline_parallel_size decode_context_parallel_size"
        " data_parallel_rank max_num_seqs max_num_batched_tokens instance_id supports_lora max_loras"
    )
    assert set(required.split()) <= set(registration)
    frontend.add("A", max_tokens=2)
    frontend.collect("A")
    stages = [event["stage"] for event in engine.events if event["event"] == "stage"]
    assert stages == [
        "handshake", "init_device", "load_model", "profile_run", "allocate_kv_cache", "warm_up", "ready",
    ]  # fmt: skip
    (memory,) = [event["table"] for event in engine.events if event["event"] == "memory"]
    assert (
        memory["kv_cache_blocks"] == registration["num_gpu_blocks"] == (1 << 20) // memory["kv_block_bytes"]
    )


def test_requests_of_several_clients_go_back_to_their_own(make_frontend, start_process):
    frontend = make_frontend(num_clients=3)
    start_process(frontend.config().to_json())
    frontend.shake_hands()
    for client in range(3):
        frontend.add(f"r{client}", [client, 5], client=client, seed=client, max_tokens=5)
    for client in range(3):
        tokens, _ = frontend.collect(f"r{client}", client=client)
        assert tokens == {f"r{client}": expected([client, 5], 5, client)}


def test_malformed_messages_are_answered_or_dropped_and_nobody_hangs(frontend, engine):
    pack = msgspec.msgpack.encode
    for frames in (
        [b"\x00"],
        [b"\x09", b"\x90"],
        [b"\x00", b""],
        [b"\x00", b"\xc1"],
        [b"\x01", pack({"a": 1})],
        [b"\x03", pack([0, 1])],
        [b"\x03", pack([9, 1, "is_sleeping", []])],
        [b"\x00", pack([5, [1], None, {}, None, 1.0])],
        [b"", b""],
        [b"\x00", b"\x91" * 50_000],
        [b"\x00", pack(["x", [1], None, {}, None, 1.0, None, None, None, None, None, 77])],
    ):
        frontend.send(*frames)
    frontend.send(b"\x00", pack(["types", "not a list", None, {}, None, 1.0]))
    frontend.send(
        b"\x00", pack(["pickle", [1], None, {"extra_args": {"a": msgspec.msgpack.Ext(1, b"x")}}, None, 1.0])
    )
    frontend.add("vocab", [1, 1_000_000])
    frontend.add("range", temperature=9.0)
    frontend.add("good", max_tokens=4, seed=1)
    tokens, last = frontend.collect("types", "pickle", "vocab", "range", "good")
    assert last.pop("good").finish_reason is FinishReason.LENGTH
    assert {output.finish_reason for output in last.values()} == {FinishReason.ERROR}
    assert tokens["good"] == expected([1, 2, 3], 4, 1)
    engine.process.stdin.close()
    engine.wait()
    assert any("temperature must be in [0, 2], got 9.0" in line for line in engine.log)


def test_a_second_request_with_the_same_id_does_not_end_the_first(frontend, engine):
    frontend.add("A", max_tokens=30, seed=1)
    frontend.add("A", max_tokens=3, seed=2)
    tokens, last = frontend.collect("A")
    assert tokens["A"] == expected([1, 2, 3], 30, 1)
    assert last["A"].finish_reason is FinishReason.LENGTH


def test_abort_is_silent_and_frees_at_once(frontend, engine):
    frontend.add("A", max_tokens=1500)
    while not frontend.message().outputs:
        pass
    frontend.abort("A", "never heard of")
    deadline = time.monotonic() + 10
    stats = None
    while stats is None or stats.num_running_reqs:
        message = frontend.message()
        assert not any(output.finish_reason is not None for output in message.outputs)
        stats = message.scheduler_stats
        assert time.monotonic() < deadline
    assert stats.kv_cache_usage == 0.0


@pytest.mark.covers("ENG-24")
def test_utility_calls_answer_or_fail_by_name(frontend, engine):
    assert frontend.call("get_supported_tasks").result == (None, ["generate"])
    assert frontend.call("is_sleeping").result == (None, False)
    assert frontend.call("list_loras").result == (None, [])
    assert frontend.call("reset_prefix_cache", False, False).result == (None, True)
    assert frontend.call("set_weight_version", "v2").result == (None, None)
    assert frontend.call("get_weight_version").result == (None, "v2")
    for method, args, why in (
        ("add_lora", [["a", 1, "/a"]], "adapters are not supported"),
        ("sleep", [1, "abort"], "sleep mode"),
        ("profile", [True], "profiler"),
        ("collective_rpc", ["os.system", None, []], "never called by name"),
        ("__init__", [], "no such method"),
        ("is_sleeping", [1, 2], "too many"),
        ("pause_scheduler", ["wait", True], "mode must be one of"),
    ):
        answer = frontend.call(method, *args, call_id=2**64 - 1)
        assert answer.call_id == 2**64 - 1
        assert answer.failure_message.startswith(f"Call to {method} method failed: ")
        assert why in answer.failure_message


def test_pausing_keeps_or_ends_requests(frontend, engine):
    frontend.call("pause_scheduler", "keep", False)
    frontend.add("A", max_tokens=3, seed=4)
    assert frontend.call("is_scheduler_paused").result == (None, True)
    assert not frontend.outputs[0].poll(200)
    frontend.call("resume_scheduler")
    assert frontend.collect("A")[0]["A"] == expected([1, 2, 3], 3, 4)
    frontend.add("B", max_tokens=1500)
    frontend.send(b"\x03", *frontend.encoder.encode([0, 3, "pause_scheduler", ["abort", True]]))
    assert frontend.collect("B")[1]["B"].finish_reason is FinishReason.ABORT


@pytest.mark.covers("ENG-03")
@pytest.mark.slow
def test_idle_costs_nothing_and_wakes_at_once(frontend, engine):
    frontend.add("A", max_tokens=2)
    frontend.collect("A")
    time.sleep(1.2)  # the audit comes after a second of quiet
    before_s = cpu_time_s(engine.process.pid)
    time.sleep(10)
    assert cpu_time_s(engine.process.pid) - before_s < 0.1
    took_s = []
    for index in range(5):
        start_s = time.monotonic()
        frontend.add(f"r{index}", max_tokens=1)
        (output,) = frontend.message().outputs
        events = {event.type: event.timestamp for event in output.events}
        took_s.append(events[2] - start_s)
    assert sorted(took_s)[2] < 0.005, "the median: this machine has other work"


@pytest.mark.covers("ENG-04")
def test_sigterm_when_idle_and_when_busy(frontend, engine, make_frontend, start_process):
    start_s = time.monotonic()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.wait() == 0
    assert time.monotonic() - start_s < 1.0
    busy_frontend = make_frontend()
    busy = start_process(busy_frontend.config().to_json(), "step_time_s=0.005")
    busy_frontend.shake_hands()
    busy_frontend.add("A", max_tokens=60, seed=3)
    while not busy_frontend.message().outputs:
        pass
    busy.process.send_signal(signal.SIGTERM)
    _, last = busy_frontend.collect("A")
    assert last["A"].finish_reason is FinishReason.LENGTH, "it was drained, not cut"
    assert busy.wait() == 0


def test_while_stopping_new_work_is_turned_away_and_a_second_signal_ends_the_rest(frontend, start_process):
    engine = start_process(frontend.config().to_json(), "step_time_s=0.02")
    frontend.shake_hands()
    frontend.add("A", max_tokens=2000)
    while not frontend.message().outputs:
        pass
    engine.process.send_signal(signal.SIGTERM)
    answer = None
    while answer is None or answer.failure_message is None:
        answer = frontend.call("is_sleeping")  # the signal is handled between two messages
    assert answer.failure_message == "Server shutting down"
    frontend.add("late")
    assert frontend.collect("late")[1]["late"].finish_reason is FinishReason.ABORT
    engine.process.send_signal(signal.SIGTERM)
    assert frontend.collect("A")[1]["A"].finish_reason is FinishReason.ABORT
    assert engine.wait() == 0


def test_it_ends_with_its_parent(frontend, engine):
    frontend.add("A", max_tokens=1500)
    start_s = time.monotonic()
    engine.process.stdin.close()
    assert engine.wait() == 4
    assert time.monotonic() - start_s < 1.0


def test_it_ends_with_its_parent_while_waiting_for_the_frontend(start_process, frontend):
    engine = start_process(frontend.config().to_json())
    frontend.receive(frontend.handshake)
    engine.process.stdin.close()
    assert engine.wait() == 4


def test_a_failed_step_tells_every_client_and_exits(make_frontend, start_process):
    frontend = make_frontend(num_clients=2)
    engine = start_process(frontend.config().to_json(), "fail_at_step=3")
    frontend.shake_hands()
    frontend.add("A", max_tokens=100)
    for client in range(2):
        frames = [b""]
        while frames != [b"ENGINE_CORE_DEAD"]:
            frames = frontend.receive(frontend.outputs[client])
    assert engine.wait() == 3
    assert engine.events[-1]["event"] == "error"
    assert "told to fail" in engine.events[-1]["message"]


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        (b"not json", "ConfigError", "not JSON"),
        (b'{"scheduler": {"max_num_seqs": 0}}', "ConfigError", "--max-num-seqs"),
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_code_2(start_process, line, kind, message):
    engine = start_process(line)
    assert engine.wait() == 2
    (event,) = engine.events
    assert (event["event"], event["kind"]) == ("error", kind)
    assert message in event["message"]
    assert "\n" not in event["message"]


def test_a_cache_that_does_not_fit_says_what_would(frontend, start_process):
    config = frontend.config()
    model = msgspec.structs.replace(config.model, max_model_len=2048)
    cache = msgspec.structs.replace(config.cache, kv_cache_memory_bytes=100_000)
    engine = start_process(msgspec.structs.replace(config, model=model, cache=cache).to_json())
    frontend.receive(frontend.handshake)
    init = {"addresses": {"inputs": [frontend.address("input0")], "outputs": [frontend.address("output0")]}}
    frontend.handshake.send_multipart([b"\x00\x00", msgspec.msgpack.encode(init)])
    assert engine.wait() == 2
    assert engine.events[-1]["kind"] == "MemoryError"
    assert engine.events[-1]["hint"] == "set --max-model-len to 384"


def test_headless_engines_say_so_and_coordinators_are_refused(frontend, start_process):
    config = frontend.config()
    headless = msgspec.structs.replace(
        config, link=msgspec.structs.replace(config.link, headless=True, engine_index=0)
    )
    engine = start_process(headless.to_json())
    _, hello = frontend.receive(frontend.handshake)
    assert msgspec.msgpack.decode(hello) == {"status": "HELLO", "local": False, "headless": True}
    addresses = {"inputs": ["ipc:///x"], "outputs": ["ipc:///y"], "coordinator_input": "ipc:///c"}
    frontend.handshake.send_multipart([b"\x00\x00", msgspec.msgpack.encode({"addresses": addresses})])
    assert engine.wait() == 3
    assert "coordinator is not supported" in engine.events[-1]["message"]


@pytest.mark.covers("ENG-02")
def test_all_messages_between_two_steps_are_effective_before_the_next(frontend, start_process):
    start_process(frontend.config().to_json(), "step_time_s=0.3")
    frontend.shake_hands()
    frontend.add("first", max_tokens=3)
    frontend.message()  # its second step runs now, for 300 ms
    for index in range(100):
        frontend.add(f"r{index}", max_tokens=1)
    frontend.abort(*[f"r{index}" for index in range(50)])
    frontend.send(b"\x03", *frontend.encoder.encode([0, 3, "is_sleeping", []]))
    seen = []
    while "first" not in [name for batch in seen[1:] for name in batch]:
        message = frontend.message()
        seen.append({output.request_id for output in message.outputs} or {"utility"})
    assert seen[0] == {"first"}, "the step that was running"
    assert seen[1] == {"utility"}
    assert {f"r{index}" for index in range(50, 100)} & seen[2]
    assert not {f"r{index}" for index in range(50)} & set().union(*seen)
