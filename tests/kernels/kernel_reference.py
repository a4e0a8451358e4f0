"""Plain numpy versions of every kernel: what the C++ must compute, written to be read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U16 = NDArray[np.uint16]


def to_bf16(x: F32) -> U16:
    """Round f32 to bfloat16 (nearest even), as uint16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(x: U16) -> F32:
    """Widen bfloat16 (uint16) to f32."""
    return (x.astype(np.uint32) << 16).view(np.float32)


def round_bf16(x: F32) -> F32:
    """f32 with bfloat16 precision."""
    return from_bf16(to_bf16(x))


def rms_norm(x: F32, weight: F32, eps: float) -> F64:
    """x * weight / rms(x), over the last axis."""
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps) * weight


def silu_mul(gate_up: F32) -> F64:
    """silu(gate) * up of [rows, 2n] = gate | up."""
    gate, up = np.split(gate_up.astype(np.float64), 2, axis=-1)
    return gate / (1.0 + np.exp(-gate)) * up


def rope(heads: F32, cos_sin_row: F32) -> F64:
    """Half-rotation of [heads, head_dim] by one row of cos | sin."""
    out = heads.astype(np.float64)
    half = cos_sin_row.size // 2
    cos, sin = cos_sin_row[:half].astype(np.float64), cos_sin_row[half:].astype(np.float64)
    first, second = out[:, :half].copy(), out[:, half : 2 * half].copy()
    out[:, :half] = first * cos - second * sin
    out[:, half : 2 * half] = second * cos + first * sin
    return out


def attention(q: F64, k: F64, v: F64, positions: NDArray[np.int32], scale: float, window: int = 0) -> F64:
    """q [rows, heads, dim] over k, v [keys, kv_heads, dim]; row i sees keys 0..positions[i]."""
    group = q.shape[1] // k.shape[1]
    out = np.zeros_like(q)
    for row, position in enumerate(positions):
        first = max(0, position - window + 1) if window else 0
        for head in range(q.shape[1]):
            keys = k[first : position + 1, head // group]
            scores = keys @ q[row, head] * scale
            weights = np.exp(scores - scores.max())
            out[row, head] = weights @ v[first : position + 1, head // group] / weights.sum()
    return out


def cos_sin_table(max_positions: int, rotary_dim: int, theta: float = 10000.0) -> F32:
    """[max_positions, rotary_dim]: cos of the rotary_dim / 2 angles, then sin."""
    inverse = theta ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    angles = np.arange(max_positions)[:, None] * inverse
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a small Llama-shaped model."""

    hidden: int = 96
    intermediate: int = 160
    layers: int = 2
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    vocab: int = 211
    max_positions: int = 2048
    eps: float = 1e-5

    @property
    def qkv_cols(self) -> int:
        """Columns of the fused q | k | v projection."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


class LlamaWeights:
    """Random f32 weights of a Llama-shaped model, and its forward pass in float64."""

    def __init__(self, shape: LlamaShape, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)

        def matrix(rows: int, cols: int) -> F32:
            return (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)

        def gain() -> F32:
            return rng.uniform(0.5, 1.5, shape.hidden).astype(np.float32)

        self.shape = shape
        self.embed = rng.standard_normal((shape.vocab, shape.hidden)).astype(np.float32)
        self.norm = gain()
        self.cos_sin = cos_sin_table(shape.max_positions, shape.head_dim)
        self.layers = [
            {
                "attn_norm": gain(),
                "qkv": matrix(shape.qkv_cols, shape.hidden),
                "qkv_bias": rng.standard_normal(shape.qkv_cols).astype(np.float32) * np.float32(0.1),
                "o": matrix(shape.hidden, shape.heads * shape.head_dim),
                "mlp_norm": gain(),
                "gate_up": matrix(2 * shape.intermediate, shape.hidden),
                "down": matrix(shape.hidden, shape.intermediate),
            }
            for _ in range(shape.layers)
        ]

    def logits(self, token_ids: NDArray[np.int32]) -> F64:
        """Logits [tokens, vocab] of one whole sequence."""
        s = self.shape
        positions = np.arange(token_ids.size, dtype=np.int32)
        x = self.embed[token_ids].astype(np.float64)
        for layer in self.layers:
            qkv = (
                rms_norm(x, layer["attn_norm"], s.eps) @ layer["qkv"].T.astype(np.float64) + layer["qkv_bias"]
            )
            heads = qkv.reshape(token_ids.size, -1, s.head_dim)
            rotated = np.stack([rope(row, self.cos_sin[i]) for i, row in enumerate(heads)])
            q, k = rotated[:, : s.heads], rotated[:, s.heads : s.heads + s.kv_heads]
            out = attention(q, k, heads[:, s.heads + s.kv_heads :], positions, s.head_dim**-0.5)
            x = x + out.reshape(token_ids.size, -1) @ layer["o"].T
            x = x + silu_mul(rms_norm(x, layer["mlp_norm"], s.eps) @ layer["gate_up"].T) @ layer["down"].T
        return rms_norm(x, self.norm, s.eps) @ self.embed.T.astype(np.float64)
