#!/usr/bin/env python3
"""Clients that connect, stream and vanish at random, against a real server: what is left when all are gone?

    vanish.py --seconds 60 --clients 64 [--seed 1] [-- flags of `vllm-rs serve`]

Starts a server of its own, lets the clients loose, waits until it is idle, and prints a table. The exit
status is 1 when blocks are still in use, when started and finished requests differ, when the server failed a
client that stayed, or when resident memory (sum over the process tree) grew more than 5 % after the first
quarter.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from versus import free_port, process_tree

START_LIMIT_S = 120.0
IDLE_LIMIT_S = 60.0
GROWTH_LIMIT = 1.05
# The KV cache takes memory as its blocks are first written. A small one is written from end to end within
# the first seconds, so that what grows later is a leak; and requests must be preempted, which is a test too.
SMALL_CACHE = ("--kv-cache-memory-bytes", str(64 << 20), "--max-model-len", "2816")
WORDS = ("sea", "ship", "north", "wind", "harbour", "salt", "rope", "lantern", "gull", "tide", "anchor")


@dataclass
class Tally:
    """What the clients did and met."""

    ways: Counter[str] = field(default_factory=Counter)
    events: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def request_bytes(choose: random.Random, port: int, *, stream: bool, max_tokens: int) -> bytes:
    """One HTTP request with a random prompt, as bytes on the wire."""
    prompt = " ".join(choose.choices(WORDS, k=choose.choice((3, 20, 120, 400))))
    body: dict[str, object] = {
        "max_tokens": max_tokens,
        "stream": stream,
        "temperature": choose.choice((0, 1)),
        "n": choose.choice((1, 1, 1, 2)),
        "ignore_eos": True,
    }
    if choose.random() < 0.5:
        path = "/v1/completions"
        body["prompt"] = prompt
        body["n"] = 1 if body["temperature"] == 0 else body["n"]
    else:
        path = "/v1/chat/completions"
        body["messages"] = [{"role": "user", "content": prompt}]
        body["n"] = 1
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content


async def one_client(choose: random.Random, port: int, tally: Tally) -> None:
    """Connect, do one of the things clients do, and go."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    way = choose.choices(
        ("silent", "half a request", "before the answer", "in the stream", "whole", "whole, not streamed"),
        (1, 1, 3, 8, 3, 1),
    )[0]
    tally.ways[way] += 1
    whole = way.startswith("whole")
    request = request_bytes(
        choose,
        port,
        stream=way != "whole, not streamed",
        max_tokens=choose.randrange(1, 40) if whole else choose.randrange(200, 2000),
    )
    try:
        if way == "silent":
            return
        if way == "half a request":
            writer.write(request[: choose.randrange(1, len(request) - 1)])
            await writer.drain()
            return
        writer.write(request)
        await writer.drain()
        if way == "before the answer":
            # How long a client waits before it goes is part of the load, not a synchronisation.
            await asyncio.sleep(choose.random() * 0.5)
            return
        await read_answer(reader, tally, limit=None if whole else choose.randrange(1, 60))
    finally:
        hang_up(writer, reset=choose.random() < 0.5)


async def read_answer(reader: asyncio.StreamReader, tally: Tally, limit: int | None) -> None:
    """Read up to `limit` events, or all of them; what the server does wrong is a failure."""
    status = (await reader.readline()).split()
    if len(status) < 2 or status[1] != b"200":
        tally.failures[f"status {status[1:2]}"] += 1
        return
    count, last = 0, b""
    while line := await reader.readline():
        if line.startswith(b"data: "):
            count, last = count + 1, line
            if b'"error"' in line:
                tally.failures["error event"] += 1
        if limit is not None and count >= limit:
            break
    tally.events += count
    if limit is None and count and not last.startswith(b"data: [DONE]"):
        tally.failures["stream cut short"] += 1


