"""One server at debug level: what its start and its requests leave in the log, its threads, many streams."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .serving import Server, sse_events, wait_until
from .step_trace import read_trace

STATIONS = ["received", "tokenised", "submitted", "scheduled", "executing", "forward", "first_output", "sent"]
NUM_STREAMS = 200


@pytest.fixture(scope="module")
def traced(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """`vllm-rs serve smollm2` at debug level, with room for many streams."""
    log = tmp_path_factory.mktemp("traced") / "server.log"
    flags = ["--log-level", "debug", "--max-num-seqs", "256", "--max-num-batched-tokens", "512"]
    with Server(vllm_rs_binary, *flags, log=log) as running:
        yield running


def stream(server: Server, prompt: str, max_tokens: int) -> Iterator[dict[str, Any]]:
    body = {"model": "smollm2", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
    body |= {"ignore_eos": True, "stream": True}
    with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=180) as response:
        for event in sse_events(response):
            if event != "[DONE]":
                yield json.loads(event)


def logged(server: Server, pattern: str) -> re.Match[str]:
    """The first line that matches, once it is written."""
    found: list[re.Match[str]] = []

    def is_there() -> bool:
        match = re.search(pattern, server.log.read_text(), re.M)
        found.extend([match] if match else [])
        return bool(match)

    wait_until(is_there, 5, f"a line with {pattern}")
    return found[0]


@pytest.mark.covers("KV-03", "KV-20")
def test_the_start_line_states_block_size_and_the_count_the_formula_gives(traced: Server) -> None:
    line = logged(traced, r"KV cache: (\d+) blocks of (\d+) tokens, (\d+) bytes each")
    num_blocks, block_size, block_bytes = map(int, line.groups())
    assert block_size == 16
    assert block_bytes == 16 * 64 * 3 * 2 * 2 * 30, (
        "tokens x head_dim x KV heads x bfloat16 x (K, V) x layers"
    )
    assert num_blocks == (4 << 30) // block_bytes, "the least of the three limits here: 4 GiB"


@pytest.mark.covers("KV-21", "EXEC-16")
def test_the_start_log_goes_from_profile_to_table_to_count_to_allocation(traced: Server) -> None:
    order = ["stage init_device: ", "stage load_model: ", "stage profile_run: ", "memory: limit"]
    order += ["memory: kv_cache_blocks", "KV cache: ", "stage allocate_kv_cache: ", "stage warm_up: "]
    places = [logged(traced, re.escape(step)).start() for step in order]
    assert places == sorted(places)
    for stage in ("init_device", "load_model", "profile_run", "allocate_kv_cache", "warm_up"):
        assert float(logged(traced, rf"stage {stage}: (\d+\.\d+) s$")[1]) >= 0


@pytest.mark.covers("GRAPH-02")
def test_the_start_log_times_capture_warm_up_and_replay(traced: Server) -> None:
    line = logged(traced, r"step program: capture (\S+) ms, warm-up (\S+) ms, replay of one token (\S+) ms$")
    capture, warm_up, replay = map(float, line.groups())
    assert capture > 0
    assert warm_up >= replay > 0
    assert line.start() < logged(traced, "stage warm_up: ").start()


@pytest.mark.covers("ARCH-05")
def test_one_request_leaves_a_line_at_each_of_its_eight_stations(traced: Server) -> None:
    events = list(stream(traced, "The sea is", 4))
    request_id = events[0]["id"]
    logged(traced, rf'{request_id}"? station="finished"')
    stations = read_trace(traced.log).stations[request_id]
    assert [name for name, _ in stations] == [*STATIONS, "finished"]
    times = [at_s for _, at_s in stations]
    assert times == sorted(times)


@pytest.mark.covers("ARCH-02")
def test_one_request_is_tokenised_while_another_executes(traced: Server) -> None:
    first = stream(traced, "Waves. " * 100, 120)
    first_id = next(first)["id"]
    others = []
    for number in range(6):
        others += [
            event["id"] for event in stream(traced, f"{number} ships sail the northern sea. " * 40, 1)
        ][:1]
    assert len(list(first)) > 0
    logged(traced, rf'{first_id}"? station="finished"')
    trace = read_trace(traced.log)
    executions = trace.executions(first_id)
    overlaps = []
    for request_id in others:
        times = dict(trace.stations[request_id])
        begin_s, end_s = times["received"], times["tokenised"]
        overlaps += [span for span in executions if span[0] < end_s and begin_s < span[1]]
    assert overlaps, "six prompts were tokenised while the first request ran nearly all the time"


async def all_streams(server: Server, max_tokens: int) -> list[str]:
    """Request ids of `NUM_STREAMS` streams, all open at once, read to their ends."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=180, limits=limits) as client:

        async def one(number: int) -> str:
            body = {"model": "smollm2", "prompt": f"{number} times", "max_tokens": max_tokens}
            body |= {"ignore_eos": True, "stream": True}
            async with client.stream("POST", server.url + "/v1/completions", json=body) as response:
                events = [line.removeprefix("data: ") async for line in response.aiter_lines() if line]
            assert events[-1] == "[DONE]"
            return str(json.loads(events[0])["id"])

        return await asyncio.gather(*[one(number) for number in range(NUM_STREAMS)])


