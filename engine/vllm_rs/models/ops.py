"""The operations a model is written over. Tensors and weights are opaque: only the backend that made one
looks inside.

Call sites are pure: no host reads, no Python that depends on data, no sizes but those of the weights. A
backend may run each call at once (torch) or record it into a program that is replayed for every batch
(cpu), and recording a model twice gives the same program. What the step holds (token ids, positions, block
tables, logit rows) is the backend's business.

Precision rule: residual streams and the outputs of `linear` are float32; what feeds a `linear` (norms,
attention, activations) is in the backend's compute dtype.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Tensor = Any
"""Opaque activation: rows of the step's tokens, or of its logit rows, by a fixed width."""
Weight = Any
"""Opaque packed weight made by a backend's `pack_*`."""
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class AttentionShape:
    """One attention layer: q heads share kv heads in equal groups; `scale` multiplies q·k; window 0 = all
    keys.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    sliding_window: int = 0

    @property
    def qkv_width(self) -> int:
        """Columns of the fused projection: q | k | v."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim


class Ops(Protocol):
    """One method per kernel; `out` tensors are new unless said otherwise."""

    def embedding(self, table: Weight) -> Tensor:
        """[tokens, hidden] float32: rows of the table at the step's token ids (or the step's given
        embeddings).
        """

    def rms_norm(self, x: Tensor, weight: Weight, eps: float) -> Tensor:
        """[rows, n] = x / rms(x) * weight."""

    def add_rms_norm(self, residual: Tensor, x: Tensor, weight: Weight, eps: float) -> Tensor:
        """residual += x in place; then as `rms_norm` of residual."""

    def add(self, residual: Tensor, x: Tensor) -> None:
        """residual += x in place."""

    def linear(self, x: Tensor, weight: Weight, adapter_ids: Tensor | None = None) -> Tensor:
        """[rows, out] = x @ weight.T + bias. `adapter_ids` [rows] picks a low-rank update per row (None:
        none).
        """

    def rope_kv_write(self, qkv: Tensor, shape: AttentionShape, cos_sin: Weight, layer: int) -> None:
        """Rotate q and k of `qkv` [tokens, qkv_width] in place by position; write k and v of every row to the
        cache.
        """

    def paged_attention(self, qkv: Tensor, shape: AttentionShape, layer: int) -> Tensor:
        """[tokens, num_heads * head_dim]: causal, each row over keys 0..position of its sequence."""

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """[rows, n] = silu(gate) * up of [rows, 2n] = gate | up."""

    def gather_rows(self, x: Tensor) -> Tensor:
        """[logit_rows, n]: the rows of a token tensor whose logits the step asks for."""

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """[rows, sum of widths]: side by side."""

    def logits(self, x: Tensor, lm_head: Weight) -> None:
        """The step's result: float32 [logit_rows, vocab]. The last call of a model."""

    def all_reduce(self, x: Tensor) -> Tensor:
        """Sum over the tensor-parallel group; x itself at size 1."""

    def all_gather(self, x: Tensor) -> Tensor:
        """Columns of all ranks side by side; x itself at size 1."""

    def send(self, x: Tensor, stage: int) -> None:
        """To pipeline stage `stage`; nothing at size 1."""

    def recv(self, like: Tensor, stage: int) -> Tensor:
        """From pipeline stage `stage`; `like` itself at size 1."""


class Packer(Protocol):
    """Turns arrays read from a checkpoint into a backend's weights."""

    compute_dtype: str
    """"float32" or "bfloat16": the dtype of linear weights; bfloat16 arrays arrive as uint16 bits."""

    def pack_linear(self, weight: NDArray[Any], bias: F32 | None) -> Weight:
        """From row-major [out_features, in_features]; the array is reused by the caller afterwards."""

    def pack_vector(self, values: F32) -> Weight:
        """A small float32 array (norm weights [n], cos | sin [positions, rotary_dim]), kept as given."""
