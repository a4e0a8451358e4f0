"""Operations recorded into a `_cpu.Program`: each call appends one kernel call over planned buffers.

Nothing runs here. The program reads the step's sizes when it is replayed, so one recording serves every
batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vllm_rs._cpu import PackedLinear, Program, ThreadPool
from vllm_rs.models.ops import F32, AttentionShape

Dtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Buffer:
    """A planned buffer: `handle` names it in the program."""

    handle: int
    rows: Literal["tokens", "logit_rows"]
    cols: int
    dtype: Dtype


class CpuPacker:
    """`Packer` for the kernels' weight layout; sums what it packed."""

    def __init__(self, pool: ThreadPool, compute_dtype: Dtype) -> None:
        self.compute_dtype: Dtype = compute_dtype
        self.packed_bytes = 0
        self._pool = pool

    def pack_linear(self, weight: NDArray[np.float32] | NDArray[np.uint16], bias: F32 | None) -> PackedLinear:
        """Blocked for streaming; bias stays float32."""
        packed = PackedLinear.pack(self._pool, weight, self.compute_dtype, bias)
        self.packed_bytes += packed.nbytes
        return packed

    def pack_vector(self, values: F32) -> F32:
        """As given; the program keeps a reference."""
        vector = np.ascontiguousarray(values, np.float32)
        self.packed_bytes += vector.nbytes
        return vector


class CpuOps:
    """`Ops` that records into one program."""

    def __init__(self, program: Program, compute_dtype: Dtype) -> None:
        self._program = program
        self._dtype: Dtype = compute_dtype

    def _like(self, x: Buffer, cols: int, dtype: Dtype) -> Buffer:
        return Buffer(self._program.buffer(x.rows, cols, dtype), x.rows, cols, dtype)

    def embedding(self, table: PackedLinear) -> Buffer:
        """Reads the packed layout, so a tied head needs no second copy."""
        out = Buffer(
            self._program.buffer("tokens", table.in_features, "float32"),
            "tokens",
            table.in_features,
            "float32",
        )
        self._program.embedding(out.handle, table)
        return out

    def rms_norm(self, x: Buffer, weight: F32, eps: float) -> Buffer:
        """float32 in, compute dtype out."""
        out = self._like(x, x.cols, self._dtype)
        self._program.rms_norm(out.handle, x.handle, weight, eps)
        return out

    def add_rms_norm(self, residual: Buffer, x: Buffer, weight: F32, eps: float) -> Buffer:
        """One pass over the residual."""
        out = self._like(residual, residual.cols, self._dtype)
        self._program.add_rms_norm(out.handle, residual.handle, x.handle, weight, eps)
        return out

    def add(self, residual: Buffer, x: Buffer) -> None:
        """In place."""
        self._program.add(residual.handle, x.handle)

    def linear(self, x: Buffer, weight: PackedLinear, adapter_ids: Buffer | None = None) -> Buffer:
        """Compute dtype in, float32 out."""
        if adapter_ids is not None:
            raise NotImplementedError("per-row adapters")
        out = self._like(x, weight.out_features, "float32")
        self._program.linear(out.handle, x.handle, weight)
        return out

    def rope_kv_write(self, qkv: Buffer, shape: AttentionShape, cos_sin: F32, layer: int) -> None:
        """Every row's keys are written before `paged_attention` of the layer reads any."""
        self._program.rope_kv_write(
            qkv.handle, shape.num_heads, shape.num_kv_heads, shape.head_dim, cos_sin, layer
        )

    def paged_attention(self, qkv: Buffer, shape: AttentionShape, layer: int) -> Buffer:
        """Prefill chunks and decode rows in one call."""
        out = self._like(qkv, shape.num_heads * shape.head_dim, self._dtype)
        self._program.attention(
            out.handle, qkv.handle, shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.scale, layer,
            shape.sliding_window,
        )  # fmt: skip
        return out

    def silu_mul(self, gate_up: Buffer) -> Buffer:
        """float32 in, compute dtype out."""
        out = self._like(gate_up, gate_up.cols // 2, self._dtype)
        self._program.silu_mul(out.handle, gate_up.handle)
        return out

    def gather_rows(self, x: Buffer) -> Buffer:
        """Same dtype as the tokens' buffer."""
        out = Buffer(self._program.buffer("logit_rows", x.cols, x.dtype), "logit_rows", x.cols, x.dtype)
        self._program.gather_rows(out.handle, x.handle)
        return out

    def concat(self, parts: Sequence[Buffer]) -> Buffer:
        """No kernel for it yet; one part is itself."""
        if len(parts) != 1:
            raise NotImplementedError("concat of several buffers on CPU")
        return parts[0]

    def logits(self, x: Buffer, lm_head: PackedLinear) -> None:
        """Read through `Program.logits_view`."""
        self._program.logits(x.handle, lm_head)

    def all_reduce(self, x: Buffer) -> Buffer:
        """One rank: nothing is recorded."""
        return x

    def all_gather(self, x: Buffer) -> Buffer:
        """One rank: nothing is recorded."""
        return x

    def send(self, x: Buffer, stage: int) -> None:
        """One stage: nothing is recorded."""

    def recv(self, like: Buffer, stage: int) -> Buffer:
        """One stage: nothing is recorded."""
        return like