def hang_up(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    """Close politely, or with a reset."""
    if reset:
        linger = struct.pack("ii", 1, 0)
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    else:
        writer.close()


async def run_clients(
    port: int, root: int, options: argparse.Namespace
) -> tuple[Tally, list[tuple[float, int]]]:
    """Keep the clients busy for so long; also resident bytes by seconds since the start, once a second."""
    tally = Tally()
    samples: list[tuple[float, int]] = []
    started = time.monotonic()

    async def keep_going(number: int) -> None:
        choose = random.Random(f"{options.seed}/{number}")
        while time.monotonic() - started < options.seconds:
            try:
                await one_client(choose, port, tally)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                tally.failures[type(error).__name__] += 1

    async def watch() -> None:
        while time.monotonic() - started < options.seconds:
            await asyncio.sleep(1)
            samples.append((time.monotonic() - started, rss_bytes(root)))

    await asyncio.gather(watch(), *[keep_going(number) for number in range(options.clients)])
    return tally, samples


def rss_bytes(root: int) -> int:
    """Resident bytes of the process and its descendants."""
    total = 0
    for pid in process_tree(root):
        with contextlib.suppress(OSError):
            match = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
            total += int(match[1]) * 1024 if match else 0
    return total


def metrics(port: int) -> dict[str, float]:
    """Every metric of the server, summed over labels."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if match := re.match(r"([a-zA-Z_:]+)(?:\{.*\})? (\S+)$", line):
            sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
    return sums


def wait_until_idle(port: int) -> float:
    """Seconds until nothing runs or waits and every request is accounted for; gives up after a minute."""
    started = time.monotonic()
    while (waited := time.monotonic() - started) < IDLE_LIMIT_S:
        now = metrics(port)
        queued = now["vllm:num_requests_running"] + now["vllm:num_requests_waiting"]
        if not queued and now["vllm_rs:requests_started_total"] == now["vllm:request_success_total"]:
            return waited
        time.sleep(0.1)
    return IDLE_LIMIT_S


def wait_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Until /ready answers 200."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).status == 200:
                return
        time.sleep(0.05)
    sys.exit(f"the server did not become ready:\n{log.read_text()}")


def report(
    tally: Tally, samples: list[tuple[float, int]], idle_s: float, last_rss: int, now: dict[str, float]
) -> bool:
    """Print what was seen; whether all is well."""
    quarter = samples[-1][0] / 4
    early = next(size for at, size in samples if at >= quarter)
    growth = last_rss / early
    started, ended = now["vllm_rs:requests_started_total"], now["vllm:request_success_total"]
    in_use = now["vllm:kv_cache_usage_perc"]
    for way, count in tally.ways.most_common():
        print(f"  {way:<24}{count:>8}")
    print(
        "  RSS over time, MiB:",
        *[f"{size / 2**20:.0f}" for _, size in samples[:: max(1, len(samples) // 12)]],
    )
    rows = [
        ("clients that came", sum(tally.ways.values()), True),
        ("events read", tally.events, True),
        ("failures", dict(tally.failures) or "none", not tally.failures),
        ("requests started", int(started), started > 0),
        ("requests finished", int(ended), started == ended),
        ("preemptions", int(now["vllm:num_preemptions_total"]), True),
        ("seconds until idle", f"{idle_s:.1f}", idle_s < IDLE_LIMIT_S),
        ("share of blocks in use", f"{in_use:.4f}", in_use == 0),
        (f"RSS after {quarter:.0f} s, MiB", f"{early / 2**20:.0f}", True),
        ("RSS at the end, MiB", f"{last_rss / 2**20:.0f}", True),
        ("growth", f"{growth:.3f}", growth <= GROWTH_LIMIT),
    ]
    for name, value, good in rows:
        print(f"{name:<26}{value!s:>8}{'' if good else '   <-- violated'}")
    return all(good for _, _, good in rows)


def main() -> int:
    """Run the clients against a server of our own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default=str(Path(sys.executable).with_name("vllm-rs")))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("flags", nargs="*", help="after --: flags of the server")
    options = parser.parse_args()
    port = free_port()
    command = [options.binary, "serve", options.model, "--port", str(port), *SMALL_CACHE, *options.flags]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        try:
            wait_ready(process, port, log)
            tally, samples = asyncio.run(run_clients(port, process.pid, options))
            idle_s = wait_until_idle(port)
            good = report(tally, samples, idle_s, rss_bytes(process.pid), metrics(port))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        if not good:
            print(log.read_text()[-4000:], file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
