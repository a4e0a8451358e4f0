"""Speed of the CPU kernels against this machine's limits: matrix products by batch size, and whole steps.

    python benchmarks/micro/kernels.py --threads 2 --rounds 20

Shapes are SmolLM2-135M's, weights random. Every figure is that of the fastest round, as other work may
share the cores.
"""

import argparse
import json
import platform
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vllm_rs import _cpu

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 576, 1536, 30, 9, 3, 64, 49152
QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM
SHAPES = [
    (HIDDEN, QKV),
    (HIDDEN, HIDDEN),
    (HIDDEN, 2 * INTERMEDIATE),
    (INTERMEDIATE, HIDDEN),
    (HIDDEN, VOCAB),
]
STREAMED_BYTES = 96 << 20
"""Weights per measured program: enough that none stays in a cache."""

RNG = np.random.default_rng(0)


def i32(values: object) -> NDArray[np.int32]:
    return np.ascontiguousarray(values, np.int32)


def packed(pool: _cpu.ThreadPool, in_features: int, out_features: int, dtype: str) -> _cpu.PackedLinear:
    weight = RNG.standard_normal((out_features, in_features), np.float32) / np.float32(np.sqrt(in_features))
    return _cpu.PackedLinear.pack(pool, weight, dtype)


def best_trace(
    program: _cpu.Program, kv: _cpu.KVCache | None, step: tuple, rounds: int
) -> list[tuple[str, float]]:
    """(name, seconds) of each call in the fastest round.

    Calls are not mixed over rounds: while the caller is off its core another thread may do its work, and
    single calls then look free.
    """
    traces = [program.run_traced(kv, *step) for _ in range(rounds)]
    return min(traces, key=lambda trace: sum(seconds for _, seconds in trace))


