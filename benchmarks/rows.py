"""Measure the rows of docs/requirements.md that state times or memory: `python benchmarks/rows.py [ROW ...]`.

Prints one line per row: the measured values, the bound, and whether it holds. On a machine with other work
the ratios swing; runs that are compared alternate, and medians are compared.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from e2e.serving import Server, sse_events  # noqa: E402
from vllm_rs import LLM, LLMEngine, SamplingParams  # noqa: E402
from vllm_rs.wire import EngineCoreOutput, EngineCoreOutputs, LogprobsTensors, Tensor  # noqa: E402
from vllm_rs.wire_codec import Encoder  # noqa: E402

MIB = 1 << 20
BINARY = Path(sys.executable).with_name("vllm-rs")
LONG = {"model": "smollm2", "prompt": "The sea", "temperature": 0, "ignore_eos": True, "stream": True}


def greedy(max_tokens: int) -> SamplingParams:
    """To the last token."""
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)


def verdict(row: str, text: str, holds: bool) -> None:
    """One line of the result."""
    print(f"| {row} | {text} | {'holds' if holds else 'DOES NOT HOLD'} |", flush=True)


def percentile(values: list[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def own_resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def eng_10() -> None:
    """RSS of encoding a message with an 8 MiB tensor, relative to the tensor."""
    logprobs = np.zeros((8192, 256), np.float32)
    logprobs[:] = 1.0
    small = Tensor(np.ones((1, 1), np.int32), "int32")
    output = EngineCoreOutput(
        "a", [5], new_prompt_logprobs_tensors=LogprobsTensors(small, Tensor(logprobs, "float32"), small)
    )
    before = own_resident_bytes()
    frames = Encoder().encode(EngineCoreOutputs(0, [output], timestamp=1.0))
    growth = (own_resident_bytes() - before) / logprobs.nbytes
    own = any(memoryview(frame).nbytes == logprobs.nbytes for frame in frames)
    verdict(
        "ENG-10",
        f"8 MiB tensor in a frame of its own: {own}; RSS grows {growth:.2f}x its size",
        own and growth < 1.2,
    )


def exec_21() -> None:
    """The first request of an engine against its tenth, over engines."""
    ratios = []
    for _ in range(5):
        with LLM("smollm2") as llm:
            took_s = []
            for index in range(10):
                start_s = time.perf_counter()
                llm.generate(f"{index} The capital of France is", greedy(16), use_tqdm=False)
                took_s.append(time.perf_counter() - start_s)
        ratios.append(took_s[0] / took_s[9])
    ratio = statistics.median(ratios)
    verdict("EXEC-21", f"first / tenth request: {ratio:.2f} (median of {len(ratios)} engines)", ratio <= 1.2)


def perf_07() -> None:
    """Decode steps of the recorded program against the same calls one by one from Python."""
    with LLM("smollm2") as recorded, LLM("smollm2", enforce_eager=True) as eager:
        took_s: dict[str, list[float]] = {"recorded": [], "eager": []}
        for _ in range(7):
            for name, llm in (("recorded", recorded), ("eager", eager)):
                start_s = time.perf_counter()
                llm.generate("The sea", greedy(64), use_tqdm=False)
                took_s[name].append(time.perf_counter() - start_s)
    step_ms = {name: statistics.median(values) / 64 * 1e3 for name, values in took_s.items()}
    text = (
        f"ms per token, one stream: recorded {step_ms['recorded']:.2f}, call by call {step_ms['eager']:.2f}"
    )
    verdict("PERF-07", text, step_ms["recorded"] < 0.7 * step_ms["eager"])


def sched_25() -> None:
    """Time to first token of 20 short prompts, alone and beside a 4k prompt."""
    engine = LLMEngine.from_engine_args(model="smollm2", max_num_seqs=32, enable_prefix_caching=False)
    words = "The keeper of the lamp writes of wind and ships. "
    p99_s: dict[bool, list[float]] = {False: [], True: []}
    for round_number in range(3):
        for loaded in (False, True):
            if loaded:
                engine.add_request(f"long{round_number}", words * 370, greedy(1))
                engine.step()
            start_s, first_s = time.perf_counter(), {}
            for index in range(20):
                engine.add_request(f"s{round_number}{loaded}{index}", f"{index} wind and ships", greedy(8))
            while engine.has_unfinished_requests():
                for output in engine.step():
                    first_s.setdefault(output.request_id, time.perf_counter() - start_s)
            shorts = [took for name, took in first_s.items() if name.startswith("s")]
            p99_s[loaded].append(percentile(shorts, 0.99))
    engine.shutdown()
    alone, beside = (statistics.median(p99_s[loaded]) for loaded in (False, True))
    text = f"short p99 TTFT: alone {alone * 1e3:.0f} ms, beside a 4k prompt {beside / alone:.2f}x that"
    verdict("SCHED-25", text, beside < 3 * alone)


@contextlib.contextmanager
def server(*flags: str) -> Iterator[Server]:
    """`vllm-rs serve smollm2`."""
    with tempfile.TemporaryDirectory() as folder, Server(BINARY, *flags, log=Path(folder) / "log") as running:
        yield running


def gaps_s(running: Server, max_tokens: int) -> list[float]:
    """Times between the tokens of one stream."""
    times = []
    with httpx.stream(
        "POST", running.url + "/v1/completions", json={**LONG, "max_tokens": max_tokens}, timeout=300
    ) as response:
        times = [time.perf_counter() for _ in sse_events(response)]
    return [after - before for before, after in itertools.pairwise(times)]


def request_bytes(path: str, body: dict[str, object] | None = None) -> bytes:
    """An HTTP request as bytes, for sockets that are then left alone."""
    data = json.dumps(body).encode() if body else b""
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(data)}\r\n\r\n".encode() + data


def resident_of(pid: int) -> int:
    """VmRSS of a process."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) * 1024 if match else 0


