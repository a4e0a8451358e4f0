"""Records the reference model as a program and runs sequences through it in any batching."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from kernel_reference import LlamaWeights
from numpy.typing import NDArray

from vllm_rs import _cpu

Dtype = Literal["float32", "bfloat16"]
I32 = NDArray[np.int32]
F32 = NDArray[np.float32]

# One chunk of one sequence in a step: (sequence index, first position, number of tokens).
Chunk = tuple[int, int, int]


def i32(values: Sequence[int] | NDArray[np.integer]) -> I32:
    """A C-contiguous int32 array."""
    return np.ascontiguousarray(values, np.int32)


def record(
    pool: _cpu.ThreadPool, weights: LlamaWeights, dtype: Dtype, max_tokens: int = 512, max_sequences: int = 64
) -> _cpu.Program:
    """The model as a finalized program; logits for up to max_tokens rows."""
    s = weights.shape
    program = _cpu.Program(pool, max_tokens, max_tokens, max_sequences)

    def pack(matrix: F32, bias: F32 | None = None) -> _cpu.PackedLinear:
        return _cpu.PackedLinear.pack(pool, matrix, dtype, bias)

    embed = pack(weights.embed)
    residual = program.buffer("tokens", s.hidden, "float32")
    normed = program.buffer("tokens", s.hidden, dtype)
    program.embedding(residual, embed)
    branch = None
    for index, layer in enumerate(weights.layers):
        _norm(program, normed, residual, branch, layer["attn_norm"], s.eps)
        qkv = program.buffer("tokens", s.qkv_cols, "float32")
        program.linear(qkv, normed, pack(layer["qkv"], layer["qkv_bias"]))
        program.rope_kv_write(qkv, s.heads, s.kv_heads, s.head_dim, weights.cos_sin, index)
        attended = program.buffer("tokens", s.heads * s.head_dim, dtype)
        program.attention(attended, qkv, s.heads, s.kv_heads, s.head_dim, s.head_dim**-0.5, index)
        branch = program.buffer("tokens", s.hidden, "float32")
        program.linear(branch, attended, pack(layer["o"]))
        _norm(program, normed, residual, branch, layer["mlp_norm"], s.eps)
        gate_up = program.buffer("tokens", 2 * s.intermediate, "float32")
        program.linear(gate_up, normed, pack(layer["gate_up"]))
        gated = program.buffer("tokens", s.intermediate, dtype)
        program.silu_mul(gated, gate_up)
        branch = program.buffer("tokens", s.hidden, "float32")
        program.linear(branch, gated, pack(layer["down"]))
    _norm(program, normed, residual, branch, weights.norm, s.eps)
    last = program.buffer("logit_rows", s.hidden, dtype)
    program.gather_rows(last, normed)
    program.logits(last, embed)
    program.finalize()
    return program


def _norm(
    program: _cpu.Program, out: int, residual: int, branch: int | None, weight: F32, eps: float
) -> None:
    if branch is None:
        program.rms_norm(out, residual, weight, eps)
    else:
        program.add_rms_norm(out, residual, branch, weight, eps)


class Runner:
    """Sequences of token ids in one cache, each with its own block table."""

    def __init__(
        self,
        program: _cpu.Program,
        weights: LlamaWeights,
        sequences: Sequence[I32],
        dtype: Dtype,
        block_size: int = 16,
        shuffle_seed: int | None = None,
    ) -> None:
        s = weights.shape
        self.program, self.sequences = program, sequences
        cols = max(-(-len(sequence) // block_size) for sequence in sequences)
        blocks = np.arange(len(sequences) * cols + 3)
        if shuffle_seed is not None:
            np.random.default_rng(shuffle_seed).shuffle(blocks)
        self.tables = i32(blocks[: len(sequences) * cols].reshape(len(sequences), cols))
        self.kv = _cpu.KVCache(s.layers, blocks.size, block_size, s.kv_heads, s.head_dim, dtype)

    def step(self, chunks: Sequence[Chunk]) -> F32:
        """Run the chunks as one batch; logits of all their tokens, in order."""
        tokens = np.concatenate([self.sequences[s][first : first + n] for s, first, n in chunks])
        positions = np.concatenate([np.arange(first, first + n) for _, first, n in chunks])
        starts = np.cumsum([0] + [n for _, _, n in chunks])
        tables = self.tables[[s for s, _, _ in chunks]]
        rows = np.arange(tokens.size)
        self.program.run(self.kv, i32(tokens), i32(positions), i32(starts), i32(tables), i32(rows))
        return self.program.logits_view().copy()

    def whole(self, sequence: int, chunk: int) -> F32:
        """Logits of one sequence, run alone, `chunk` tokens per step."""
        length = len(self.sequences[sequence])
        parts = [self.step([(sequence, at, min(chunk, length - at))]) for at in range(0, length, chunk)]
        return np.concatenate(parts)