def decode_step(batch: int, context: int, blocks: int, block_size: int = 16) -> tuple:
    cols = -(-context // block_size)
    tables = np.arange(batch * cols).reshape(batch, cols) % blocks
    return (
        i32(RNG.integers(0, VOCAB, batch)),
        i32(np.full(batch, context - 1)),
        i32(np.arange(batch + 1)),
        i32(tables),
        i32(np.arange(batch)),
    )


def prefill_step(tokens: int, block_size: int = 16) -> tuple:
    tables = np.arange(-(-tokens // block_size))[None]
    ids = RNG.integers(0, VOCAB, tokens)
    return i32(ids), i32(np.arange(tokens)), i32([0, tokens]), i32(tables), i32([tokens - 1])


def measure_matmul(pool: _cpu.ThreadPool, shape: tuple[int, int], rows: int, dtype: str, rounds: int) -> dict:
    in_features, out_features = shape
    element = 2 if dtype == "bfloat16" else 4
    copies = max(2, min(200, STREAMED_BYTES // (in_features * out_features * element)))
    program = _cpu.Program(pool, rows, 1, 1)
    table = packed(pool, in_features, 16, dtype)
    x = program.buffer("tokens", in_features, dtype)
    out = program.buffer("tokens", out_features, "float32")
    program.embedding(x, table)
    for _ in range(copies):
        program.linear(out, x, packed(pool, in_features, out_features, dtype))
    program.finalize()
    step = (i32(np.zeros(rows)), i32(np.arange(rows)), i32([0, rows]), i32(np.zeros((1, 1))), i32([]))
    calls = [seconds for name, seconds in best_trace(program, None, step, rounds) if name == "linear"]
    seconds = float(np.mean(calls))
    return {
        "shape": f"{in_features}->{out_features}",
        "rows": rows,
        "us": seconds * 1e6,
        "gbytes_per_s": in_features * out_features * element / seconds / 1e9,
        "gflop_per_s": 2 * in_features * out_features * rows / seconds / 1e9,
    }


def record_model(pool: _cpu.ThreadPool, dtype: str, max_tokens: int) -> _cpu.Program:
    program = _cpu.Program(pool, max_tokens, 64, 64)
    angles = np.arange(4096)[:, None] * 10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos_sin = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    gain = np.ones(HIDDEN, np.float32)
    embed = packed(pool, HIDDEN, VOCAB, dtype)
    residual = program.buffer("tokens", HIDDEN, "float32")
    normed = program.buffer("tokens", HIDDEN, dtype)
    qkv = program.buffer("tokens", QKV, "float32")
    attended = program.buffer("tokens", HIDDEN, dtype)
    branch = program.buffer("tokens", HIDDEN, "float32")
    gate_up = program.buffer("tokens", 2 * INTERMEDIATE, "float32")
    gated = program.buffer("tokens", INTERMEDIATE, dtype)
    program.embedding(residual, embed)
    for layer in range(LAYERS):
        if layer == 0:
            program.rms_norm(normed, residual, gain, 1e-5)
        else:
            program.add_rms_norm(normed, residual, branch, gain, 1e-5)
        program.linear(qkv, normed, packed(pool, HIDDEN, QKV, dtype))
        program.rope_kv_write(qkv, HEADS, KV_HEADS, HEAD_DIM, cos_sin, layer)
        program.attention(attended, qkv, HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM**-0.5, layer)
        program.linear(branch, attended, packed(pool, HIDDEN, HIDDEN, dtype))
        program.add_rms_norm(normed, residual, branch, gain, 1e-5)
        program.linear(gate_up, normed, packed(pool, HIDDEN, 2 * INTERMEDIATE, dtype))
        program.silu_mul(gated, gate_up)
        program.linear(branch, gated, packed(pool, INTERMEDIATE, HIDDEN, dtype))
    program.add_rms_norm(normed, residual, branch, gain, 1e-5)
    last = program.buffer("logit_rows", HIDDEN, dtype)
    program.gather_rows(last, normed)
    program.logits(last, embed)
    program.finalize()
    return program


def step_limit(limits: dict, weight_bytes: float, kv_bytes: float, flops: float, dtype: str) -> float:
    """Seconds below which the step cannot go: the slower of memory and arithmetic."""
    peak = limits["bf16_flops_per_s" if dtype == "bfloat16" else "f32_flops_per_s"]
    return max((weight_bytes + kv_bytes) / limits["read_bytes_per_s"], flops / peak)


def measure_steps(pool: _cpu.ThreadPool, limits: dict, dtype: str, rounds: int) -> list[dict]:
    element = 2 if dtype == "bfloat16" else 4
    program = record_model(pool, dtype, 512)
    kv = _cpu.KVCache(LAYERS, 4096, 16, KV_HEADS, HEAD_DIM, dtype)
    layer_weights = LAYERS * sum(i * o for i, o in SHAPES[:4])
    head_weights = HIDDEN * VOCAB
    results = []
    cases = [
        ("decode", 1, 256),
        ("decode", 1, 2048),
        ("decode", 8, 256),
        ("decode", 32, 256),
        ("prefill", 512, 512),
    ]
    for kind, rows, context in cases:
        step = decode_step(rows, context, 4096) if kind == "decode" else prefill_step(rows)
        logit_rows = rows if kind == "decode" else 1
        keys = rows * context if kind == "decode" else rows * (rows + 1) // 2
        kv_bytes = 2 * LAYERS * KV_HEADS * HEAD_DIM * element * (keys if kind == "decode" else rows)
        flops = 2.0 * layer_weights * rows + 2.0 * head_weights * logit_rows + 4.0 * LAYERS * HIDDEN * keys
        limit = step_limit(limits, (layer_weights + head_weights) * element, kv_bytes, flops, dtype)
        trace = best_trace(program, kv, step, rounds)
        seconds = sum(spent for _, spent in trace)
        by_call: dict[str, float] = {}
        for name, spent in trace:
            by_call[name] = by_call.get(name, 0.0) + spent * 1e3
        results.append(
            {
                "step": f"{kind} {rows} x ctx {context}",
                "dtype": dtype,
                "ms": seconds * 1e3,
                "tokens_per_s": rows / seconds,
                "limit_ms": limit * 1e3,
                "share_of_limit": limit / seconds,
                "ms_by_call": {name: round(spent, 3) for name, spent in by_call.items()},
            }
        )
    return results


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--isa", help="kernel set; default: the one chosen at import")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 4, 8, 16, 32, 128, 512])
    parser.add_argument("--json", type=Path, help="also write the results here")
    parser.add_argument("--only", choices=["matmul", "steps"])
    options = parser.parse_args()
    if options.isa:
        _cpu.set_isa(options.isa)
    pool = _cpu.ThreadPool(options.threads)
    limits = _cpu.measure_roofline(pool, rounds=max(5, options.rounds))
    report: dict = {
        "cpu": cpu_name(),
        "isa": _cpu.selected_isa(),
        "threads": options.threads,
        "limits": limits,
    }
    print(json.dumps(report))
    if options.only != "steps":
        report["matmul"] = []
        for shape in SHAPES:
            for rows in options.rows:
                if shape[1] == VOCAB and rows > 64:
                    continue
                result = measure_matmul(pool, shape, rows, options.dtype, options.rounds)
                report["matmul"].append(result)
                print(
                    f"{result['shape']:>12} rows {rows:4d}: {result['us']:9.1f} us "
                    f"{result['gbytes_per_s']:6.1f} GB/s {result['gflop_per_s']:7.1f} GFLOP/s"
                )
    if options.only != "matmul":
        report["steps"] = measure_steps(pool, limits, options.dtype, options.rounds)
        for step in report["steps"]:
            print(
                f"{step['step']:>22}: {step['ms']:8.2f} ms {step['tokens_per_s']:8.1f} tok/s, "
                f"{step['share_of_limit']:.2f} of the limit ({step['limit_ms']:.2f} ms) {step['ms_by_call']}"
            )
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
