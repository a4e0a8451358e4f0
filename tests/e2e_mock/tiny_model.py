"""A model folder with a byte-level tokenizer and a chat template, and no weights: all a frontend needs."""

import json
from pathlib import Path
from typing import Any

IM_START, IM_END, VOCAB_SIZE = 256, 257, 258
MAX_MODEL_LEN = 4096

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _byte_characters() -> dict[str, int]:
    """The character that byte-level tokenizers write for each byte."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}


def _added(token_id: int, text: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": text, "special": True, **flags}


def write_tiny_model(folder: Path) -> Path:
    """Write the files of the model into `folder` and return it."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [_added(IM_START, "<|im_start|>"), _added(IM_END, "<|im_end|>")],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": _byte_characters(), "merges": []},
    }
    config = {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": MAX_MODEL_LEN,
        "eos_token_id": IM_END,
    }
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"eos_token": "<|im_end|>", "chat_template": TEMPLATE},
        "config.json": config,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    empty_header = b"{}      "
    (folder / "model.safetensors").write_bytes(len(empty_header).to_bytes(8, "little") + empty_header)
    return folder
