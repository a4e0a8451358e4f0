"""The readable reference: every operation in plain torch, run at once, on any device. Imported only for
device=torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from vllm_rs.exec.step import StepArrays
from vllm_rs.models.ops import F32, AttentionShape

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Linear:
    """[out_features, in_features] in the compute dtype; bias float32 [out_features]."""

    weight: torch.Tensor
    bias: torch.Tensor | None


@dataclass(frozen=True)
class TorchKVCache:
    """Keys and values of every layer, each [layers][num_blocks, block_size, num_kv_heads, head_dim]."""

    keys: list[torch.Tensor]
    values: list[torch.Tensor]

    @property
    def block_size(self) -> int:
        """Tokens per block."""
        return int(self.keys[0].shape[1])


class TorchOps:
    """`Ops` over torch tensors for the step given to `begin`."""

    def __init__(self, device: str, compute_dtype: str) -> None:
        self.device = torch.device(device)
        self.compute_dtype = compute_dtype
        self._dtype = DTYPES[compute_dtype]
        self.cache: TorchKVCache | None = None
        self.result: torch.Tensor | None = None
        """Logits of the last forward, float32 [logit_rows, vocab]."""

    # -- weights

    def pack_linear(self, weight: NDArray[np.generic], bias: F32 | None) -> Linear:
        """Copies: the caller reuses its array."""
        bits = torch.from_numpy(np.array(weight))
        values = bits.view(torch.bfloat16) if weight.dtype == np.uint16 else bits
        return Linear(values.to(self.device, self._dtype), None if bias is None else self.pack_vector(bias))

    def pack_vector(self, values: F32) -> torch.Tensor:
        """float32 as given."""
        return torch.from_numpy(np.array(values, np.float32)).to(self.device)

    # -- the step

    def begin(self, step: StepArrays) -> None:
        """Take the inputs of one forward."""

        def long(array: NDArray[np.int32]) -> torch.Tensor:
            return torch.from_numpy(array.astype(np.int64)).to(self.device)

        self._token_ids, self._positions = long(step.token_ids), long(step.positions)
        self._query_start = step.query_start.tolist()
        self._block_tables = long(step.block_tables[0])
        self._slots = long(step.slot_mapping(self.cache.block_size)) if self.cache is not None else None
        self.set_logit_rows(step.logit_rows)

    def set_logit_rows(self, logit_rows: NDArray[np.int32]) -> None:
        """Other rows for the head of the same step."""
        self._logit_rows = torch.from_numpy(logit_rows.astype(np.int64)).to(self.device)

    # -- Ops

    def embedding(self, table: Linear) -> torch.Tensor:
        """[tokens, hidden] float32."""
        return table.weight[self._token_ids].float()

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """Mean of squares in float32."""
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return (normed * weight).to(self._dtype)

    def add_rms_norm(
        self, residual: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """residual += x, in place."""
        residual += x
        return self.rms_norm(residual, weight, eps)

    def add(self, residual: torch.Tensor, x: torch.Tensor) -> None:
        """In place."""
        residual += x

    def linear(
        self, x: torch.Tensor, weight: Linear, adapter_ids: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Inputs in the compute dtype, result float32."""
        if adapter_ids is not None:
            raise NotImplementedError("per-row adapters")
        out = torch.nn.functional.linear(x, weight.weight).float()
        return out if weight.bias is None else out + weight.bias

    def rope_kv_write(
        self, qkv: torch.Tensor, shape: AttentionShape, cos_sin: torch.Tensor, layer: int
    ) -> None:
        """Pairs (i, i + rotary_dim/2) of each q and k head turn by the angle of the row's position."""
        heads = qkv.view(len(qkv), -1, shape.head_dim)
        turning = heads[:, : shape.num_heads + shape.num_kv_heads]
        half = cos_sin.shape[1] // 2
        angles = cos_sin[self._positions].unsqueeze(1)
        cos, sin = angles[..., :half], angles[..., half:]
        low, high = turning[..., :half].clone(), turning[..., half : 2 * half].clone()
        turning[..., :half] = low * cos - high * sin
        turning[..., half : 2 * half] = high * cos + low * sin
        if self.cache is not None:
            keys, values = self.cache.keys[layer], self.cache.values[layer]
            new_keys, new_values = _keys_values(heads, shape)
            keys.view(-1, *keys.shape[2:])[self._slots] = new_keys.to(keys.dtype)
            values.view(-1, *values.shape[2:])[self._slots] = new_values.to(values.dtype)

    def paged_attention(self, qkv: torch.Tensor, shape: AttentionShape, layer: int) -> torch.Tensor:
        """One sequence after another: gather its keys through the block table, softmax in float32."""
        heads = qkv.view(len(qkv), -1, shape.head_dim)
        out = torch.empty(len(qkv), shape.num_heads, shape.head_dim, device=self.device)
        for sequence, first in enumerate(self._query_start[:-1]):
            rows = slice(first, self._query_start[sequence + 1])
            positions = self._positions[rows]
            keys, values = self._context(heads[rows], shape, layer, sequence, int(positions[-1]) + 1)
            out[rows] = _attend(heads[rows, : shape.num_heads], keys, values, positions, shape)
        return out.flatten(1).to(self._dtype)

    def _context(
        self, heads: torch.Tensor, shape: AttentionShape, layer: int, sequence: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values 0..length-1 of a sequence, float32 [length, num_kv_heads, head_dim]."""
        if self.cache is None:
            return _keys_values(heads, shape)
        num_blocks = -(-length // self.cache.block_size)
        blocks = self._block_tables[sequence, :num_blocks]
        keys, values = self.cache.keys[layer][blocks], self.cache.values[layer][blocks]
        return keys.flatten(0, 1)[:length].float(), values.flatten(0, 1)[:length].float()

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up in float32."""
        gate, up = gate_up.chunk(2, dim=-1)
        return (torch.nn.functional.silu(gate) * up).to(self._dtype)

    def gather_rows(self, x: torch.Tensor) -> torch.Tensor:
        """A copy of the logit rows."""
        return x[self._logit_rows]

    def concat(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Side by side."""
        return torch.cat(list(parts), dim=-1)

    def logits(self, x: torch.Tensor, lm_head: Linear) -> None:
        """Kept in `result`."""
        self.result = self.linear(x, lm_head)

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """One rank."""
        return x

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """One rank."""
        return x

    def send(self, x: torch.Tensor, stage: int) -> None:
        """One stage."""

    def recv(self, like: torch.Tensor, stage: int) -> torch.Tensor:
        """One stage."""
        return like


def _keys_values(heads: torch.Tensor, shape: AttentionShape) -> tuple[torch.Tensor, torch.Tensor]:
    """The k and v parts of [tokens, q heads + k heads + v heads, head_dim]."""
    first_value = shape.num_heads + shape.num_kv_heads
    return heads[:, shape.num_heads : first_value], heads[:, first_value:]


def _attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    shape: AttentionShape,
) -> torch.Tensor:
    """queries [rows, num_heads, head_dim] over keys and values [length, num_kv_heads, head_dim]."""
    group = shape.num_heads // shape.num_kv_heads
    keys, values = keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)
    scores = torch.einsum("rhd,lhd->hrl", queries, keys) * shape.scale
    # Keys carry absolute positions 0..length-1 except in a profile run, where the chunk starts at 0 too.
    distance = positions[:, None] - torch.arange(len(keys), device=keys.device)[None, :]
    hidden = distance < 0
    if shape.sliding_window:
        hidden = hidden | (distance >= shape.sliding_window)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    return torch.einsum("hrl,lhd->rhd", weights, values)
