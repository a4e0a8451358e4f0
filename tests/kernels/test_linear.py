"""Matrix products over packed weights: right for every shape, and bit-equal for every batch."""

import numpy as np
import pytest
from kernel_program import i32
from kernel_reference import from_bf16, round_bf16, to_bf16

from vllm_rs import _cpu

# in, out: whole tiles, tails of both kinds, odd in_features, one of each, the shapes of a small model.
SHAPES = [(64, 48), (96, 16), (33, 17), (1, 1), (7, 100), (100, 7), (576, 192), (257, 211)]
DTYPES = ["float32", "bfloat16"]


def run_linear(pool, weight, x, dtype, bias=None, out_dtype="float32", packed=None):
    """x @ weight.T + bias through a program; x enters by way of an embedding table."""
    packed = packed or _cpu.PackedLinear.pack(pool, weight, dtype, bias)
    program = _cpu.Program(pool, len(x), 1, 1)
    inputs = program.buffer("tokens", x.shape[1], dtype)
    out = program.buffer("tokens", packed.out_features, out_dtype)
    program.keep(out)
    program.embedding(inputs, _cpu.PackedLinear.pack(pool, x, dtype))
    program.linear(out, inputs, packed)
    program.finalize()
    rows = np.arange(len(x))
    program.run(None, i32(rows), i32(rows), i32([0, len(x)]), i32(np.zeros((1, 0))), i32([]))
    return program.read_buffer(out)


def random_case(shape, rows, seed=0):
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((shape[1], shape[0])).astype(np.float32)
    x = rng.standard_normal((rows, shape[0])).astype(np.float32)
    return weight, x, rng.standard_normal(shape[1]).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_numpy(isa, pool, shape, dtype):
    weight, x, bias = random_case(shape, 19)
    exact = (round_bf16(weight), round_bf16(x)) if dtype == "bfloat16" else (weight, x)
    expected = exact[1].astype(np.float64) @ exact[0].T + bias
    got = run_linear(pool, weight, x, dtype, bias)
    np.testing.assert_allclose(got, expected, atol=3e-6 * np.sqrt(shape[0]) * 4, rtol=1e-5)


def test_bf16_output_is_the_rounded_f32_output(isa, pool):
    weight, x, bias = random_case((64, 37), 5)
    wide = run_linear(pool, weight, x, "bfloat16", bias)
    narrow = run_linear(pool, weight, x, "bfloat16", bias, out_dtype="bfloat16")
    np.testing.assert_array_equal(narrow, round_bf16(wide))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_in_every_batch(isa, pool, single, dtype):
    shape = (100, 112) if isa in ("scalar", "amx_emulated") else (576, 400)
    weight, x, bias = random_case(shape, 137)
    whole = run_linear(pool, weight, x, dtype, bias)
    np.testing.assert_array_equal(run_linear(single, weight, x, dtype, bias), whole)
    for rows in (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100):
        np.testing.assert_array_equal(
            run_linear(pool, weight, x[:rows], dtype, bias), whole[:rows], str(rows)
        )


def test_large_batches_are_cut_into_pieces_that_fit_the_cache(pool):
    weight, x, _ = random_case((1536, 64), 512)
    whole = run_linear(pool, weight, x, "bfloat16")
    for first in (0, 100, 511):
        np.testing.assert_array_equal(
            run_linear(pool, weight, x[first : first + 1], "bfloat16"), whole[first][None]
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_pack_and_unpack(pool, shape):
    weight, _, bias = random_case(shape, 1)
    exact = _cpu.PackedLinear.pack(pool, weight, "float32", bias)
    np.testing.assert_array_equal(exact.unpack(), weight)
    rounded = _cpu.PackedLinear.pack(pool, weight, "bfloat16")
    np.testing.assert_array_equal(rounded.unpack(), round_bf16(weight))
    from_halves = _cpu.PackedLinear.pack(pool, to_bf16(weight), "bfloat16")
    np.testing.assert_array_equal(from_halves.unpack(), round_bf16(weight))
    widened = _cpu.PackedLinear.pack(pool, to_bf16(weight), "float32")
    np.testing.assert_array_equal(widened.unpack(), from_bf16(to_bf16(weight)))
    assert (exact.out_features, exact.in_features, exact.dtype) == (shape[1], shape[0], "float32")
    assert rounded.nbytes >= weight.size * 2


def test_rounding_keeps_infinities_and_nan(pool):
    weight = np.array([[np.inf, -np.inf, np.nan, 3.4e38, 1e-40]], np.float32)
    got = _cpu.PackedLinear.pack(pool, weight, "bfloat16").unpack()[0]
    assert got[0] == np.inf and got[1] == -np.inf and np.isnan(got[2]) and got[3] == np.inf
    assert 0 <= got[4] < 2e-40


def test_weights_packed_before_a_switch_stay_valid(pool):
    weight, x, bias = random_case((64, 48), 9)
    packed = _cpu.PackedLinear.pack(pool, weight, "bfloat16", bias)
    best = _cpu.selected_isa()
    try:
        results = []
        for name in _cpu.available_isas():
            _cpu.set_isa(name)
            results.append(run_linear(pool, weight, x, "bfloat16", packed=packed))
    finally:
        _cpu.set_isa(best)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], atol=1e-4)


@pytest.mark.parametrize("table_dtype", DTYPES)
@pytest.mark.parametrize("out_dtype", DTYPES)
def test_embedding_reads_the_packed_table(isa, pool, table_dtype, out_dtype):
    table = np.random.default_rng(3).standard_normal((50, 37)).astype(np.float32)
    program = _cpu.Program(pool, 8, 1, 1)
    out = program.buffer("tokens", 37, out_dtype)
    program.keep(out)
    program.embedding(out, _cpu.PackedLinear.pack(pool, table, table_dtype))
    program.finalize()
    ids = i32([49, 0, 17, 17, 31])
    program.run(None, ids, i32(np.arange(5)), i32([0, 5]), i32(np.zeros((1, 0))), i32([]))
    expected = table[ids]
    if "bfloat16" in (table_dtype, out_dtype):
        expected = round_bf16(expected)
    np.testing.assert_array_equal(program.read_buffer(out), expected)
