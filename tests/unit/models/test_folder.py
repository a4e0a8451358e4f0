"""Model folders through the native reader: a registered toy class, and a Llama, serve what the files say."""

import json

import numpy as np
import pytest

from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.errors import ModelError
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.models import registry
from vllm_rs.models.llama import LlamaForCausalLM
from vllm_rs.models.memory_source import random_source
from vllm_rs.sched.plan import NewRequest, ScheduledRow, StepPlan
from vllm_rs.wire import SamplingParams

pytest.importorskip("vllm_rs._rust")


def write_folder(folder, config, tensors):
    """config.json and one safetensors file of float32 tensors."""
    (folder / "config.json").write_text(json.dumps(config))
    header, data = {}, b""
    for name, values in tensors.items():
        start = len(data)
        data += np.ascontiguousarray(values, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture
def echo_registered():
    """A Llama that adds nothing to the embedding but the norm: its own class, in a few lines."""

    @registry.register_model("EchoForCausalLM", "OtherEchoForCausalLM")
    class EchoForCausalLM(LlamaForCausalLM):
        def params(self):
            return [p for p in super().params() if not p.name.startswith("layers.")]

        def layers(self, ops, state, first, last):
            return state

    yield EchoForCausalLM
    for name in ("EchoForCausalLM", "OtherEchoForCausalLM"):
        del registry._classes[name]


@pytest.mark.covers("MODEL-01")
@pytest.mark.parametrize("architecture", ["EchoForCausalLM", "OtherEchoForCausalLM"])
def test_a_toy_class_registered_here_serves_its_folder(
    echo_registered, tmp_path, llama_config, backend, architecture
):
    config = {**llama_config, "architectures": [architecture], "tie_word_embeddings": True}
    embedding = np.random.default_rng(0).standard_normal((131, 64)).astype(np.float32)
    write_folder(tmp_path, config, {"model.embed_tokens.weight": embedding, "model.norm.weight": np.ones(64)})
    settings = EngineConfig.from_keywords(model=str(tmp_path), device=backend, dtype="float32")
    executor = LocalExecutor(settings)
    executor.initialize()
    executor.allocate_kv_cache(4, 16)
    executor.warm_up()
    assert isinstance(executor.runner.model, echo_registered)
    new = NewRequest("a", 0, [17, 90], [], SamplingParams(temperature=0.0), 0, [[0]], 0)
    plan = StepPlan(1, [], [new], [ScheduledRow(0, 0, [17, 90], num_sampled_rows=1)])
    assert executor.submit(plan).result().rows[0].token_ids == [90]  # nearest to itself
    executor.shutdown()


def test_a_llama_folder_equals_the_same_weights_in_memory(tmp_path, llama_config, exec_driver, backend):
    from vllm_rs import _rust

    source = random_source(llama_config)
    tensors = {name: source._tensors[name] for name in source.tensor_names()}
    write_folder(tmp_path, llama_config, tensors)
    tokens = [1, 5, 9, 2, 6]
    from_files = exec_driver.Driver(_rust.ModelFiles.open(str(tmp_path)), backend).logits(tokens)
    assert np.array_equal(from_files, exec_driver.Driver(source, backend).logits(tokens))


def test_a_missing_model_and_the_wrong_format_are_one_line_each(tmp_path, llama_config):
    with pytest.raises(ModelError, match=r"nowhere: no such file or folder") as caught:
        LocalExecutor(EngineConfig.from_keywords(model=str(tmp_path / "nowhere")))
    assert "--model takes a folder" in caught.value.hint
    source = random_source(llama_config)
    write_folder(tmp_path, llama_config, {name: source._tensors[name] for name in source.tensor_names()})
    with pytest.raises(ConfigError, match=r"--load-format gguf: .* holds safetensors"):
        LocalExecutor(EngineConfig.from_keywords(model=str(tmp_path), load_format="gguf"))
