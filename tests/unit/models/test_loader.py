"""Checkpoints to packed weights: names and shapes checked first, one scratch array, progress."""

import numpy as np
import pytest

from vllm_rs.errors import ModelError
from vllm_rs.models.loader import CheckpointLoader, build_model
from vllm_rs.models.memory_source import MemorySource, random_source, round_to_bf16

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 33,
    "attention_bias": True,
}


class KeepingPacker:
    """Keeps copies of what it is given."""

    def __init__(self, compute_dtype="float32"):
        self.compute_dtype = compute_dtype

    def pack_linear(self, weight, bias):
        return weight.copy(), None if bias is None else bias.copy()

    def pack_vector(self, values):
        return values


def load(source, packer=None, progress=None):
    model = build_model(source, None)
    model.load_weights(CheckpointLoader(source, packer or KeepingPacker(), progress))
    return model


def tensors_of(source):
    return {name: source._tensors[name] for name in source.tensor_names()}


def test_projections_are_stacked_in_order_with_their_biases():
    source = random_source(CONFIG)
    tensors = tensors_of(source)
    weight, bias = load(source).weights["layers.1.qkv"]
    attention = "model.layers.1.self_attn."
    np.testing.assert_array_equal(
        weight, np.concatenate([tensors[f"{attention}{p}_proj.weight"] for p in "qkv"])
    )
    np.testing.assert_array_equal(bias, np.concatenate([tensors[f"{attention}{p}_proj.bias"] for p in "qkv"]))


def test_bfloat16_packers_get_rounded_bits():
    source = random_source(CONFIG)
    weight, _ = load(source, KeepingPacker("bfloat16")).weights["layers.0.down"]
    stored = tensors_of(source)["model.layers.0.mlp.down_proj.weight"]
    assert weight.dtype == np.uint16
    np.testing.assert_array_equal(weight, round_to_bf16(stored))


def test_progress_counts_every_matrix_once():
    seen = []
    load(random_source(CONFIG), progress=lambda done, total: seen.append((done, total)))
    total = seen[-1][1]
    assert seen == [(done, total) for done in range(total + 1)]


def test_missing_unknown_and_misshaped_tensors_are_named():
    source = random_source(CONFIG)
    tensors = tensors_of(source)
    norm = tensors.pop("model.norm.weight")
    tensors["model.layers.7.mlp.up_proj.weight"] = norm
    tensors["lm_head.weight"] = np.zeros((33, 15), np.float32)
    with pytest.raises(ModelError) as caught:
        load(MemorySource(CONFIG, tensors))
    message = str(caught.value)
    assert "missing tensors: model.norm.weight" in message
    assert "unknown tensors: model.layers.7.mlp.up_proj.weight" in message
    assert "lm_head.weight has shape (33, 15), expected (33, 16)" in message


def test_tied_head_and_stored_frequencies_are_passed_over():
    config = {**CONFIG, "tie_word_embeddings": True}
    tensors = tensors_of(random_source(config))
    assert "lm_head.weight" not in tensors
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    model = load(MemorySource(config, tensors))
    assert "lm_head" not in model.weights


def test_frequency_factors_of_a_gguf_divide_the_frequencies():
    tensors = tensors_of(random_source(CONFIG))
    plain = load(MemorySource(CONFIG, tensors)).cos_sin
    halved = load(MemorySource(CONFIG, {**tensors, "rope_freqs.weight": np.full(4, 2.0, np.float32)})).cos_sin
    np.testing.assert_allclose(halved[2 * np.arange(100)], plain[:100], atol=1e-6)


def test_weights_declare_how_they_are_sharded():
    shards = {
        param.name: getattr(param, "shard_dim", None)
        for param in build_model(random_source(CONFIG), None).params()
    }
    assert [shards[f"layers.0.{name}"] for name in ("qkv", "o", "gate_up", "down")] == [0, 1, 0, 1]
    assert shards["embed_tokens"] == shards["lm_head"] == 0
    assert shards["norm"] is None
