"""The recorded program: equal to the reference model, bit-equal in every batching, free of allocation."""

import ctypes

import numpy as np
import pytest
from kernel_program import Runner, i32, record
from kernel_reference import LlamaShape, LlamaWeights

from vllm_rs import _cpu

DTYPES = ["float32", "bfloat16"]
WEIGHTS = LlamaWeights(LlamaShape())
LENGTHS = (40, 130, 75)


def sequences(lengths=LENGTHS, seed=1):
    rng = np.random.default_rng(seed)
    return [i32(rng.integers(0, WEIGHTS.shape.vocab, n)) for n in lengths]


@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_equal_the_reference_model(isa, pool, dtype):
    runner = Runner(record(pool, WEIGHTS, dtype), WEIGHTS, sequences(), dtype)
    for index, tokens in enumerate(runner.sequences):
        expected = WEIGHTS.logits(tokens)
        error = np.abs(runner.whole(index, 512) - expected).max() / expected.std()
        assert error < {"float32": 1e-5, "bfloat16": 5e-2}[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sequence_has_the_same_bits_in_every_batching(isa, pool, single, dtype):
    """Alone or among 31 others; by 1, 16 or all tokens; blocks of 8, 16, 32; 1 or 2 threads; shuffled."""
    many = sequences([33] * 32)
    baseline = Runner(record(single, WEIGHTS, dtype), WEIGHTS, many, dtype)
    alone = [baseline.whole(i, 512) for i in range(32)]
    for threads, block_size, shuffle in ((single, 8, None), (pool, 16, 3), (pool, 32, None)):
        program = record(threads, WEIGHTS, dtype)
        runner = Runner(program, WEIGHTS, many, dtype, block_size, shuffle)
        for chunk in (1, 16):
            np.testing.assert_array_equal(runner.whole(5, chunk), alone[5])
        runner = Runner(program, WEIGHTS, many, dtype, block_size, shuffle)
        runner.step([(i, 0, 5 + i % 7) for i in range(32)])
        runner.step([(i, 5 + i % 7, 27 - i % 7) for i in range(16)])
        runner.step([(i, 5 + i % 7, 27 - i % 7) for i in range(16, 32)])
        last = runner.step([(i, 32, 1) for i in range(32)])
        np.testing.assert_array_equal(last, np.stack([rows[32] for rows in alone]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_contexts_split_over_threads_keep_their_bits(pool, single, dtype):
    long = sequences([1300])
    whole = Runner(record(single, WEIGHTS, dtype), WEIGHTS, long, dtype).whole(0, 512)
    three = _cpu.ThreadPool(3)
    for threads in (pool, three):
        runner = Runner(record(threads, WEIGHTS, dtype), WEIGHTS, long, dtype)
        runner.whole(0, 512)
        for position in (511, 512, 1023, 1024, 1299):
            got = runner.step([(0, position, 1)])
            np.testing.assert_array_equal(got[0], whole[position])


def test_another_process_order_or_seed_does_not_matter(pool):
    """Two recordings of one model are the same program and give the same bits."""
    first, second = record(pool, WEIGHTS, "bfloat16"), record(pool, WEIGHTS, "bfloat16")
    assert first.describe() == second.describe()
    assert first.num_ops == len(first.describe()) and first.workspace_bytes == second.workspace_bytes
    outputs = [Runner(p, WEIGHTS, sequences(), "bfloat16").whole(1, 64) for p in (first, second)]
    np.testing.assert_array_equal(*outputs)


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd"]]
    _fields_ += [
        (name, ctypes.c_size_t) for name in ["usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    ]


@pytest.mark.covers("GRAPH-03")
def test_a_thousand_replays_allocate_nothing(pool):
    """Inputs go to fixed buffers and outputs come from fixed ones: the allocator's count stays flat."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo2
    program = record(pool, WEIGHTS, "bfloat16")
    runner = Runner(program, WEIGHTS, sequences(), "bfloat16")
    step = (i32([1, 2]), i32([0, 0]), i32([0, 1, 2]), runner.tables[:2].copy(), i32([0, 1]))
    address = program.logits_view().ctypes.data
    for _ in range(10):
        program.run(runner.kv, *step)
    mapped_before = _cpu.allocation_count()

    def growth_over(replays):
        before = libc.mallinfo2()
        for _ in range(replays):
            program.run(runner.kv, *step)
        after = libc.mallinfo2()
        return after.uordblks - before.uordblks, after.hblkhd - before.hblkhd

    # Other threads of the test process allocate now and then; a replay that did would show in every window.
    assert (0, 0) in [growth_over(1000) for _ in range(5)]
    assert _cpu.allocation_count() == mapped_before
    assert program.logits_view().ctypes.data == address


def test_profile_run_needs_no_cache(pool):
    """Without a cache, attention sees the step's own rows: whole sequences from position 0 are exact."""
    tokens = sequences()[1]
    program = record(pool, WEIGHTS, "float32")
    every = i32(np.arange(tokens.size))
    no_tables = i32(np.zeros((2, 0)))
    starts = i32([0, 50, tokens.size])
    positions = i32(np.concatenate([np.arange(50), np.arange(tokens.size - 50)]))
    program.run(None, tokens, positions, starts, no_tables, every)
    expected = np.concatenate([WEIGHTS.logits(tokens[:50]), WEIGHTS.logits(tokens[50:])])
    np.testing.assert_allclose(program.logits_view(), expected, atol=1e-4)


def test_replaying_in_parts_equals_replaying_at_once(pool):
    runner = Runner(record(pool, WEIGHTS, "float32"), WEIGHTS, sequences(), "float32")
    whole = runner.step([(0, 0, 40)])
    tokens, rows = runner.sequences[0], i32(np.arange(40))
    step = (tokens, rows, i32([0, 40]), runner.tables[:1].copy(), rows)
    for op in range(runner.program.num_ops):
        runner.program.run(runner.kv, *step, first_op=op, last_op=op)
    np.testing.assert_array_equal(runner.program.logits_view(), whole)


def test_trace_names_every_call(pool):
    runner = Runner(record(pool, WEIGHTS, "float32"), WEIGHTS, sequences(), "float32")
    rows = i32(np.arange(40))
    trace = runner.program.run_traced(
        runner.kv, runner.sequences[0], rows, i32([0, 40]), runner.tables[:1].copy(), rows
    )
    assert [line.split("(")[0] for line in runner.program.describe()] == [name for name, _ in trace]
    assert all(seconds >= 0 for _, seconds in trace)


def test_planned_memory_is_shared_by_buffers_that_never_live_together(pool):
    def workspace(layers):
        return record(pool, LlamaWeights(LlamaShape(layers=layers)), "float32").workspace_bytes

    assert workspace(6) == workspace(2)


def test_an_empty_step_does_nothing(pool):
    runner = Runner(record(pool, WEIGHTS, "float32"), WEIGHTS, sequences(), "float32")
    empty = i32([])
    runner.program.run(runner.kv, empty, empty, i32([0]), i32(np.zeros((0, 4))), empty)
    assert runner.program.logits_view().shape == (0, WEIGHTS.shape.vocab)


def test_logits_only_for_the_rows_that_ask(pool):
    runner = Runner(record(pool, WEIGHTS, "float32"), WEIGHTS, sequences(), "float32")
    whole = runner.step([(0, 0, 40)])
    rows = i32(np.arange(40))
    runner.program.run(
        runner.kv, runner.sequences[0], rows, i32([0, 40]), runner.tables[:1].copy(), i32([39, 0])
    )
    np.testing.assert_array_equal(runner.program.logits_view(), whole[[39, 0]])
