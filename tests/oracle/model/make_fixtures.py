"""Makes the SmolLM2 oracle fixtures with transformers in float32, from the GGUF as dequantised there.

    python make_fixtures.py GGUF_FILE [OUT_DIR]

greedy.npz  100 prompts x 64 greedy tokens (end-of-text ignored), the top-2 gap of every step,
            and the argmax after every token of prompt + output.
kl.npz      for a spread of those positions, the 512 largest log-probabilities: enough for
            KL(oracle || ours) with everything else as one bucket.
"""

import os
import sys
from pathlib import Path

import numpy as np
import prompts
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NUM_OUTPUT_TOKENS = 64
NUM_KL_POSITIONS_PER_PROMPT = 8
TOP_K = 512


def encode_prompts(tokenizer) -> list[list[int]]:
    """Token ids of every prompt, chat ones through the template."""
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=True, add_generation_prompt=True, return_dict=False
        )
        for text in prompts.CHAT
    ]
    raw = [tokenizer.encode(text, add_special_tokens=False) for text in prompts.RAW]
    return [list(ids) for ids in chats + raw]


@torch.inference_mode()
def greedy(model, prompt: list[int]) -> tuple[list[int], np.ndarray]:
    """(output ids, logits [len(prompt) + NUM_OUTPUT_TOKENS - 1, vocab] after every token but the last)."""
    out = model(torch.tensor([prompt]), use_cache=True)
    rows, tokens = [out.logits[0]], []
    for _ in range(NUM_OUTPUT_TOKENS):
        tokens.append(int(rows[-1][-1].argmax()))
        if len(tokens) < NUM_OUTPUT_TOKENS:
            out = model(torch.tensor([[tokens[-1]]]), past_key_values=out.past_key_values, use_cache=True)
            rows.append(out.logits[0])
    return tokens, torch.cat(rows).numpy()


def top_logprobs(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ids uint16 [rows, TOP_K], log-probabilities float32 [rows, TOP_K]), largest first."""
    exact = logits.astype(np.float64)
    peak = exact.max(axis=1, keepdims=True)
    normalised = exact - peak - np.log(np.exp(exact - peak).sum(axis=1, keepdims=True))
    ids = np.argsort(-normalised, axis=1, kind="stable")[:, :TOP_K]
    return ids.astype(np.uint16), np.take_along_axis(normalised, ids, axis=1).astype(np.float32)


def main(gguf: Path, out_dir: Path) -> None:
    """Write both fixture files."""
    torch.set_num_threads(int(os.environ.get("ORACLE_THREADS", "1")))
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    encoded = encode_prompts(tokenizer)
    outputs, gaps, argmaxes = [], [], []
    kl_prompt, kl_row, kl_ids, kl_logprobs = [], [], [], []
    for index, prompt in enumerate(encoded):
        tokens, logits = greedy(model, prompt)
        top2 = np.sort(np.partition(logits[-NUM_OUTPUT_TOKENS:], -2, axis=1)[:, -2:], axis=1)
        outputs.append(tokens)
        gaps.append(top2[:, 1] - top2[:, 0])
        argmaxes.append(logits.argmax(axis=1))
        rows = np.unique(np.linspace(0, len(logits) - 1, NUM_KL_POSITIONS_PER_PROMPT).astype(int))
        ids, logprobs = top_logprobs(logits[rows])
        kl_prompt.append(np.full(len(rows), index)), kl_row.append(rows)
        kl_ids.append(ids), kl_logprobs.append(logprobs)
        print(index, len(prompt), repr(tokenizer.decode(tokens)[:60]), flush=True)
    out_dir.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        out_dir / "greedy.npz",
        prompt_ids=np.concatenate(encoded).astype(np.uint16),
        prompt_lens=np.array([len(p) for p in encoded], np.int32),
        output_ids=np.array(outputs, np.uint16),
        top2_gap=np.array(gaps, np.float32),
        argmax=np.concatenate(argmaxes).astype(np.uint16),
    )
    np.savez_compressed(
        out_dir / "kl.npz",
        prompt=np.concatenate(kl_prompt).astype(np.int32),
        row=np.concatenate(kl_row).astype(np.int32),
        ids=np.concatenate(kl_ids),
        logprobs=np.concatenate(kl_logprobs),
    )


if __name__ == "__main__":
    here = Path(__file__).parent
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else here / "fixtures")