@pytest.mark.covers("ARCH-15", "ENG-20")
def test_of_200_streams_none_waits_for_another_to_end_and_all_are_counted(traced: Server) -> None:
    histograms = (
        "time_to_first_token_seconds",
        "request_time_per_output_token_seconds",
        "e2e_request_latency_seconds",
    )
    before = {name: traced.metric(f"vllm:{name}_count") for name in histograms}
    finished = traced.metric("vllm:request_success_total")
    ids = asyncio.run(all_streams(traced, 64))
    wait_until(lambda: traced.metric("vllm:num_requests_running") == 0, 10, "the gauge is back at 0")
    assert traced.metric("vllm:request_success_total") - finished == NUM_STREAMS
    for name in histograms:
        assert traced.metric(f"vllm:{name}_count") - before[name] == NUM_STREAMS, name
    logged(traced, rf'{ids[-1]}"? station="finished"')
    trace = read_trace(traced.log)
    steps = [(at_s, text) for _, phase, at_s, text in trace.phases if phase == "scheduling"]
    waited = []
    for request_id in ids:
        times = dict(trace.stations[request_id])
        waited.append(sum(times["submitted"] < at_s < times["forward"] for at_s, _ in steps))
    assert max(waited) <= 16, "steps until the first token; another's completion would take 64"
    assert max(int(re.match(r"\d+", text)[0]) for _, text in steps) > 64  # type: ignore[index]


def thread_names(pid: int) -> set[str]:
    return {(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()}


def test_threads_carry_the_names_of_their_roles(traced: Server) -> None:
    engine, server = thread_names(traced.engine_pid()), thread_names(traced.process.pid)
    assert {"vllm-rs-engine", "vllm-rs-input", "vllm-rs-output", "vllm-rs-log", "vllm-rs-parent"} <= engine
    assert {"vllm-rs", "vllm-rs-io", "vllm-rs-log"} <= server


@pytest.mark.covers("ENG-11", "ENG-14")
def test_the_metrics_of_waiting_are_what_the_stations_say(traced: Server) -> None:
    names = ("time_to_first_token_seconds", "request_queue_time_seconds")
    before = {
        name: (traced.metric(f"vllm:{name}_sum"), traced.metric(f"vllm:{name}_count")) for name in names
    }
    *_, last = stream(traced, "A lighthouse", 3)
    request_id = last["id"]
    logged(traced, rf'{request_id}"? station="finished"')
    at_s = dict(read_trace(traced.log).stations[request_id])
    took_s = {}
    for name, (total_s, count) in before.items():
        assert traced.metric(f"vllm:{name}_count") == count + 1
        took_s[name] = traced.metric(f"vllm:{name}_sum") - total_s
    # Both are differences of the same two moments; only the writing of the log lines lies between.
    first_s = at_s["first_output"] - at_s["received"]
    assert took_s["time_to_first_token_seconds"] == pytest.approx(first_s, abs=0.05, rel=0.2)
    assert 0 < took_s["request_queue_time_seconds"] <= at_s["forward"] - at_s["submitted"]


@pytest.mark.covers("ENG-21")
def test_four_choices_stream_with_their_index(traced: Server) -> None:
    body = {"model": "smollm2", "prompt": "Once", "n": 4, "max_tokens": 12, "seed": 3, "stream": True}
    texts = dict.fromkeys(range(4), "")
    with httpx.stream("POST", traced.url + "/v1/completions", json=body, timeout=60) as response:
        for event in sse_events(response):
            for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
                texts[choice["index"]] += choice["text"]
    assert len(set(texts.values())) == 4
