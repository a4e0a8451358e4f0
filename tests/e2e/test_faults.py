"""The fault table, against the real server and the real engine."""

import json
import os
import random
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from .serving import Server, alive, sse_events, wait_until

ENDLESS = {
    "model": "smollm2",
    "prompt": "Tell me everything about the sea.",
    "max_tokens": 4000,
    "temperature": 0,
    "ignore_eos": True,
    "stream": True,
}


@pytest.fixture
def own_server(vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path) -> Server:
    return Server(vllm_rs_binary, log=tmp_path / "server.log")


def test_killed_engine_ends_streams_with_an_error_restarts_once_then_gives_up(own_server: Server) -> None:
    with own_server as server:
        first_engine = server.engine_pid()
        with httpx.stream("POST", server.url + "/v1/completions", json=ENDLESS, timeout=60) as response:
            events = sse_events(response)
            next(events)
            os.kill(first_engine, signal.SIGKILL)
            rest = list(events)
        assert rest[-1] == "[DONE]"
        assert "error" in json.loads(rest[-2])
        wait_until(lambda: server.status("/live") == 200, 5, "alive throughout")
        wait_until(lambda: server.status("/health") == 200, 60, "healthy again after one restart")
        second_engine = server.engine_pid()
        assert second_engine != first_engine
        answer = httpx.post(
            server.url + "/v1/completions", json={**ENDLESS, "stream": False, "max_tokens": 3}, timeout=60
        )
        assert answer.status_code == 200
        os.kill(second_engine, signal.SIGKILL)
        assert server.process.wait(30) != 0


def test_health_is_503_while_the_engine_is_gone(own_server: Server) -> None:
    with own_server as server:
        os.kill(server.engine_pid(), signal.SIGKILL)
        wait_until(lambda: server.status("/health") == 503, 5, "unhealthy")
        assert server.status("/ready") == 503
        assert server.status("/live") == 200
        wait_until(lambda: server.status("/health") == 200, 60, "healthy again")


def test_engine_ends_with_its_parent(own_server: Server) -> None:
    with own_server as server:
        engine = server.engine_pid()
        server.process.kill()
        wait_until(lambda: not alive(engine), 2, "orphaned engine gone")


@pytest.mark.covers("ENG-04")
def test_sigterm_idle_ends_at_once_and_busy_drains(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path
) -> None:
    with Server(vllm_rs_binary, log=tmp_path / "idle.log") as server:
        server.process.terminate()
        assert server.process.wait(5) == 0
    with Server(vllm_rs_binary, "--shutdown-timeout", "60", log=tmp_path / "busy.log") as server:
        body = {**ENDLESS, "max_tokens": 200}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=60) as response:
            events = sse_events(response)
            first = next(events)
            server.process.terminate()
            wait_until(lambda: server.status("/ready") != 200, 5, "readiness off")
            rest = [first, *events]
        tokens = [json.loads(event) for event in rest if event != "[DONE]"]
        assert tokens[-1]["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(20) == 0


@pytest.mark.covers("ENG-05")
def test_closed_stream_frees_its_blocks_and_is_counted(server: Server) -> None:
    def count() -> float:
        samples = server.metrics().items()
        return sum(value for key, value in samples if "request_success_total" in key and '"abort"' in key)

    before = count()
    with httpx.stream("POST", server.url + "/v1/completions", json=ENDLESS, timeout=60) as response:
        next(sse_events(response))
    wait_until(lambda: count() == before + 1, 5, "one more abort")
    wait_until(lambda: server.metric("vllm:num_requests_running") == 0, 5, "nothing runs")
    wait_until(lambda: server.metric("vllm:kv_cache_usage_perc") == 0, 5, "all blocks free or cached")


def test_clients_that_vanish_leave_nothing_behind(server: Server) -> None:
    """A short form of the 60 s run in benchmarks/vanish.py."""
    started, ended = server.metric("vllm_rs:requests_started_total"), finished(server)
    choose = random.Random(5)
    plans = [(choose.randrange(0, 40), choose.random() < 0.3) for _ in range(64)]

    def one(plan: tuple[int, bool]) -> None:
        num_events, whole = plan
        body = {**ENDLESS, "max_tokens": 48 if whole else 2000}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=120) as response:
            for number, _ in enumerate(sse_events(response)):
                if not whole and number >= num_events:
                    return

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, plans))
    wait_until(lambda: server.metric("vllm:num_requests_running") == 0, 20, "nothing runs")
    wait_until(lambda: server.metric("vllm:kv_cache_usage_perc") == 0, 20, "all blocks free or cached")
    wait_until(
        lambda: server.metric("vllm_rs:requests_started_total") - started == finished(server) - ended,
        5,
        "started = finished",
    )
    assert server.metric("vllm_rs:requests_started_total") - started == len(plans)


def finished(server: Server) -> float:
    """Requests that ended, over all reasons."""
    return server.metric("vllm:request_success_total")


@pytest.mark.covers("SCHED-01")
def test_a_second_request_starts_while_the_first_runs(server: Server) -> None:
    first_done = threading.Event()

    def long_one() -> None:
        body = {**ENDLESS, "max_tokens": 600, "stream": False}
        httpx.post(server.url + "/v1/completions", json=body, timeout=120)
        first_done.set()

    thread = threading.Thread(target=long_one)
    thread.start()
    wait_until(lambda: server.metric("vllm:num_requests_running") >= 1, 20, "first runs")
    body = {**ENDLESS, "max_tokens": 2, "stream": False}
    assert httpx.post(server.url + "/v1/completions", json=body, timeout=60).status_code == 200
    assert not first_done.is_set()
    thread.join()


def test_port_in_use_and_missing_model_are_one_line_each(
    server: Server, vllm_rs_binary: Path, tmp_path: Path
) -> None:
    for arguments, expected in (
        (["serve", "smollm2", "--port", str(server.port)], str(server.port)),
        (["serve", str(tmp_path / "nothing-here.gguf")], "nothing-here.gguf"),
        (["serve", "smollm2", "--dtype", "int3"], "--dtype"),
    ):
        ended = subprocess.run([vllm_rs_binary, *arguments], capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0
        assert expected in ended.stderr
        assert "panicked" not in ended.stderr
        assert "Traceback" not in ended.stderr
