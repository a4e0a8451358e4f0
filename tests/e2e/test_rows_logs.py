"""Logs of both processes at two levels, the order of a start, the memory table, and the metrics page."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from .serving import Server, wait_until

SECRET = "zanzibarian"
CACHE_BYTES = 48 << 20

# What vLLM 0.32 exposes under these names; ours that it does not have carry our own prefix.
VLLM_NAMES = set(
    re.findall(
        r"\w+",
        """
    admission_rejections cache_config_info e2e_request_latency_seconds engine_sleep_state
    generation_tokens inter_token_latency_seconds iteration_tokens_total kv_cache_usage_perc
    num_preemptions num_requests_running num_requests_waiting num_requests_waiting_by_reason
    prefix_cache_hits prefix_cache_queries prompt_tokens prompt_tokens_by_source
    prompt_tokens_cached request_decode_time_seconds request_generation_tokens
    request_inference_time_seconds request_max_num_generation_tokens request_params_max_tokens
    request_params_n request_prefill_kv_computed_tokens request_prefill_time_seconds
    request_prompt_tokens request_queue_time_seconds request_success
    request_time_per_output_token_seconds time_to_first_token_seconds
    """,
    )
)


@dataclass
class Run:
    """A server that answered one request, and what it had written by then."""

    server: Server
    log: Path

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()


def answered(server: Server) -> Run:
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": f"Say {SECRET} twice."}],
        "max_tokens": 12,
        "temperature": 0,
    }
    answer = httpx.post(server.url + "/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200
    return Run(server, server.log)


@pytest.fixture(scope="module")
def info_run(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """VLLM_LOGGING_LEVEL=INFO, text; a small cache, so that its size can be seen in the memory taken."""
    log = tmp_path_factory.mktemp("info") / "log"
    flags = ["--kv-cache-memory-bytes", str(CACHE_BYTES), "--max-model-len", "1024"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_LOGGING_LEVEL", "INFO")
        with Server(vllm_rs_binary, *flags, log=log) as server:
            yield answered(server)


@pytest.fixture(scope="module")
def debug_run(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """VLLM_LOGGING_LEVEL=DEBUG, JSON."""
    log = tmp_path_factory.mktemp("debug") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
        with Server(vllm_rs_binary, "--log-format", "json", log=log) as server:
            run = answered(server)
            wait_until(lambda: "output processing" in log.read_text(), 10, "the step log")
            yield run


def records(run: Run) -> list[dict[str, object]]:
    """The JSON lines of a log; the line that says how to ask is for people."""
    return [json.loads(line) for line in run.lines() if line.startswith("{")]


def is_engine(record: dict[str, object]) -> bool:
    return "logger" in record


@pytest.mark.covers("ENV-02")
def test_the_level_changes_both_parts(info_run: Run, debug_run: Run) -> None:
    assert not any("DEBUG" in line for line in info_run.lines())
    assert any(" INFO " in line and " engine " in line for line in info_run.lines())
    assert any(" INFO " in line and " vllm_rs_server" in line for line in info_run.lines())
    levels = {(is_engine(record), str(record["level"]).lower()) for record in records(debug_run)}
    assert {(True, "debug"), (False, "debug"), (True, "info"), (False, "info")} <= levels


@pytest.mark.covers("OBS-07")
def test_debug_adds_lines_per_step_as_json(info_run: Run, debug_run: Run) -> None:
    messages = [str(record["message"]) for record in records(debug_run) if is_engine(record)]
    steps = {match[1] for message in messages if (match := re.match(r"step (\d+) scheduling", message))}
    done = {match[1] for message in messages if (match := re.match(r"step (\d+) output processing", message))}
    assert len(steps) >= 12  # one for the prompt, one for each further token
    assert done <= steps
    assert len(done) >= 11
    for record in records(debug_run):
        assert {"level"} < record.keys()
    assert not any(re.search(r"step \d+ ", line) for line in info_run.lines())


@pytest.mark.covers("CLI-11")
def test_no_prompt_text_is_logged_and_levels_change_the_volume(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path, info_run: Run, debug_run: Run
) -> None:
    flags = ["--disable-log-requests", "--log-level"]
    with Server(vllm_rs_binary, *flags, "trace", log=tmp_path / "trace") as server:
        trace = answered(server)
    with Server(vllm_rs_binary, *flags, "error", log=tmp_path / "error") as server:
        error = answered(server)
    volumes = [len(run.lines()) for run in (error, info_run, debug_run, trace)]
    assert volumes == sorted(set(volumes))
    for run in (error, info_run, debug_run, trace):
        assert SECRET not in run.log.read_text().lower()


@pytest.mark.covers("OBS-08")
def test_a_redirected_log_is_plain_and_flushed(info_run: Run, debug_run: Run) -> None:
    for run in (info_run, debug_run):
        assert run.server.process.poll() is None
        text = run.log.read_text()
        assert "\x1b" not in text
        # All that was said until it was ready is there while it runs.
        assert "configuration resolved" in text
        assert "stage warm_up" in text
        assert re.search(r" ready url=|\"ready\"", text)
        assert text.endswith("\n")


def exposition(text: str) -> dict[str, tuple[str, str, list[tuple[str, float]]]]:
    """Families of the Prometheus text format by name: type, help, samples. Raises on a line out of place."""
    families: dict[str, tuple[str, str, list[tuple[str, float]]]] = {}
    helps: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, help_text = line.split(" ", 3)
            helps[name] = help_text
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families
            families[name] = (kind, helps[name], [])
        else:
            label = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
            match = re.fullmatch(rf"([a-zA-Z_:][\w:]*)(\{{(?:{label},?)*\}})? (\S+)", line)
            assert match, line
            base = re.sub(r"_(bucket|sum|count)$", "", match[1])
            family = families.get(match[1]) or families[base]
            family[2].append((match[1] + (match[2] or ""), float(match[3])))
    return families


@pytest.mark.covers("OBS-01")
def test_the_metrics_page_parses_is_documented_and_speaks_vllm(info_run: Run) -> None:
    answer = httpx.get(info_run.server.url + "/metrics", timeout=10)
    assert answer.headers["content-type"].startswith("text/plain")
    families = exposition(answer.text)
    for name, (kind, help_text, samples) in families.items():
        assert kind in ("counter", "gauge", "histogram")
        assert len(help_text) > 8, name
        assert samples, name
        prefix, _, rest = name.partition(":")
        if prefix == "vllm":
            assert rest.removesuffix("_total") in VLLM_NAMES or rest in VLLM_NAMES, name
        else:
            assert prefix == "vllm_rs" or name.startswith(("http_", "process_")), name
        if kind == "histogram" and prefix == "vllm":
            counts = [value for key, value in samples if key.startswith(name + "_bucket")]
            assert counts == sorted(counts)
    assert families["vllm:time_to_first_token_seconds"][2]


def resident_bytes(pid: int) -> int:
    match = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert match
    return int(match[1]) * 1024


@pytest.mark.covers("OBS-06")
def test_memory_by_part_adds_up_to_what_is_resident(info_run: Run) -> None:
    server = info_run.server
    # The cache takes memory as it is first written, so write all of it.
    body = {"model": "smollm2", "prompt": [f"{number} " * 480 for number in range(4)], "max_tokens": 1}
    assert httpx.post(server.url + "/v1/completions", json=body, timeout=120).status_code == 200
    parts = {
        match[1]: value
        for key, value in server.metrics().items()
        if (match := re.match(r'vllm_rs:memory_bytes\{.*part="(\w+)"', key))
    }
    assert parts.keys() == {"weights", "activations", "context", "kv_cache"}
    assert CACHE_BYTES * 0.98 <= parts["kv_cache"] <= CACHE_BYTES
    resident = resident_bytes(server.engine_pid())
    print({part: round(size / 2**20) for part, size in parts.items()}, "resident", resident >> 20)
    assert abs(sum(parts.values()) - resident) <= 0.1 * resident
    table = "\n".join(line for line in info_run.lines() if "memory:" in line)
    for part in parts:
        assert re.search(rf"memory: {part} +[\d.]+ MiB", table)


@pytest.mark.covers("FE-08")
def test_the_start_log_shows_the_order(info_run: Run) -> None:
    text = info_run.log.read_text()
    order = ["configuration resolved", "listening", "starting the engine", 'stage="load_model"']
    order += ['stage="allocate_kv_cache"', 'stage="warm_up"', " ready url="]
    places = [text.index(step) for step in order]
    assert places == sorted(places)
