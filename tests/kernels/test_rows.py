"""Row-wise kernels against numpy, with columns that are no multiple of a vector."""

import numpy as np
import pytest
from kernel_program import i32
from kernel_reference import rms_norm, round_bf16, silu_mul

from vllm_rs import _cpu

COLS = [1, 16, 30, 64, 97, 576]
OUT = ["float32", "bfloat16"]


class Bench:
    """A program whose inputs are embedding tables, so that any rows can be fed to any call."""

    def __init__(self, pool, rows):
        self.pool, self.rows = pool, rows
        self.program = _cpu.Program(pool, rows, rows, 1)

    def feed(self, values, dtype="float32"):
        handle = self.program.buffer("tokens", values.shape[1], dtype)
        self.program.embedding(handle, _cpu.PackedLinear.pack(self.pool, values, dtype))
        return handle

    def out(self, cols, dtype="float32", rows="tokens"):
        handle = self.program.buffer(rows, cols, dtype)
        self.program.keep(handle)
        return handle

    def run(self, logit_rows=()):
        self.program.finalize()
        every = np.arange(self.rows)
        tables = i32(np.zeros((1, 0)))
        self.program.run(None, i32(every), i32(every), i32([0, self.rows]), tables, i32(logit_rows))
        return self.program.read_buffer


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got, expected, dtype):
    np.testing.assert_allclose(got, expected, rtol=1e-2 if dtype == "bfloat16" else 3e-6, atol=1e-6)


@pytest.mark.covers("MODEL-16")
@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("cols", COLS)
def test_rms_norm(isa, pool, cols, dtype):
    x, weight = normal(11, cols), normal(cols, seed=1)
    bench = Bench(pool, 11)
    out = bench.out(cols, dtype)
    bench.program.rms_norm(out, bench.feed(x), weight, 1e-5)
    close(bench.run()(out), rms_norm(x, weight, 1e-5), dtype)


@pytest.mark.covers("MODEL-16")
@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("cols", COLS)
def test_add_rms_norm_updates_the_residual(isa, pool, cols, dtype):
    x, branch, weight = normal(11, cols), normal(11, cols, seed=2), normal(cols, seed=1)
    bench = Bench(pool, 11)
    residual = bench.feed(x)
    bench.program.keep(residual)
    out = bench.out(cols, dtype)
    bench.program.add_rms_norm(out, residual, bench.feed(branch, dtype), weight, 1e-5)
    read = bench.run()
    added = x + (round_bf16(branch) if dtype == "bfloat16" else branch)
    np.testing.assert_array_equal(read(residual), added)
    close(read(out), rms_norm(added, weight, 1e-5), dtype)


def test_add(isa, pool):
    x, y = normal(9, 37), normal(9, 37, seed=4)
    bench = Bench(pool, 9)
    residual = bench.feed(x)
    bench.program.keep(residual)
    bench.program.add(residual, bench.feed(y))
    np.testing.assert_array_equal(bench.run()(residual), x + y)


@pytest.mark.covers("MODEL-16")
@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("cols", COLS)
def test_silu_mul(isa, pool, cols, dtype):
    gate_up = normal(11, 2 * cols) * np.float32(4)
    gate_up[0, 0], gate_up[1, 0] = 200.0, -200.0
    bench = Bench(pool, 11)
    out = bench.out(cols, dtype)
    bench.program.silu_mul(out, bench.feed(gate_up))
    close(bench.run()(out), silu_mul(gate_up), dtype)


@pytest.mark.parametrize("dtype", OUT)
def test_gather_rows(pool, dtype):
    x = round_bf16(normal(13, 41))
    bench = Bench(pool, 13)
    out = bench.out(41, dtype, "logit_rows")
    bench.program.gather_rows(out, bench.feed(x, dtype))
    rows = [12, 0, 5, 5]
    np.testing.assert_array_equal(bench.run(rows)(out), x[rows])


def test_zero_padding_protects_products_of_odd_widths(pool):
    """A bf16 row's tail is zero even where the buffer's memory held NaN before."""
    poison = np.full((4, 64), np.nan, np.float32)
    gate_up, weight = normal(4, 2 * 35), normal(8, 35, seed=6)
    bench = Bench(pool, 4)
    bench.program.silu_mul(bench.program.buffer("tokens", 32, "bfloat16"), bench.feed(poison))
    gated = bench.program.buffer("tokens", 35, "bfloat16")
    bench.program.silu_mul(gated, bench.feed(gate_up))
    out = bench.out(8)
    bench.program.linear(out, gated, _cpu.PackedLinear.pack(pool, weight, "bfloat16"))
    assert np.isfinite(bench.run()(out)).all()
