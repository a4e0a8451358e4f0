"""Paged attention, rotary embedding and the KV write against naive numpy."""

import numpy as np
import pytest
from kernel_program import i32
from kernel_reference import attention, cos_sin_table, rope, round_bf16

from vllm_rs import _cpu

# heads, kv heads, head_dim
HEADS = [(9, 3, 64), (4, 4, 32), (8, 1, 80), (6, 2, 128), (3, 3, 16), (2, 1, 6)]
MAX_POSITIONS = 2048


class Layer:
    """One attention layer over a cache; qkv rows are given, not computed."""

    def __init__(
        self, pool, heads, qkv, *, kv_dtype="float32", block_size=16, rotary_dim=None, window=0, sequences=1
    ):
        self.heads, self.kv_heads, self.dim = heads
        self.qkv, self.window, self.kv_dtype = qkv, window, kv_dtype
        self.cos_sin = cos_sin_table(MAX_POSITIONS, rotary_dim or self.dim)
        program = _cpu.Program(pool, 512, 1, 8)
        rows = program.buffer("tokens", qkv.shape[1], "float32")
        self.out = program.buffer("tokens", self.heads * self.dim, "float32")
        program.keep(self.out)
        program.embedding(rows, _cpu.PackedLinear.pack(pool, qkv, "float32"))
        program.rope_kv_write(rows, *heads, self.cos_sin, 0)
        program.attention(self.out, rows, *heads, self.dim**-0.5, 0, window)
        program.finalize()
        self.program = program
        cols = -(-len(qkv) // block_size)
        self.tables = i32(np.arange(sequences * cols).reshape(sequences, cols))
        self.kv = _cpu.KVCache(1, sequences * cols, block_size, self.kv_heads, self.dim, kv_dtype)

    def step(self, chunks):
        """chunks of (sequence, first position, tokens); row = position in every sequence."""
        rows = np.concatenate([np.arange(first, first + n) for _, first, n in chunks])
        starts = np.cumsum([0] + [n for _, _, n in chunks])
        tables = i32(self.tables[[s for s, _, _ in chunks]])
        self.program.run(self.kv, i32(rows), i32(rows), i32(starts), tables, i32([]))
        return self.program.read_buffer(self.out)

    def whole(self, chunk):
        n = len(self.qkv)
        return np.concatenate([self.step([(0, at, min(chunk, n - at))]) for at in range(0, n, chunk)])

    def expected(self):
        n = len(self.qkv)
        heads = self.qkv.reshape(n, -1, self.dim)
        rotated = np.stack([rope(row, self.cos_sin[i]) for i, row in enumerate(heads)])
        q, k = rotated[:, : self.heads], rotated[:, self.heads : self.heads + self.kv_heads]
        v = heads[:, self.heads + self.kv_heads :].astype(np.float64)
        if self.kv_dtype == "bfloat16":
            q, k, v = (round_bf16(x.astype(np.float32)).astype(np.float64) for x in (q, k, v))
        return attention(q, k, v, np.arange(n), self.dim**-0.5, self.window).reshape(n, -1)


def random_qkv(heads, n, seed=0):
    cols = (heads[0] + 2 * heads[1]) * heads[2]
    return np.random.default_rng(seed).standard_normal((n, cols)).astype(np.float32)


@pytest.mark.covers("ATTN-03")
@pytest.mark.parametrize("kv_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("heads", HEADS)
def test_prefill_decode_and_mixed_batches_equal_naive(isa, pool, heads, kv_dtype):
    layer = Layer(pool, heads, random_qkv(heads, 77), kv_dtype=kv_dtype, sequences=3)
    expected = layer.expected()
    tolerance = {"float32": 2e-6, "bfloat16": 8e-3}[kv_dtype]
    whole = layer.whole(512)
    np.testing.assert_allclose(whole, expected, atol=tolerance)
    layer.step([(1, 0, 76), (2, 0, 40)])
    mixed = layer.step([(1, 76, 1), (2, 40, 37), (0, 76, 1)])
    np.testing.assert_array_equal(mixed, whole[[76, *range(40, 77), 76]])


@pytest.mark.parametrize("kv_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [1, 5, 64, 100, 600])
def test_sliding_window(isa, pool, window, kv_dtype):
    n = 150 if isa in ("scalar", "amx_emulated") else 700
    layer = Layer(pool, (2, 1, 16), random_qkv((2, 1, 16), n), window=window, kv_dtype=kv_dtype)
    whole = layer.whole(512)
    np.testing.assert_allclose(whole, layer.expected(), atol=5e-6 if kv_dtype == "float32" else 2e-2)
    np.testing.assert_array_equal(layer.whole(1), whole)


@pytest.mark.parametrize("rotary_dim", [2, 10, 16, 32])
def test_partial_rotary_dim(isa, pool, rotary_dim):
    layer = Layer(pool, (4, 2, 32), random_qkv((4, 2, 32), 40), rotary_dim=rotary_dim)
    np.testing.assert_allclose(layer.whole(512), layer.expected(), atol=2e-6)


@pytest.mark.parametrize("kv_dtype", ["float32", "bfloat16"])
def test_bits_do_not_depend_on_chunks_blocks_or_threads(isa, pool, single, kv_dtype):
    heads = (6, 2, 32)
    qkv = random_qkv(heads, 130 if isa in ("scalar", "amx_emulated") else 1100)
    whole = Layer(pool, heads, qkv, kv_dtype=kv_dtype).whole(512)
    for block_size in (8, 16, 24, 32, 64):
        layer = Layer(pool, heads, qkv, kv_dtype=kv_dtype, block_size=block_size)
        np.testing.assert_array_equal(layer.whole(37), whole, f"block size {block_size}")
    for threads in (pool, single):
        np.testing.assert_array_equal(Layer(threads, heads, qkv, kv_dtype=kv_dtype).whole(1), whole)


@pytest.mark.covers("ATTN-04")
@pytest.mark.parametrize("kv_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("block_size", [8, 16, 32])
def test_shuffled_block_tables_are_bit_equal(pool, kv_dtype, block_size):
    heads = (9, 3, 64)
    qkv = random_qkv(heads, 300)
    layer = Layer(pool, heads, qkv, kv_dtype=kv_dtype, block_size=block_size)
    straight = layer.whole(64)
    for seed in range(3):
        shuffled = Layer(pool, heads, qkv, kv_dtype=kv_dtype, block_size=block_size)
        shuffled.tables = i32(np.random.default_rng(seed).permutation(shuffled.tables[0])[None])
        np.testing.assert_array_equal(shuffled.whole(64), straight)


def test_stale_nan_in_a_block_is_never_seen(pool):
    heads = (4, 2, 16)
    qkv = random_qkv(heads, 21)
    for kv_dtype in ("float32", "bfloat16"):
        layer = Layer(pool, heads, qkv, kv_dtype=kv_dtype)
        clean = layer.whole(4)
        poison = np.full((16, 2, 16), np.nan, np.float32)
        for block in range(2):
            layer.kv.write(0, block, poison, poison)
        np.testing.assert_array_equal(layer.whole(3), clean)


def test_cache_holds_rotated_keys_and_plain_values(isa, pool):
    heads = (4, 2, 32)
    layer = Layer(pool, heads, random_qkv(heads, 19), kv_dtype="bfloat16", block_size=8)
    layer.whole(5)
    rows = layer.qkv.reshape(19, 8, 32)
    for position in range(19):
        k, v = layer.kv.read(0, int(layer.tables[0, position // 8]))
        expected = rope(rows[position], layer.cos_sin[position])[4:6]
        np.testing.assert_allclose(k[position % 8], expected, rtol=8e-3, atol=1e-6)
        np.testing.assert_array_equal(v[position % 8], round_bf16(rows[position, 6:]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("block_size", [8, 16, 24, 64])
def test_read_returns_what_was_written(dtype, block_size):
    kv = _cpu.KVCache(3, 5, block_size, 2, 10, dtype)
    rng = np.random.default_rng(0)
    k, v = (round_bf16(rng.standard_normal((block_size, 2, 10)).astype(np.float32)) for _ in range(2))
    kv.write(2, 4, k, v)
    got = kv.read(2, 4)
    np.testing.assert_array_equal(got[0], k)
    np.testing.assert_array_equal(got[1], v)
    assert not kv.read(1, 4)[0].any() and not kv.read(2, 3)[1].any()


def test_cache_memory_is_backed_as_it_is_touched():
    kv = _cpu.KVCache(30, 10_000, 16, 3, 64, "bfloat16")
    block_stride, layer_stride = kv.strides
    assert (block_stride, layer_stride) == (30 * layer_stride, 2 * 16 * 3 * 64 * 2)
    assert kv.nbytes == 10_000 * block_stride and kv.resident_bytes() == 0
    zeros = np.zeros((16, 3, 64), np.float32)
    for layer in range(30):
        kv.write(layer, 7, zeros, zeros)
    assert block_stride <= kv.resident_bytes() <= block_stride + 2 * 4096
