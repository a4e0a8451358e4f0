"""The recorded program: purity of the recording, weights as in the file, both ways to run it, no torch."""

import ctypes
import logging

import numpy as np
import pytest

from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.exec.backend import StepLimits
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.exec.step import StepArrays
from vllm_rs.models.loader import CheckpointLoader, build_model
from vllm_rs.models.memory_source import random_source
from vllm_rs.wire import SamplingParams

_cpu = pytest.importorskip("vllm_rs._cpu")


class MallInfo(ctypes.Structure):
    """glibc's mallinfo2."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "mapped_bytes")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "in_use_bytes", "fordblks", "keepcost")),
    )


LIMITS = StepLimits(max_tokens=64, max_logit_rows=8, max_sequences=8, max_model_len=512)


def loaded(config, dtype="float32"):
    from vllm_rs.exec.cpu_backend import CpuBackend

    source = random_source(config)
    model, backend = build_model(source, None), CpuBackend(dtype, dtype, 1)
    model.load_weights(CheckpointLoader(source, backend))
    return model, backend, source


def test_recording_a_model_twice_gives_the_same_program(llama_config):
    from vllm_rs.exec.cpu_backend import record

    model, _, _ = loaded(llama_config)
    pool = _cpu.ThreadPool(1)
    first, second = (record(model, pool, LIMITS, "float32") for _ in range(2))
    assert first[0].describe() == second[0].describe()
    assert first[1] == second[1]
    assert len(first[0].describe()) == first[0].num_ops


def test_program_grows_by_the_same_calls_per_layer(llama_config):
    from vllm_rs.exec.cpu_backend import record

    pool = _cpu.ThreadPool(1)
    sizes = [
        record(loaded({**llama_config, "num_hidden_layers": count})[0], pool, LIMITS, "float32")[0].num_ops
        for count in (1, 2, 4)
    ]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


@pytest.mark.covers("EXEC-18")
def test_packed_weights_hold_the_bfloat16_values_of_the_file(llama_config):
    model, _, source = loaded({**llama_config, "tie_word_embeddings": True}, "bfloat16")
    for param in model.params():
        packed = model.weights[param.name]
        if not hasattr(param, "sources"):
            np.testing.assert_array_equal(packed, source._tensors[param.source])
            continue
        stored = np.empty((param.out_features, param.in_features), np.uint16)
        row = 0
        for name, rows in param.sources:
            source.read_bf16(name + ".weight", stored[row : row + rows])
            row += rows
        unpacked = packed.unpack()
        np.testing.assert_array_equal(unpacked.view(np.uint32) >> 16, stored)
        assert not (unpacked.view(np.uint32) & 0xFFFF).any()


@pytest.mark.covers("EXEC-27", "GRAPH-07")
def test_eager_and_replayed_steps_are_counted_logged_and_equal(llama_config, exec_driver, caplog):
    outputs = {}
    for eager in (False, True):
        driver = exec_driver.Driver(random_source(llama_config), "cpu", eager=eager)
        request = exec_driver.Request([1, 2, 3, 4, 5], num_tokens=12)
        driver.generate([request], chunk=2)
        outputs[eager] = request.output
        counters = driver.runner.counters
        assert (counters.replayed == 0, counters.eager == 0) == (eager, not eager)
        with caplog.at_level(logging.INFO, logger="vllm_rs.exec.local"):
            LocalExecutor(EngineConfig.from_keywords(enforce_eager=eager), random_source(llama_config))
    assert outputs[True] == outputs[False]
    assert "call by call (enforce_eager)" in caplog.text
    assert "recorded program, one native call per step" in caplog.text


@pytest.mark.covers("GRAPH-03")
def test_a_thousand_replays_allocate_nothing(llama_config, exec_driver):
    glibc = ctypes.CDLL(None)
    glibc.mallinfo2.restype = MallInfo
    driver = exec_driver.Driver(random_source(llama_config), "cpu", threads=2)
    request = exec_driver.Request([1, 2, 3, 4, 5], num_tokens=1)
    driver.generate([request])
    row = np.zeros(1, np.int32)
    step = StepArrays(row, row, np.array([0, 1], np.int32), (row[None],), row, row)
    backend = driver.runner.backend
    for _ in range(10):
        backend.forward(step)
    view = backend.logits().ctypes.data
    before = glibc.mallinfo2()
    for _ in range(1000):
        backend.forward(step)
    after = glibc.mallinfo2()
    assert after.in_use_bytes - before.in_use_bytes < 4096
    assert after.mapped_bytes == before.mapped_bytes
    assert backend.logits().ctypes.data == view, "results are read from a fixed place"


def test_prompt_logprobs_equal_teacher_forced_logits_in_any_chunking(llama_config, exec_driver):
    prompt = np.random.default_rng(2).integers(0, 131, 50).tolist()
    params = SamplingParams(temperature=0.0, logprobs=1, prompt_logprobs=3)
    results = []
    for chunk, max_logit_rows in ((None, 64), (7, 4)):
        source = random_source(llama_config)
        driver = exec_driver.Driver(source, "cpu", max_logit_rows=max_logit_rows, max_sequences=4)
        request = exec_driver.Request(prompt, params, num_tokens=3)
        neighbour = exec_driver.Request(prompt[::-1], num_tokens=3)
        driver.generate([neighbour, request], chunk=chunk)
        results.append([(entry.token_ids, entry.logprobs, entry.rank) for entry in request.prompt_logprobs])
    assert results[0] == results[1]
    logits = exec_driver.Driver(random_source(llama_config), "cpu").logits(prompt).astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert len(results[0]) == len(prompt) - 1
    for position, (tokens, values, rank) in enumerate(results[0]):
        assert tokens[0] == prompt[position + 1]
        assert tokens[1:] == np.argsort(-logits[position], kind="stable")[:3].tolist()
        np.testing.assert_allclose(values, expected[position][tokens], atol=1e-4)
        assert rank == 1 + (logits[position] > logits[position][tokens[0]]).sum()


def test_an_absent_instruction_set_is_refused_by_flag(llama_config):
    from vllm_rs.exec.cpu_backend import CpuBackend

    with pytest.raises(ConfigError, match=r"--cpu-isa: this CPU offers .*scalar.*, got neon"):
        CpuBackend("float32", "float32", 1, "neon")


def test_serving_on_cpu_imports_neither_torch_nor_transformers(run_python):
    code = """
        import sys
        from vllm_rs.config import EngineConfig
        from vllm_rs.exec.local import LocalExecutor
        from vllm_rs.models.memory_source import random_source
        from vllm_rs.sched.plan import NewRequest, ScheduledRow, StepPlan
        from vllm_rs.wire import SamplingParams

        config = dict(architectures=["LlamaForCausalLM"], hidden_size=32, intermediate_size=64,
                      num_hidden_layers=1, num_attention_heads=2, vocab_size=50, max_position_embeddings=64)
        executor = LocalExecutor(EngineConfig.from_keywords(cpu_threads=1), random_source(config))
        executor.initialize(), executor.allocate_kv_cache(4, 16), executor.warm_up()
        new = NewRequest("a", 0, [1, 2], [], SamplingParams(), 0, [[1]], 0)
        row = ScheduledRow(0, 0, [1, 2], num_sampled_rows=1)
        assert len(executor.submit(StepPlan(1, [], [new], [row])).result().rows[0].token_ids) == 1
        print(sorted({"torch", "transformers", "triton"} & set(sys.modules)))
    """
    assert run_python(code).strip() == "[]"
