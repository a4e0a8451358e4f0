"""Print the SHA-256 of a GGUF model's tensors as `transformers` (5.19, torch 2.13) reads them.

    python tests/oracle/hash_gguf_tensors.py FOLDER FILE.gguf

The digest runs over name and float32 bytes of each tensor of the file in order of name; the tied output
layer, which is no tensor of the file, is left out.
"""

import hashlib
import sys

import torch
from transformers import AutoModelForCausalLM


def main(folder: str, file: str) -> None:
    """Read the model and print the digest."""
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    tensors = model.state_dict()
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        digest.update(name.encode() + tensors[name].numpy().tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
