"""Block sizes and memory shares, as servers and engines with other flags than the default show them."""

import logging
import os
import re
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from vllm_rs import LLM, LLMEngine, SamplingParams
from vllm_rs.config import EngineConfig
from vllm_rs.offline.process_client import EngineDeadError, ProcessClient

from .serving import Server, alive, children, sse_events
from .test_faults import ENDLESS

PROMPT = "The harbour master writes down every ship that enters, its flag, its cargo and its captain. " * 6


def greedy_with_waste(binary: Path, block_size: int, log: Path) -> tuple[str, float]:
    """(text, mean share of allocated KV slots that hold nothing)."""
    flags = ["--block-size", str(block_size), "--log-level", "debug", "--no-enable-prefix-caching"]
    with Server(binary, *flags, log=log) as server:
        texts = []
        for length in range(3):
            body = {"model": "smollm2", "prompt": PROMPT[length * 7 :], "max_tokens": 24, "temperature": 0}
            answer = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()
            texts.append(answer["choices"][0]["text"])
    slots = re.findall(r"kv slots (\d+) allocated (\d+) unused", log.read_text())
    shares = [int(unused) / int(allocated) for allocated, unused in slots]
    return "|".join(texts), sum(shares) / len(shares)


@pytest.mark.covers("KV-04")
def test_the_server_is_greedy_equal_at_three_block_sizes_and_larger_ones_waste_more(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path
) -> None:
    seen = [greedy_with_waste(vllm_rs_binary, size, tmp_path / f"{size}.log") for size in (8, 16, 32)]
    assert len({text for text, _ in seen}) == 1
    wastes = [waste for _, waste in seen]
    assert wastes == sorted(set(wastes))


@pytest.mark.covers("KV-05")
@pytest.mark.parametrize("size", ["1", "24", "1000", "2048"])
def test_block_sizes_the_kernel_cannot_serve_are_refused_with_the_list(
    vllm_rs_binary: Path, size: str
) -> None:
    ended = subprocess.run(
        [vllm_rs_binary, "serve", "smollm2", "--block-size", size], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert "--block-size" in ended.stderr
    assert "8, 16, 32, 64, 128, 256, 512, 1024" in ended.stderr


@pytest.mark.covers("EXEC-28")
def test_half_the_memory_gives_half_the_blocks_and_the_printed_parts_add_up(
    smollm2_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    total_mib = int(re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())[1]) / 1024  # type: ignore[index]
    num_blocks = {}
    for share in (0.5, 0.25):
        caplog.clear()
        with (
            caplog.at_level(logging.INFO, logger="vllm_rs.core"),
            LLM("smollm2", gpu_memory_utilization=share),
        ):
            pass
        table = dict(re.findall(r"memory: (\w+) +([\d.]+)(?: MiB)?$", caplog.text, re.M))
        mib = {name: float(value) for name, value in table.items()}
        parts = ("weights", "activations", "context", "kv_cache", "spare")
        assert sum(mib[part] for part in parts) == pytest.approx(mib["limit"], abs=0.5)
        assert mib["limit"] <= share * total_mib + 1
        assert "limited by" in caplog.text
        num_blocks[share] = mib["kv_cache_blocks"]
    assert num_blocks[0.25] == pytest.approx(num_blocks[0.5] / 2, rel=0.15)


@pytest.mark.covers("ENG-23")
def test_a_bad_model_path_reaches_the_parent_as_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineDeadError) as caught:
        ProcessClient(EngineConfig().with_model_path("/no/such/model"))
    assert "/no/such/model" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.covers("ENG-23")
def test_a_model_that_only_the_engine_finds_bad_ends_serve_with_one_line(
    vllm_rs_binary: Path, tiny_llama: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    for path in tiny_llama.iterdir():
        data = path.read_bytes()
        (folder / path.name).write_bytes(data[: len(data) // 2] if path.suffix == ".safetensors" else data)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ended = subprocess.run(
        [vllm_rs_binary, "serve", str(folder), "--port", port, "--log-level", "warning"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode != 0
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("vllm-rs: ")]
    assert "safetensors" in line
    assert "Traceback" not in ended.stderr


def test_a_blocked_log_sink_and_stalled_scrapes_do_not_stop_steps(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "nobody-reads"
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    scrapes = []
    try:
        with Server(vllm_rs_binary, "--log-level", "trace", log=log) as server:
            for _ in range(20):
                scrapes.append(socket.create_connection(("127.0.0.1", server.port)))
                scrapes[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
            body = {**ENDLESS, "max_tokens": 300}
            with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=120) as response:
                events = list(sse_events(response))
            assert len(events) > 150
            assert events[-1] == "[DONE]"
            held = os.read(reader, 1 << 20)
            assert len(held) >= 60_000, "the pipe was full: the sink was blocked all the while"
    finally:
        for scrape in scrapes:
            scrape.close()
        os.close(reader)


@pytest.mark.covers("ENG-06", "ENG-07")
def test_only_the_process_mode_has_an_engine_process(tiny_llama: Path) -> None:
    before = set(children(os.getpid()))
    with LLM(str(tiny_llama), engine="inproc") as llm:
        llm.generate("Hello", SamplingParams(max_tokens=2))
        assert set(children(os.getpid())) == before
    with LLM(str(tiny_llama), engine="process") as llm:
        llm.generate("Hello", SamplingParams(max_tokens=2))
        (engine,) = set(children(os.getpid())) - before
        assert "vllm_rs.core.proc" in Path(f"/proc/{engine}/cmdline").read_text()
    assert not alive(engine)


@pytest.mark.covers("ENG-21")
def test_choices_of_one_prompt_share_its_blocks(smollm2_path: Path) -> None:
    engine = LLMEngine.from_engine_args(model="smollm2", max_num_seqs=8)
    params = SamplingParams(n=4, temperature=1, seed=11, max_tokens=16, ignore_eos=True)
    engine.add_request("A", PROMPT, params)
    scheduler = engine._core._core.scheduler  # type: ignore[attr-defined]
    while len(scheduler.running) < 4 or any(not one.num_output_tokens for one in scheduler.running):
        engine.step()
    num_shared = (scheduler.running[0].num_prompt_tokens - 1) // 16
    tables = [scheduler.kv.block_ids(one.request_id)[0][:num_shared] for one in scheduler.running]
    assert num_shared > 2
    assert tables == [tables[0]] * 4
    assert len({one.seed for one in scheduler.running}) == 4
    engine.shutdown()
