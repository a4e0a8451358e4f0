"""Architectures to classes; a model in one file, as the guide shows it."""

import numpy as np
import pytest

from vllm_rs.errors import ModelError
from vllm_rs.models import registry
from vllm_rs.models.base import CausalLM, HiddenState
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.models.memory_source import MemorySource
from vllm_rs.models.ops import AttentionShape
from vllm_rs.models.params import LinearParam, VectorParam
from vllm_rs.models.registry import (
    UnsupportedArchitectureError,
    get_supported_archs,
    register_model,
    resolve_model_class,
)


class SimpleModelForCausalLM(CausalLM):
    """Embedding, norm, head: a model in one class."""

    def __init__(self, config, max_model_len=None):
        self.hidden_size, self.vocab_size = config["hidden_size"], config["vocab_size"]
        self.num_layers, self.longest_context = 1, config["max_position_embeddings"]
        self.max_model_len = max_model_len or self.longest_context
        self.attention_shape = AttentionShape(1, 1, self.hidden_size, 1.0)

    def params(self):
        return [
            LinearParam("embed", (("embed", self.vocab_size),), self.hidden_size, shard_dim=0),
            VectorParam("norm", "norm.weight", self.hidden_size),
            LinearParam("mix", (("mix", self.hidden_size),), self.hidden_size),
            LinearParam("head", (("head", self.vocab_size),), self.hidden_size, bias=True, shard_dim=0),
        ]

    def kv_cache_specs(self, dtype):
        return [KVCacheSpec(1, self.hidden_size, dtype)]

    def embed(self, ops):
        return HiddenState(ops.embedding(self.weights["embed"]))

    def layers(self, ops, state, first, last):
        for _ in range(first, last):
            hidden = ops.rms_norm(state.residual, self.weights["norm"], 1e-6)
            ops.add(state.residual, ops.linear(hidden, self.weights["mix"]))
        return state

    def head(self, ops, state):
        rows = ops.rms_norm(ops.gather_rows(state.residual), self.weights["norm"], 1e-6)
        ops.logits(rows, self.weights["head"])


@pytest.fixture
def simple_registered():
    register_model("SimpleModelForCausalLM")(SimpleModelForCausalLM)
    yield
    del registry._classes["SimpleModelForCausalLM"]


def simple_source():
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    tensors = {
        "embed.weight": normal(31, 16),
        "norm.weight": normal(16),
        "mix.weight": normal(16, 16),
        "head.weight": normal(31, 16),
        "head.bias": normal(31),
    }
    config = {
        "architectures": ["SimpleModelForCausalLM"],
        "hidden_size": 16,
        "vocab_size": 31,
        "max_position_embeddings": 64,
    }
    return MemorySource(config, tensors), tensors


def simple_logits(tensors, tokens):
    def norm(x):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * tensors["norm.weight"]

    x = tensors["embed.weight"][tokens]
    x = x + norm(x) @ tensors["mix.weight"].T
    return norm(x) @ tensors["head.weight"].T + tensors["head.bias"]


@pytest.mark.covers("MODEL-05")
def test_a_model_in_one_file_is_served(simple_registered, exec_driver, backend):
    source, tensors = simple_source()
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    driver = exec_driver.Driver(source, backend, num_blocks=8)
    expected = simple_logits(tensors, tokens)
    np.testing.assert_allclose(driver.logits(tokens, chunk=3), expected, atol=1e-4)
    request = exec_driver.Request(prompt=tokens, num_tokens=5)
    driver.generate([request], chunk=3)
    text = list(tokens)
    for token in request.output:
        assert token == simple_logits(tensors, text)[-1].argmax()
        text.append(token)


def test_unknown_architecture_names_near_matches_and_what_is_supported():
    with pytest.raises(
        UnsupportedArchitectureError, match=r"not supported; near matches: LlamaForCausalLM"
    ) as caught:
        resolve_model_class(["LamaForCausalLM"])
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ModelError)
    assert "MistralForCausalLM" in caught.value.hint
    with pytest.raises(UnsupportedArchitectureError, match=r"config\.json names none"):
        resolve_model_class([])


def test_supported_archs_are_sorted_and_each_resolves():
    names = get_supported_archs()
    assert names == sorted(names)
    assert {"LlamaForCausalLM", "MistralForCausalLM"} <= set(names)
    for name in names:
        assert resolve_model_class(["NoSuchModel", name]) is resolve_model_class([name])
