"""Nothing Python can pass crashes the kernels: it is refused, naming the argument, before anything runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_program import Runner, i32, record
from kernel_reference import LlamaShape, LlamaWeights

from vllm_rs import _cpu

WEIGHTS = LlamaWeights(LlamaShape(layers=1))
POOL = _cpu.ThreadPool(2)
RUNNER = Runner(
    record(POOL, WEIGHTS, "bfloat16", max_tokens=32, max_sequences=4),
    WEIGHTS,
    [i32(np.arange(20)), i32(np.arange(20))],
    "bfloat16",
)


def good_step():
    return {
        "token_ids": i32([1, 2, 3, 4]),
        "positions": i32([0, 1, 2, 5]),
        "query_start": i32([0, 3, 4]),
        "block_tables": RUNNER.tables.copy(),
        "logit_rows": i32([2, 3]),
    }


BAD_STEPS = [
    ("token_ids", i32([1, 2, 3, 211]), r"token_ids\[3\]: expected 0 to 210, got 211"),
    ("token_ids", i32([-1, 2, 3, 4]), r"token_ids\[0\]"),
    ("token_ids", np.zeros(4, np.int64), "token_ids: expected a C-contiguous int32"),
    ("token_ids", i32(np.zeros((2, 2))), "token_ids"),
    ("token_ids", i32(np.zeros(33)), r"len\(token_ids\): expected 0 to 32, got 33"),
    ("positions", i32([0, 1, 2]), r"len\(positions\): expected 4, got 3"),
    ("positions", i32([0, 1, 3, 5]), r"positions\[2\]: expected one more"),
    ("positions", i32([0, 1, 2, -5]), r"positions\[3\]"),
    ("positions", i32([0, 1, 2, 2048]), r"positions\[3\]: expected 0 to 2047, got 2048"),
    ("positions", i32([0, 1, 2, 100]), "block_tables: expected at least 7 columns for sequence 1, got 2"),
    ("query_start", i32([0, 4, 3, 4]), r"query_start\[2\]"),
    ("query_start", i32([1, 3, 4]), r"query_start\[0\]: expected 0, got 1"),
    ("query_start", i32([0, 3, 5]), r"query_start\[-1\]: expected 4, got 5"),
    ("query_start", i32([]), "query_start"),
    ("query_start", i32([0, 1, 2, 3, 4, 4]), r"len\(query_start\) - 1: expected 0 to 4, got 5"),
    ("block_tables", i32([[9, 9], [9, 9]]), r"block_tables\[0, 0\]: expected 0 to 6, got 9"),
    ("block_tables", i32([[-1, 0], [1, 2]]), r"block_tables\[0, 0\]"),
    ("block_tables", i32([[0, 1]]), "block_tables"),
    ("block_tables", i32([[0, 1], [2, 3]]).T, "not contiguous"),
    ("logit_rows", i32([4]), r"logit_rows\[0\]: expected 0 to 3, got 4"),
    ("logit_rows", i32(np.zeros(33)), r"len\(logit_rows\)"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD_STEPS)
def test_a_bad_step_names_its_argument(name, value, message):
    RUNNER.program.run(RUNNER.kv, **good_step())
    with pytest.raises(ValueError, match=message):
        RUNNER.program.run(RUNNER.kv, **{**good_step(), name: value})


INTEGERS = st.integers(-3, 40) | st.sampled_from([-(2**31), 2**31 - 1])


@settings(max_examples=1500)
@given(
    st.lists(INTEGERS, max_size=6),
    st.lists(INTEGERS, max_size=6),
    st.lists(INTEGERS, max_size=5),
    st.lists(st.lists(INTEGERS, min_size=2, max_size=2), max_size=4),
    st.lists(INTEGERS, max_size=4),
    st.booleans(),
)
def test_random_metadata_runs_or_raises(token_ids, positions, query_start, tables, logit_rows, cached):
    step = (
        i32(token_ids),
        i32(positions),
        i32(query_start),
        i32(np.reshape(tables, (-1, 2))),
        i32(logit_rows),
    )
    try:
        RUNNER.program.run(RUNNER.kv if cached else None, *step)
    except ValueError as error:
        assert "expected" in str(error)


@settings(max_examples=300)
@given(st.sampled_from(sorted(good_step())), st.integers(0, 3), INTEGERS)
def test_one_changed_number_runs_or_raises(name, index, value):
    step = good_step()
    step[name].flat[index % step[name].size] = value
    try:
        RUNNER.program.run(RUNNER.kv, **step)
    except ValueError as error:
        assert "expected" in str(error)


def test_a_cache_of_another_shape_is_refused():
    for shape, name in (((1, 4, 16, 1, 16), "num_kv_heads"), ((1, 4, 16, 2, 32), "head_dim")):
        with pytest.raises(ValueError, match=name):
            RUNNER.program.run(_cpu.KVCache(*shape, "bfloat16"), **good_step())
    two_layers = record(POOL, LlamaWeights(LlamaShape(layers=2)), "bfloat16")
    with pytest.raises(ValueError, match="num_layers"):
        two_layers.run(RUNNER.kv, **good_step())


def program():
    return _cpu.Program(POOL, 8, 8, 2)


def pack(rows, cols, dtype="float32"):
    return _cpu.PackedLinear.pack(POOL, np.zeros((rows, cols), np.float32), dtype)


def test_recording_checks_shapes_dtypes_and_order():
    p = program()
    x = p.buffer("tokens", 32, "float32")
    y = p.buffer("tokens", 16, "float32")
    half = p.buffer("tokens", 32, "bfloat16")
    rows = p.buffer("logit_rows", 32, "float32")
    gain = np.ones(32, np.float32)
    with pytest.raises(ValueError, match="x: expected a buffer that an earlier call wrote"):
        p.rms_norm(half, x, gain, 1e-5)
    p.embedding(x, pack(10, 32))
    p.embedding(half, pack(10, 32))
    cases = [
        (lambda: p.buffer("rows", 4, "float32"), "rows"),
        (lambda: p.buffer("tokens", 0, "float32"), "cols"),
        (lambda: p.buffer("tokens", 4, "float16"), "dtype"),
        (lambda: p.embedding(y, pack(10, 32)), "out: expected a buffer of 32 columns, got 16"),
        (lambda: p.embedding(99, pack(10, 32)), "out: expected 0 to 3, got 99"),
        (lambda: p.rms_norm(y, x, gain, 1e-5), "out"),
        (lambda: p.rms_norm(half, x, np.ones(31, np.float32), 1e-5), "weight"),
        (lambda: p.rms_norm(half, x, np.ones(32), 1e-5), "weight: expected a C-contiguous float32"),
        (lambda: p.rms_norm(half, half, gain, 1e-5), "x: expected a float32 buffer, got bfloat16"),
        (lambda: p.rms_norm(rows, x, gain, 1e-5), "out: expected a buffer with one row per tokens"),
        (lambda: p.add_rms_norm(x, x, half, gain, 1e-5), "out: expected another buffer than residual"),
        (lambda: p.linear(y, x, pack(16, 31)), "x: expected a buffer of 31 columns, got 32"),
        (lambda: p.linear(y, half, pack(16, 32)), "x: expected a float32 buffer, got bfloat16"),
        (lambda: p.linear(half, x, pack(16, 32)), "out: expected a buffer of 16 columns, got 32"),
        (lambda: p.linear(x, x, pack(32, 32)), "out: expected another buffer than x"),
        (lambda: p.silu_mul(x, x), "out: expected a buffer of 16 columns, got 32"),
        (lambda: p.gather_rows(x, x), "out: expected a buffer with one row per logit_rows"),
        (lambda: p.rope_kv_write(x, 2, 1, 8, np.ones((4, 6, 1), np.float32), 0), "cos_sin"),
        (
            lambda: p.rope_kv_write(x, 2, 1, 8, np.ones((4, 10), np.float32), 0),
            "cos_sin: expected 2 to 8, got 10",
        ),
        (
            lambda: p.rope_kv_write(x, 3, 1, 8, np.ones((4, 8), np.float32), 0),
            "qkv: expected a float32 tokens",
        ),
        (
            lambda: p.rope_kv_write(x, 3, 2, 8, np.ones((4, 8), np.float32), 0),
            "num_heads: expected a multiple",
        ),
        (lambda: p.attention(y, x, 2, 1, 7, 1.0, 0), "head_dim"),
        (lambda: p.attention(y, x, 2, 1, 8, 1.0, 0, -1), "sliding_window"),
        (lambda: p.logits(x, pack(10, 32)), "x: expected a buffer with one row per logit_rows"),
        (lambda: p.keep(7), "handle"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()


def test_state_errors():
    p = program()
    step = (i32([]), i32([]), i32([0]), i32(np.zeros((0, 1))), i32([]))
    with pytest.raises(RuntimeError, match="not finalized"):
        p.run(None, *step)
    x = p.buffer("tokens", 8, "float32")
    p.embedding(x, pack(4, 8))
    p.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        p.buffer("tokens", 8, "float32")
    with pytest.raises(RuntimeError, match="finalized"):
        p.finalize()
    with pytest.raises(ValueError, match="handle: expected a buffer marked by keep"):
        p.read_buffer(x)


def test_other_constructors_check_their_arguments():
    weight = np.zeros((4, 4), np.float32)
    cases = [
        (lambda: _cpu.ThreadPool(0), "num_threads"),
        (lambda: _cpu.ThreadPool(2, [0]), "pin_cpus"),
        (lambda: _cpu.ThreadPool(1, [100_000]), "pin_cpus"),
        (lambda: _cpu.PackedLinear.pack(POOL, weight.astype(np.float64), "float32"), "weight"),
        (lambda: _cpu.PackedLinear.pack(POOL, np.zeros((8, 8), np.float32)[::2], "float32"), "weight"),
        (lambda: _cpu.PackedLinear.pack(POOL, weight, "float16"), "dtype"),
        (lambda: _cpu.PackedLinear.pack(POOL, weight, "float32", np.zeros(5, np.float32)), "bias"),
        (lambda: _cpu.PackedLinear.pack(POOL, np.zeros((0, 4), np.float32), "float32"), "weight"),
        (lambda: _cpu.KVCache(1, 1, 12, 1, 16, "float32"), "block_size: expected a multiple of 8, got 12"),
        (lambda: _cpu.KVCache(1, 1, 16, 1, 15, "float32"), "head_dim"),
        (lambda: _cpu.KVCache(1, 2**60, 16, 1, 16, "float32"), "num_blocks"),
        (lambda: _cpu.KVCache(1, 1, 16, 1, 16, "float32").read(1, 0), "layer"),
        (lambda: _cpu.KVCache(1, 1, 16, 1, 16, "float32").read(0, 1), "block"),
        (lambda: _cpu.Program(POOL, 0, 1, 1), "max_tokens"),
        (lambda: _cpu.set_isa("sse9"), "name: expected one of .*scalar"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
