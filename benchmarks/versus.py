#!/usr/bin/env python3
"""Serve the same loads with several servers in turn, several rounds, and print figures side by side.

    versus.py --server NAME='COMMAND with {port}' --server ... --shape 1:4:100:128 --shape 8:16:100:128
              --load 'COMMAND with {url} {model} {conc} {reqs} {plen} {out}' --rounds 3 --json out.json

One server runs at a time. Each round starts each server afresh, times process start to first token, runs
the shapes in order, and reads the memory of its process tree (sum of PSS). The load command prints one JSON
line with `out_tok_s`, `total_tok_s`, `ttft_p50`, `tpot_p50`, `ok`, `failed`. Figures are medians over
rounds; ratios are of the first server named to each other one.
"""

import argparse
import json
import os
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_LIMIT_S = 400.0


@dataclass(frozen=True)
class Shape:
    """One load: streams at once, requests in all, words in the prompt, tokens out."""

    concurrency: int
    requests: int
    prompt_words: int
    output_tokens: int

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """From CONCURRENCY:REQUESTS:PROMPT_WORDS:OUTPUT_TOKENS."""
        parts = [int(part) for part in text.split(":")]
        if len(parts) != 4:
            raise argparse.ArgumentTypeError(f"shape: want four numbers C:R:P:O, got {text!r}")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.concurrency} streams, {self.prompt_words} words in, {self.output_tokens} out"


def free_port() -> int:
    """A TCP port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def process_tree(root: int) -> list[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    tree, queue = [], [root]
    while queue:
        pid = queue.pop()
        tree.append(pid)
        queue += children.get(pid, [])
    return tree


def tree_pss_mib(root: int) -> float:
    """Sum of proportional set sizes over the process tree, MiB."""
    total_kib = 0
    for pid in process_tree(root):
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total_kib += int(line.split()[1])
        except OSError:
            continue
    return total_kib / 1024


def first_token_s(url: str, model: str, started: float) -> float:
    """Poll with a one-token request until it succeeds; seconds since `started`."""
    body = json.dumps({"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}).encode()
    request = urllib.request.Request(
        url + "/v1/completions", data=body, headers={"Content-Type": "application/json"}
    )
    while time.monotonic() - started < START_LIMIT_S:
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                response.read()
                return time.monotonic() - started
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.02)
    raise SystemExit(f"no first token from {url} within {START_LIMIT_S:.0f} s")


def run_round(command: str, model: str, load: str, shapes: list[Shape], log: Path) -> dict[str, Any]:
    """One server, all shapes, once."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("ab") as sink:
        started = time.monotonic()
        server = subprocess.Popen(
            shlex.split(command.format(port=port)), stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        figures: dict[str, Any] = {"first_token_s": first_token_s(url, model, started)}
        for shape in shapes:
            filled = load.format(
                url=url, model=model, conc=shape.concurrency, reqs=shape.requests,
                plen=shape.prompt_words, out=shape.output_tokens,
            )  # fmt: skip
            printed = subprocess.run(shlex.split(filled), capture_output=True, text=True, check=True).stdout
            figures[str(shape)] = json.loads(printed.strip().splitlines()[-1])
        figures["pss_mib"] = tree_pss_mib(server.pid)
        return figures
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def median_of(rounds: list[dict[str, Any]], *path: str) -> float:
    """Median over rounds of one figure."""
    values = []
    for figures in rounds:
        value: Any = figures
        for key in path:
            value = value[key]
        values.append(float(value))
    return statistics.median(values)


def report(results: dict[str, list[dict[str, Any]]], shapes: list[Shape]) -> str:
    """A Markdown table: one row per figure, one column per server, ratios of the first to the others."""
    names = list(results)
    rows: list[tuple[str, tuple[str, ...], bool]] = [
        ("process start to first token, s", ("first_token_s",), False),
        ("memory after the run, PSS of the tree, MiB", ("pss_mib",), False),
    ]
    for shape in shapes:
        rows.append((f"{shape}: output tok/s", (str(shape), "out_tok_s"), True))
        rows.append((f"{shape}: total tok/s", (str(shape), "total_tok_s"), True))
        rows.append((f"{shape}: TTFT p50, ms", (str(shape), "ttft_p50"), False))
        rows.append((f"{shape}: TPOT p50, ms", (str(shape), "tpot_p50"), False))
    head = ["figure", *names, *[f"{names[0]} / {other}" for other in names[1:]]]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for title, path, _ in rows:
        values = [median_of(results[name], *path) for name in names]
        ratios = [f"{values[0] / other:.2f}" if other else "-" for other in values[1:]]
        lines.append("| " + " | ".join([title, *[f"{value:.1f}" for value in values], *ratios]) + " |")
    return "\n".join(lines)


def cpu_model() -> str:
    """The CPU's name and family, as the kernel reports them."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return (
        f"{fields.get('model name')} (family {fields.get('cpu family')}, model {fields.get('model')}, "
        f"{os.cpu_count()} cores)"
    )


def main() -> None:
    """Parse, run the rounds, print the table, keep the raw figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument(
        "--load", required=True, help="load command; {url} {model} {conc} {reqs} {plen} {out}"
    )
    parser.add_argument("--shape", action="append", required=True, type=Shape.parse, metavar="C:R:P:O")
    parser.add_argument("--model", default="smollm2", help="model name sent in requests (default smollm2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write raw figures here")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="append the servers' output here")
    arguments = parser.parse_args()
    servers = dict(entry.split("=", 1) for entry in arguments.server)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for number in range(arguments.rounds):
        for name, command in servers.items():
            print(f"round {number + 1}/{arguments.rounds}: {name}", file=sys.stderr, flush=True)
            results[name].append(
                run_round(command, arguments.model, arguments.load, arguments.shape, arguments.log)
            )
            print(json.dumps(results[name][-1]), file=sys.stderr, flush=True)
    print(f"CPU: {cpu_model()}; rounds: {arguments.rounds}, medians\n")
    print(report(results, arguments.shape))
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_model(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
