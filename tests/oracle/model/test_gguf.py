"""The default model's Q4_1 file: our logits against transformers on the same weights, dequantised."""

from pathlib import Path

import numpy as np
import pytest

from vllm_rs import _rust

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CONFIG_KEYS = (
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads"
    " max_position_embeddings rms_norm_eps tie_word_embeddings"
)


@pytest.fixture(scope="module")
def files(smollm2_path: Path) -> _rust.ModelFiles:
    return _rust.ModelFiles.open(str(smollm2_path))


@pytest.fixture(scope="module")
def oracle(files: _rust.ModelFiles) -> torch.nn.Module:
    """A Llama of transformers with the file's weights as float32."""
    taken = {key: files.config[key] for key in CONFIG_KEYS.split()}
    rope = {"rope_type": "default", "rope_theta": files.config["rope_theta"]}
    config = transformers.LlamaConfig(**taken, rope_parameters=rope)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
    state = {}
    for name in files.tensor_names():
        values = np.empty(files.tensor(name).shape, np.float32)
        files.read_f32(name, values)
        state[name] = torch.from_numpy(values)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert missing in ([], ["lm_head.weight"])
    model.tie_weights()
    return model


@pytest.mark.covers("MODEL-08")
def test_logits_of_the_q4_1_file_equal_the_dequantised_oracle(files, oracle, smollm2_path, exec_driver):
    assert files.format == "gguf"
    stored = {files.tensor(name).dtype for name in files.tensor_names()}
    assert "Q4_1" in stored
    tokenizer = _rust.Tokenizer.open(str(smollm2_path))
    driver = exec_driver.Driver(files, "cpu", "float32", threads=2, num_blocks=32)
    for text in ("The capital of France is Paris.", "def add(a, b):\n    return a + b\n", "Grüße aus Köln"):
        tokens = tokenizer.encode(text)
        with torch.no_grad():
            theirs = oracle(torch.tensor([tokens])).logits[0].numpy()
        ours = driver.logits(tokens)
        assert np.abs(ours - theirs).max() <= 1e-4 * theirs.std()
