"""The server as a process: start, drain, the engine's death, what it prints and logs."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from .serving import MockServer, events, wait_until

CHAT = "/v1/chat/completions"
SLOW = ["--mock-echo", "--mock-tokens-per-second=20", "--mock-vocab-size=258"]
LONG = {"prompt": "abc", "max_tokens": 2000, "ignore_eos": True, "stream": True}

StartServer = Callable[..., MockServer]


@pytest.fixture
def new_server(binary: Path, tiny_model: Path, tmp_path: Path) -> StartServer:
    def make(*flags: str, engine_script: Path | None = None, gate: str = "") -> MockServer:
        log = tmp_path / "log"
        return MockServer(binary, tiny_model, *flags, log=log, engine_script=engine_script, gate=gate)

    return make


@pytest.mark.covers("FE-08")
def test_http_is_up_before_the_engine_and_ready_after_it(
    new_server: StartServer, engine_script: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    server = new_server("--mock-echo", engine_script=engine_script, gate=str(gate)).start()
    try:
        assert (server.status("/live"), server.status("/health"), server.status("/ready")) == (200, 503, 503)
        refused = httpx.post(server.url + CHAT, json={"messages": [{"role": "user", "content": "x"}]})
        assert refused.status_code == 503 and "retry-after" in refused.headers
        gate.touch()
        server.wait_ready()
        assert (server.status("/live"), server.status("/health"), server.status("/ready")) == (200, 200, 200)
        log = server.log.read_text()
        order = ["configuration resolved", "listening", "starting the engine", "ready"]
        positions = [log.index(step) for step in order[:3]] + [log.rindex(order[3])]
        assert positions == sorted(positions)
    finally:
        server.__exit__(None, None, None)


def test_sigterm_drains_running_streams_and_exits_0(new_server: StartServer) -> None:
    with new_server(*SLOW) as server:
        body = {**LONG, "max_tokens": 30}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=30) as response:
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: server.status("/ready") == 503, 5, "not ready while draining")
            assert server.status("/health") == 200
            assert httpx.post(server.url + "/v1/completions", json=body).status_code == 503
            data = events(response)
        assert data[-1] == "[DONE]"
        assert json.loads(data[-2])["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(10) == 0


def test_the_drain_is_bounded(new_server: StartServer) -> None:
    with (
        new_server(*SLOW, "--shutdown-timeout=0.3") as server,
        httpx.stream("POST", server.url + "/v1/completions", json=LONG, timeout=30) as response,
    ):
        chunks = response.iter_raw()
        next(chunks)
        assert server.terminate(limit_s=10) == 0


def test_a_killed_engine_ends_streams_restarts_once_then_ends_the_server(
    new_server: StartServer, engine_script: Path
) -> None:
    with new_server(*SLOW, engine_script=engine_script) as server:
        first = server.engine_pid()
        with httpx.stream("POST", server.url + "/v1/completions", json=LONG, timeout=30) as response:
            lines = response.iter_lines()
            next(lines)
            subprocess.run(["kill", "-9", str(first)], check=True)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == 500
        wait_until(lambda: server.status("/health") == 200, 20, "healthy after one restart")
        second = server.engine_pid()
        assert second != first
        answer = httpx.post(
            server.url + "/v1/completions", json={"prompt": "abc", "max_tokens": 3}, timeout=10
        )
        assert answer.json()["choices"][0]["text"] == "abc"
        subprocess.run(["kill", "-9", str(second)], check=True)
        assert server.process.wait(20) == 3
        assert "the engine is gone" in server.log.read_text()


def test_a_vanished_client_aborts_its_request(new_server: StartServer) -> None:
    with new_server(*SLOW) as server:
        with httpx.stream("POST", server.url + "/v1/completions", json=LONG, timeout=30) as response:
            chunks = response.iter_raw()
            next(chunks)
            assert server.metric("vllm_rs:requests_running") == 1
        wait_until(lambda: server.metric("vllm_rs:requests_running") == 0, 5, "aborted")
        with pytest.raises(httpx.ReadTimeout):
            whole = {**LONG, "stream": False}
            httpx.post(server.url + "/v1/completions", json=whole, timeout=0.3)
        wait_until(lambda: server.metric("vllm_rs:requests_running") == 0, 5, "aborted")
        assert server.metric("vllm:request_success_total") == 2
        assert server.metric("vllm:num_requests_running") in (0, 1)


def test_hundreds_of_fickle_clients_leave_nothing_behind(new_server: StartServer) -> None:
    def visit(number: int) -> None:
        with httpx.stream("POST", server.url + "/v1/completions", json=LONG, timeout=30) as response:
            for _ in zip(range(number % 4), response.iter_raw(), strict=False):
                pass

    with new_server("--mock-echo", "--mock-tokens-per-second=200", "--mock-vocab-size=258") as server:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(visit, range(200)))
        wait_until(lambda: server.metric("vllm_rs:requests_running") == 0, 10, "all ended")
        started = server.metric("vllm_rs:requests_started_total")
        assert started == server.metric("vllm:request_success_total") == 200
        assert server.metric("vllm_rs:requests_awaiting_first_token") == 0


def test_one_request_id_yields_its_stations_in_order(new_server: StartServer) -> None:
    with new_server(
        "--mock-echo", "--mock-vocab-size=258", "--log-level=debug", "--log-format=json"
    ) as server:
        body = {"messages": [{"role": "user", "content": "confidential"}], "max_tokens": 5}
        httpx.post(server.url + CHAT, json=body, headers={"x-request-id": "trace-me"})
        # The log's writer runs behind; at its end everything is written.
        assert server.terminate(limit_s=10) == 0
        log = server.log.read_text()
    lines = [json.loads(line) for line in log.splitlines() if "trace-me" in line]
    stations = [line["station"] for line in lines if "station" in line]
    assert stations == ["received", "tokenised", "submitted", "first_output", "finished"]
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps)
    assert "confidential" not in log and "\x1b" not in log


def test_a_logged_request_shows_counts_and_never_text(new_server: StartServer) -> None:
    body = {"prompt": "secret words", "max_tokens": 2, "stop": ["hidden"]}
    flags = ["--mock-echo", "--log-level=debug", "--log-format=json"]
    for switch, lines_wanted in (("--enable-log-requests", 1), ("--disable-log-requests", 0)):
        with new_server(*flags, switch) as server:
            httpx.post(server.url + "/v1/completions", json=body)
            assert server.terminate(limit_s=10) == 0
            log = server.log.read_text()
        lines = [json.loads(line) for line in log.splitlines() if '"message":"request"' in line]
        assert len(lines) == lines_wanted
        assert "secret" not in log and "hidden" not in log
        assert [line["prompt_tokens"] for line in lines] == [12] * lines_wanted


def test_a_port_in_use_is_one_line_with_the_way_out(
    new_server: StartServer, binary: Path, tiny_model: Path
) -> None:
    with new_server("--mock-echo") as server:
        port = server.url.rsplit(":", 1)[1]
        second = subprocess.run(
            [binary, "serve", tiny_model, "--mock", "--port", port],
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert second.returncode == 1
    last = second.stderr.strip().splitlines()[-1]
    assert port in last and "--port" in last


def test_listening_beyond_loopback_needs_a_key(binary: Path, tiny_model: Path) -> None:
    command = [binary, "serve", tiny_model, "--mock", "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert refused.returncode == 2
    assert "--api-key" in refused.stderr and "--allow-unauthenticated" in refused.stderr


def test_a_missing_model_is_one_line(binary: Path, tmp_path: Path) -> None:
    command = [binary, "serve", tmp_path / "none.gguf", "--mock", "--port", "0"]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert failed.returncode == 2
    assert "none.gguf" in failed.stderr.strip().splitlines()[-1]


def test_a_unix_socket_serves_and_goes_away(new_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = new_server("--mock-echo", f"--uds={path}").start()
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x") as client:
            wait_until(lambda: client.get("/ready").status_code == 200, 10, "ready")
        assert server.terminate(limit_s=10) == 0
        assert not path.exists()
    finally:
        server.__exit__(None, None, None)


@pytest.mark.covers("CLI-02")
def test_openai_points_to_serve(binary: Path) -> None:
    shown = subprocess.run([binary, "openai", "--model", "x"], capture_output=True, text=True, timeout=10)
    assert shown.returncode == 0
    assert re.search(r"\bserve\b", shown.stdout)


def test_doctor_tells_what_there_is(binary: Path) -> None:
    shown = subprocess.run([binary, "doctor"], capture_output=True, text=True, timeout=30)
    assert shown.returncode == 0
    for fact in ("features", "kernels", "cgroup limit", "interpreter", "version", "smollm2"):
        assert fact in shown.stdout, shown.stdout


def test_stalled_readers_do_not_hold_up_the_others(new_server: StartServer) -> None:
    with new_server("--mock-echo", "--mock-vocab-size=258", "--mock-max-model-len=100000") as server:
        stalled = {"prompt": "abc", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", server.url + "/v1/completions", json=stalled, timeout=30) as response:
            done = threading.Event()

            def others() -> None:
                for _ in range(20):
                    httpx.post(
                        server.url + "/v1/completions", json={**stalled, "stream": False, "max_tokens": 50}
                    )
                done.set()

            threading.Thread(target=others, daemon=True).start()
            assert done.wait(20)
            assert events(response)[-1] == "[DONE]"
