"""Thread pool, instruction sets, random numbers, roofline."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kernel_program import Runner, i32, record
from kernel_reference import LlamaShape, LlamaWeights

from vllm_rs import _cpu


def test_philox_equals_the_published_vectors():
    """Random123's known answers for Philox4x32-10, reduced to the uniform number they give."""

    def uniform(word0, word1):
        return ((word0 << 21) | (word1 >> 11)) * 2.0**-53

    assert _cpu.philox_uniform(0, 0, 0) == uniform(0x6627E8D5, 0xE169C58D)


def test_philox_depends_on_each_coordinate_and_is_uniform():
    draws = np.array([_cpu.philox_uniform(7, position, 0) for position in range(20_000)])
    assert draws.min() >= 0 and draws.max() < 1
    counts, _ = np.histogram(draws, bins=50, range=(0, 1))
    assert ((counts - 400) ** 2 / 400).sum() < 95  # chi-squared, 49 degrees of freedom, p = 1e-4
    assert len({_cpu.philox_uniform(*at) for at in [(7, 0, 0), (8, 0, 0), (7, 1, 0), (7, 0, 1)]}) == 4


@pytest.mark.parametrize("seed", [-1, 2**64 - 1, -(2**63), 2**63])
def test_seeds_are_taken_modulo_two_to_the_64(seed):
    assert _cpu.philox_uniform(seed, 3, 0) == _cpu.philox_uniform(seed % 2**64, 3, 0)


def test_instruction_sets():
    available = _cpu.available_isas()
    features = _cpu.cpu_features()
    assert available[-1] == "scalar" and _cpu.selected_isa() in available
    assert ("avx512_bf16" in available) == features["avx512_bf16"]
    assert "amx" not in available or features["amx_bf16"]


def test_amx_is_off_until_it_has_run_on_its_hardware():
    assert _cpu.selected_isa() != "amx"


def test_steps_from_several_threads_take_turns():
    weights = LlamaWeights(LlamaShape(layers=1))
    pool = _cpu.ThreadPool(2)
    sequence = [i32(np.arange(30))]
    expected = Runner(record(pool, weights, "float32"), weights, sequence, "float32").whole(0, 7)
    runners = [Runner(record(pool, weights, "float32"), weights, sequence, "float32") for _ in range(16)]
    with ThreadPoolExecutor(4) as executor:
        for got in executor.map(lambda runner: runner.whole(0, 7), runners):
            np.testing.assert_array_equal(got, expected)


def test_pools_come_and_go():
    before = len(os.listdir("/proc/self/task"))
    for count in (1, 2, 3, 5) * 10:
        assert _cpu.ThreadPool(count).num_threads == count
    assert len(os.listdir("/proc/self/task")) == before


def test_pinned_pool_computes():
    pool = _cpu.ThreadPool(2, [0, 0])
    weight = np.eye(40, dtype=np.float32)
    np.testing.assert_array_equal(_cpu.PackedLinear.pack(pool, weight, "float32").unpack(), weight)


def test_roofline_is_positive(isa, pool):
    limits = _cpu.measure_roofline(pool, num_bytes=4 << 20, rounds=1)
    assert set(limits) == {"read_bytes_per_s", "bf16_flops_per_s", "f32_flops_per_s", "phase_s"}
    assert all(value > 0 for value in limits.values())
