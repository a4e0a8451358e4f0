"""Fuzz the HTTP server over the mock engine: mutated requests end in 2xx or a declared 4xx, soon.

    python -m tests.e2e_mock.fuzz_http [COUNT] [--seed N] [--url http://host:port]

Without `--url` a mock server of its own is started. The exit code is 0 when nothing was found.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

DECLARED = {400, 401, 404, 405, 413, 415, 422, 429}
TIME_LIMIT_S = 2.0
GROWTH_LIMIT = 1.05
SLICES = 21
CLIENTS = 8

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
SEEDS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}),
    ("POST", "/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2, "n": 2, "stop": ["x"]}),
    (
        "POST",
        "/v1/chat/completions",
        {**CHAT, "temperature": 0.5, "top_p": 0.9, "seed": 1, "logit_bias": {"5": 1}},
    ),
    ("POST", "/v1/completions", {"prompt": "hello", "max_tokens": 4, "echo": True, "logprobs": 1}),
    ("POST", "/v1/completions", {"prompt": [[1, 2], [3]], "max_tokens": 2, "min_tokens": 1, "top_k": 4}),
    ("POST", "/v1/completions", {"prompt": ["a", "b"], "max_tokens": 3, "stream": True, "bad_words": ["q"]}),
    ("POST", "/tokenize", {"prompt": "some text", "add_special_tokens": True}),
    ("POST", "/tokenize", {"messages": CHAT["messages"], "add_generation_prompt": True}),
    ("POST", "/detokenize", {"tokens": [1, 2, 3]}),
    ("GET", "/v1/models", {}),
    ("GET", "/metrics", {}),
]
SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 4, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.5, 1e308, 1e-308,
    "", "a", "\x00", "\ud800", "é✓𝄞", "x" * 3000, "<|im_end|>", "{{ 7 * 7 }}", "../../etc/passwd",
    [], {}, [[]], [None], [1, "a"], {"type": "text"}, {"role": "user"}, [[[[[[1]]]]]],
]  # fmt: skip
NAMES = [
    "model", "messages", "prompt", "n", "best_of", "suffix", "stop", "stop_token_ids", "tools", "tool_choice",
    "response_format", "guided_json", "logprobs", "top_logprobs", "prompt_logprobs", "logit_bias", "seed",
    "allowed_token_ids", "bad_words", "min_p", "repetition_penalty", "presence_penalty", "ignore_eos", "role",
    "truncate_prompt_tokens", "continue_final_message", "add_generation_prompt", "chat_template_kwargs",
    "content", "priority", "cache_salt", "request_id", "stream", "stream_options", "return_token_ids",
    "documents", "unknown",
]  # fmt: skip


@dataclass
class Findings:
    """What went wrong, and how often each status came."""

    statuses: dict[int, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[place for key, inner in items for place in _places(inner, (*path, key))]]


def _mutate(rng: random.Random, body: Any) -> Any:
    """Change, add or remove one value somewhere. `max_tokens` stays small, so that answers stay short."""
    body = json.loads(json.dumps(body))
    place = rng.choice(_places(body))
    target = body
    for key in place[:-1]:
        target = target[key]
    action = rng.random()
    if place and action < 0.5:
        target[place[-1]] = rng.choice(SCALARS)
    elif place and action < 0.6 and isinstance(target, dict):
        del target[place[-1]]
    elif place and action < 0.7 and isinstance(target, list):
        target.extend(target * rng.randrange(1, 40))
    elif isinstance(body, dict):
        body[rng.choice(NAMES)] = rng.choice(SCALARS)
    if isinstance(body, dict) and "max_tokens" in body and isinstance(body["max_tokens"], int):
        body["max_tokens"] = min(body["max_tokens"], 4)
    return body


def _bytes_of(rng: random.Random, body: Any) -> bytes:
    data = json.dumps(body).encode("utf-8", "surrogatepass")
    action = rng.random()
    if action < 0.1 and data:
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        return bytes(damaged)
    if action < 0.15:
        return data[: rng.randrange(len(data) + 1)]
    if action < 0.16:
        depth = rng.randrange(100, 20_000)
        return b'{"messages": ' + b"[" * depth + b"]" * depth + b"}"
    return data


def make_request(rng: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    """Method, path, body and headers of one mutated request."""
    method, path, body = rng.choice(SEEDS)
    for _ in range(rng.randrange(1, 4)):
        body = _mutate(rng, body)
    headers = {"content-type": "application/json"}
    if rng.random() < 0.02:
        method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "BREW"])
    if rng.random() < 0.02:
        path = rng.choice(["/", "/v1", path + "/", path + "?x=%00", "/v1/models/%2e%2e/x", "/" + "a" * 3000])
    if rng.random() < 0.02:
        headers["content-type"] = rng.choice(["text/plain", "", "application/json; charset=latin-1"])
    if rng.random() < 0.05:
        headers["x-request-id"] = rng.choice(["a b", "x" * 500, "ok-1", "%00"])
    return method, path, b"" if method == "GET" else _bytes_of(rng, body), headers


async def _one(client: httpx.AsyncClient, rng: random.Random, findings: Findings) -> None:
    method, path, body, headers = make_request(rng)
    what = f"{method} {path[:80]} {body[:400]!r}"
    started = time.monotonic()
    try:
        answer = await client.request(method, path, content=body, headers=headers)
    except httpx.HTTPError as error:
        findings.faults.append(f"{type(error).__name__}: {what}")
        return
    elapsed_s = time.monotonic() - started
    findings.slowest_s = max(findings.slowest_s, elapsed_s)
    findings.statuses[answer.status_code] = findings.statuses.get(answer.status_code, 0) + 1
    if answer.status_code not in DECLARED and not 200 <= answer.status_code < 300:
        findings.faults.append(f"status {answer.status_code}: {what}: {answer.text[:300]}")
    elif elapsed_s > TIME_LIMIT_S:
        findings.faults.append(f"took {elapsed_s:.1f} s: {what}")
    elif answer.status_code >= 400 and method != "HEAD" and "message" not in answer.json().get("error", {}):
        findings.faults.append(f"no error object: {what}: {answer.text[:300]}")


async def fuzz(url: str, count: int, seed: int) -> Findings:
    """Send `count` mutated requests from several clients at once."""
    findings = Findings()

    async def client_loop(number: int) -> None:
        rng = random.Random(seed * 1_000_003 + number)
        async with httpx.AsyncClient(base_url=url, timeout=10) as client:
            for _ in range(count // CLIENTS + (number < count % CLIENTS)):
                await _one(client, rng, findings)

    await asyncio.gather(*[client_loop(number) for number in range(CLIENTS)])
    return findings


def growth(server: Any, url: str, count: int, seed: int) -> tuple[Findings, float]:
    """Fuzz in 21 slices, the first to warm up; compare the median memory of the last ten and those before.

    Medians, because the allocator gives memory back when it likes: single readings of a server that keeps
    nothing lie between 32 and 65 MiB, and what leaks shows in every later one.
    """
    total = Findings()
    rss_bytes = []
    for part in range(SLICES):
        slice_count = count // SLICES + (part < count % SLICES)
        found = asyncio.run(fuzz(url, slice_count, seed * SLICES + part))
        rss_bytes.append(server.rss_bytes())
        for status, number in found.statuses.items():
            total.statuses[status] = total.statuses.get(status, 0) + number
        total.faults += found.faults
        total.slowest_s = max(total.slowest_s, found.slowest_s)
    half = SLICES // 2
    return total, statistics.median(rss_bytes[-half:]) / statistics.median(rss_bytes[1 : half + 1])


def main() -> int:
    """Run from the command line."""
    from tests.e2e_mock.serving import MockServer
    from tests.e2e_mock.tiny_model import VOCAB_SIZE, write_tiny_model

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", help="fuzz this server instead of a new one (memory is not watched)")
    parser.add_argument("--binary", default=os.environ.get("VLLM_RS_TEST_BINARY", "vllm-rs"))
    args = parser.parse_args()
    if args.url:
        findings, ratio = asyncio.run(fuzz(args.url, args.count, args.seed)), 1.0
    else:
        with tempfile.TemporaryDirectory() as folder:
            model = write_tiny_model(Path(folder))
            flags = ["--mock-echo", f"--mock-vocab-size={VOCAB_SIZE}", "--mock-max-model-len=4096"]
            with MockServer(Path(args.binary), model, *flags, log=Path(folder) / "log") as server:
                findings, ratio = growth(server, server.url, args.count, args.seed)
    statuses = dict(sorted(findings.statuses.items()))
    print(f"statuses {statuses}, slowest {findings.slowest_s:.2f} s, memory x{ratio:.3f}")
    for fault in findings.faults[:20]:
        print(fault)
    return int(bool(findings.faults) or ratio > GROWTH_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
