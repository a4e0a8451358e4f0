"""What start-up reports about memory, against what the process really takes. Each case has a process of its
own.
"""

import json
import sys
import textwrap

import pytest

from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.models.memory_source import random_source

PRELUDE = """
import json
import numpy as np
from vllm_rs.config import EngineConfig
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.exec.process_memory import resident_bytes
from vllm_rs.exec.step import StepArrays
from vllm_rs.models.memory_source import random_source

config = dict(
    architectures=["LlamaForCausalLM"], hidden_size=512, intermediate_size=2048, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=4, vocab_size=32000, max_position_embeddings=2048,
)
limits = dict(max_num_seqs=64, max_num_batched_tokens=512)
executor = LocalExecutor(EngineConfig.from_keywords(cpu_threads=1, **limits), random_source(config))
executor.initialize()
backend = executor.runner.backend
"""


@pytest.fixture
def measured(run_python):
    pytest.importorskip("vllm_rs._cpu")
    return lambda body: json.loads(run_python(PRELUDE + textwrap.dedent(body)))


@pytest.mark.covers("EXEC-20")
def test_allocated_cache_grows_to_its_budget_line_once_every_block_is_touched(measured):
    result = measured("""
        num_blocks, block_size = 2048, 16
        budget = sum(spec.bytes_per_block(block_size) for spec in executor.kv_cache_spec()) * num_blocks
        before = resident_bytes()
        executor.allocate_kv_cache(num_blocks, block_size)
        reserved = resident_bytes() - before
        zeros = np.zeros((block_size, 4, 64), np.float32)
        for layer in range(4):
            for block in range(num_blocks):
                backend.kv_cache.write(layer, block, zeros, zeros)
        print(json.dumps(dict(budget=budget, reserved=reserved, touched=resident_bytes() - before)))
    """)
    assert result["reserved"] < 0.05 * result["budget"], "the cache is address space until it is used"
    assert 0.95 <= result["touched"] / result["budget"] <= 1.05


@pytest.mark.covers("EXEC-19")
def test_profiled_peak_is_that_of_a_full_load(measured):
    result = measured("""
        report = executor.memory_report()
        profiled = resident_bytes()
        executor.allocate_kv_cache(4096, 16)
        executor.warm_up()
        for first in range(0, 1024, 8):  # 64 sequences, 512 tokens a step, contexts up to 1,024
            count = 64
            tables = np.arange(count * 64, dtype=np.int32).reshape(count, 64)
            positions = np.tile(np.arange(first, first + 8, dtype=np.int32), count)
            starts = np.arange(0, 8 * count + 1, 8, dtype=np.int32)
            rows = np.arange(count, dtype=np.int32)
            tokens = np.zeros(8 * count, np.int32)
            backend.forward(StepArrays(tokens, positions, starts, (tables,), starts[1:] - 1, rows))
        loaded = resident_bytes() - backend.kv_cache.resident_bytes()
        weights = report.weights_bytes
        print(json.dumps(dict(profiled=profiled, loaded=loaded, weights=weights,
                              growth=report.profiled_peak_bytes, workspace=report.workspace_bytes)))
    """)
    assert 0.8 <= result["profiled"] / result["loaded"] <= 1.2
    assert result["growth"] <= 1.2 * result["workspace"]


@pytest.mark.covers("EXEC-17")
def test_an_unusable_device_is_one_line_that_names_it(llama_config, monkeypatch):
    for device, module in (("torch", "torch"), ("cpu", "vllm_rs._cpu")):
        for name in [
            name for name in sys.modules if name.startswith(("vllm_rs.exec.torch", "vllm_rs.exec.ops"))
        ]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delitem(sys.modules, "vllm_rs.exec.cpu_backend", raising=False)
        monkeypatch.setitem(sys.modules, module, None)
        executor = LocalExecutor(EngineConfig.from_keywords(device=device), random_source(llama_config))
        with pytest.raises(ConfigError, match=f"--device {device} needs {module}") as caught:
            executor.initialize()
        assert "\n" not in str(caught.value)
        monkeypatch.undo()