def eng_16() -> None:
    """Inter-token p99 of one stream, alone and beside a consumer that never reads; memory of the latter."""
    with server("--max-num-seqs", "4") as running:
        gaps_s(running, 100)
        alone = percentile(gaps_s(running, 400), 0.99)
        other = percentile(gaps_s_beside(running, "reads"), 0.99)
        before = resident_of(running.process.pid)
        stalled = percentile(gaps_s_beside(running, "stalls"), 0.99)
        growth = (resident_of(running.process.pid) - before) / MIB
    text = (
        f"ITL p99 alone {alone * 1e3:.1f} ms, beside a reader {other * 1e3:.1f} ms,"
        f" beside one that never reads {stalled * 1e3:.1f} ms; server RSS +{growth:.1f} MiB"
    )
    verdict("ENG-16", text, stalled <= 1.25 * other and growth < 16)


def gaps_s_beside(running: Server, how: str) -> list[float]:
    """Gaps of one stream while another client reads its own, or never does."""
    with socket.create_connection(("127.0.0.1", running.port)) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(request_bytes("/v1/completions", {**LONG, "prompt": "A hill", "max_tokens": 2000}))
        if how == "reads":
            peer.setblocking(True)
            threading.Thread(
                target=lambda: [None for _ in iter(lambda: _read(peer), b"")], daemon=True
            ).start()
        return gaps_s(running, 400)


def _read(peer: socket.socket) -> bytes:
    try:
        return peer.recv(1 << 16)
    except OSError:
        return b""


def arch_14() -> None:
    """Step time with a log nobody reads and scrapes that stall, against the same server without either."""
    medians: dict[bool, list[float]] = {False: [], True: []}
    for blocked in (False, True) * 3:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            peers, reader = [], None
            if blocked:
                os.mkfifo(log)
                reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
            with Server(BINARY, "--log-level", "debug", log=log) as running:
                gaps_s(running, 300)  # fills the pipe
                if blocked:
                    for _ in range(50):
                        peers.append(socket.create_connection(("127.0.0.1", running.port)))
                        peers[-1].sendall(request_bytes("/metrics") * 50)
                medians[blocked].append(statistics.median(gaps_s(running, 300)))
            for peer in peers:
                peer.close()
            if reader is not None:
                os.close(reader)
    free, held = (statistics.median(medians[blocked]) * 1e3 for blocked in (False, True))
    text = f"median step: {free:.2f} ms free, {held:.2f} ms with a blocked log and 50 stalled scrapes"
    verdict("ARCH-14", text, held <= 1.1 * free)


def arch_03() -> None:
    """Gap between steps, unloaded (64 fast streams) and with 1,000 clients that read one event a second."""
    flags = ("--log-level", "debug", "--max-num-seqs", "64", "--max-num-queued-reqs", "4096")
    p99_us = {}
    for slow in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with Server(BINARY, *flags, log=log) as running:
                asyncio.run(many_clients(running, 1000 if slow else 64, 24 if slow else 384, slow=slow))
            p99_us[slow] = percentile(step_gaps_s(log), 0.99) * 1e6
    text = f"step-gap p99, us: {p99_us[False]:.0f} with 64 fast clients, {p99_us[True]:.0f} with 1,000 slow"
    verdict("ARCH-03", text, p99_us[True] <= 1.5 * p99_us[False])


def step_gaps_s(log: Path) -> list[float]:
    """From the end of one execution to the start of the next, where the next follows at once."""
    from e2e.step_trace import PHASE, seconds

    gaps, ended_s = [], None
    for line in log.read_text().splitlines():
        if match := PHASE.match(line):
            at_s, phase = seconds(match[1]), match[3]
            if phase == "execution":
                ended_s = at_s
            elif phase == "scheduling" and ended_s is not None:
                gaps.append(at_s - ended_s)
    return gaps


async def many_clients(running: Server, count: int, max_tokens: int, *, slow: bool) -> None:
    """Streams over raw sockets; slow ones read at most one event a second and leave when they are bored."""

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port, limit=4096)
        writer.write(
            request_bytes("/v1/completions", {**LONG, "prompt": f"{number} ships", "max_tokens": max_tokens})
        )
        with contextlib.suppress(asyncio.IncompleteReadError, ValueError, OSError, TimeoutError):
            async with asyncio.timeout(120):
                while b"[DONE]" not in await reader.readline():
                    if slow:
                        await asyncio.sleep(0.5)  # an event is two lines
        writer.close()

    await asyncio.gather(*[one(number) for number in range(count)])


ROWS = {
    "ENG-10": eng_10, "EXEC-21": exec_21, "PERF-07": perf_07, "SCHED-25": sched_25,
    "ENG-16": eng_16, "ARCH-14": arch_14, "ARCH-03": arch_03,
}  # fmt: skip


def main(names: list[str]) -> None:
    """Head of a result file, then the rows."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    print(
        f"CPU: {cpu[1] if cpu else 'unknown'}, {os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}"
    )
    print(f"Commit: {commit.stdout.strip()}\n\n| row | measured | bound |\n|---|---|---|")
    for name in names or ROWS:
        ROWS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
