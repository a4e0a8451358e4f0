"""The default model's own file: fetched once, or the one that VLLM_RS_TEST_MODEL names."""

import hashlib
import os
import time

import numpy as np
import pytest

from vllm_rs._rust import ModelFiles

# Of all tensors' float32 bytes in order of name, as transformers 5.19 reads the same file (equal bit by
# bit, every tensor): printed by tests/oracle/hash_gguf_tensors.py.
ORACLE_SHA256 = "785e20b3e653276b0579b744214a1186d730ba80af04f397f642d6432e5e0154"


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> ModelFiles:
    """The opened file."""
    given = os.environ.get("VLLM_RS_TEST_MODEL")
    return ModelFiles.open(given or str(request.getfixturevalue("smollm2_path")))


def test_metadata_is_the_published_configuration(model: ModelFiles) -> None:
    expected = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "intermediate_size": 1536,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    assert {key: model.config[key] for key in expected} == expected
    assert len(model.tensor_names()) == 272


def test_every_tensor_equals_the_oracle_bit_by_bit(model: ModelFiles) -> None:
    digest = hashlib.sha256()
    for name in sorted(model.tensor_names()):
        out = np.empty(model.tensor(name).shape, dtype=np.float32)
        model.read_f32(name, out)
        digest.update(name.encode() + out.tobytes())
    assert digest.hexdigest() == ORACLE_SHA256


def test_the_whole_model_is_unpacked_in_a_blink(model: ModelFiles) -> None:
    outputs = {name: np.zeros(model.tensor(name).shape, dtype=np.uint16) for name in model.tensor_names()}
    best_s = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for name, out in outputs.items():
            model.read_bf16(name, out)
        best_s = min(best_s, time.perf_counter() - start)
    assert best_s < 1.0, "0.05 s on two idle cores; this bound is for busy ones"
