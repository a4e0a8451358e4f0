"""A random Llama of two layers with a byte tokenizer, made in milliseconds; `transformers` loads it too."""

import json
from pathlib import Path
from typing import Any

import numpy as np

IM_START, IM_END, VOCAB_SIZE = 256, 257, 258
MAX_MODEL_LEN = 512
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 64, 96, 2, 4, 2, 16

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": MAX_MODEL_LEN,
    "tie_word_embeddings": False,
    "bos_token_id": IM_START,
    "eos_token_id": IM_END,
    "torch_dtype": "float32",
}


def _byte_vocabulary() -> dict[str, int]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}


def _tokenizer() -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": IM_START, "content": "<|im_start|>", "special": True, **flags},
            {"id": IM_END, "content": "<|im_end|>", "special": True, **flags},
        ],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": _byte_vocabulary(), "merges": []},
    }


def _weights(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    weights = {
        "model.embed_tokens.weight": random.standard_normal((VOCAB_SIZE, HIDDEN)).astype(np.float32),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        # A peaked distribution, so that no greedy choice is a coin toss between summation orders.
        "lm_head.weight": matrix(VOCAB_SIZE, HIDDEN) * 4,
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights |= {
            prefix + "input_layernorm.weight": np.ones(HIDDEN, np.float32),
            prefix + "post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
            prefix + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            prefix + "mlp.gate_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            prefix + "mlp.up_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            prefix + "mlp.down_proj.weight": matrix(HIDDEN, INTERMEDIATE),
        }
    return weights


def write_tiny_llama(folder: Path, seed: int = 0) -> Path:
    """Write config, tokenizer and float32 safetensors into `folder` and return it."""
    for name, content in {
        "config.json": CONFIG,
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {"eos_token": "<|im_end|>"},
    }.items():
        (folder / name).write_text(json.dumps(content))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in _weights(seed).items():
        start = len(data)
        data += values.tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder
