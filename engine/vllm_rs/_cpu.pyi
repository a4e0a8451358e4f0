"""C++ kernels for x86-64: thread pool, packed weights, paged KV cache, recorded program, sampler.

Arrays are C-contiguous numpy arrays; a wrong dtype, rank or shape raises ValueError naming the argument, what was
expected and what was given, before anything runs. bf16 travels as uint16. Every call that computes releases the GIL.

Batch invariance: each output element is reduced in an order that depends only on the model and the instruction set,
never on batch size, chunking, block size, thread count or the neighbours in the batch.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

_F32: TypeAlias = NDArray[np.float32]
_I32: TypeAlias = NDArray[np.int32]
_U16: TypeAlias = NDArray[np.uint16]
_ComputeDtype: TypeAlias = Literal["float32", "bfloat16"]
_RowSpace: TypeAlias = Literal["tokens", "logit_rows"]

def cpu_features() -> dict[str, bool]:
    """What this CPU and kernel offer: avx2, fma, f16c, avx512f, avx512_bf16, avx512_vnni, amx_bf16, amx_int8."""

def available_isas() -> list[str]:
    """Kernel sets that may run here, best first, from "amx", "avx512_bf16", "avx512", "avx2", "scalar"."""

def selected_isa() -> str:
    """The kernel set in use. Chosen at import: the best available one that is on by default."""

def set_isa(name: str) -> None:
    """Select a kernel set by name (tests, `--cpu-isa`). Weights packed before keep their layout and stay valid.
    Raises ValueError listing available_isas(). "amx_emulated" runs the AMX kernels on emulated tiles anywhere (tests)."""

class ThreadPool:
    """Persistent workers: spin briefly, then sleep on a futex. The calling thread is worker 0."""

    def __init__(self, num_threads: int, pin_cpus: Sequence[int] = ...) -> None: ...
    @property
    def num_threads(self) -> int: ...

def allocation_count() -> int:
    """Large buffers the kernels ever mapped in this process: flat while steps are replayed."""

def measure_roofline(pool: ThreadPool, num_bytes: int = 268435456, rounds: int = 5) -> dict[str, float]:
    """Limits of this machine with the selected kernel set and all of the pool's threads, best of rounds:
    read_bytes_per_s (over num_bytes), bf16_flops_per_s, f32_flops_per_s, phase_s (synchronising the threads once)."""

class PackedLinear:
    """Weight [out_features, in_features] in the kernels' own layout, with an optional f32 bias [out_features]."""

    @staticmethod
    def pack(
        pool: ThreadPool, weight: _F32 | _U16, dtype: _ComputeDtype, bias: _F32 | None = None
    ) -> PackedLinear:
        """Pack row-major f32 or bf16 (uint16) weights; f32 is rounded to nearest even when dtype is bfloat16."""
    @property
    def out_features(self) -> int: ...
    @property
    def in_features(self) -> int: ...
    @property
    def dtype(self) -> _ComputeDtype: ...
    @property
    def nbytes(self) -> int: ...
    def unpack(self) -> _F32:
        """Row-major f32 copy [out_features, in_features]."""

class KVCache:
    """Paged K and V for every layer: reserved address space, touched as blocks are written.

    A block is addressed by (base, block stride, layer stride); see `strides`. block_size is a multiple of 8, head_dim
    is even.
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: _ComputeDtype,
    ) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def strides(self) -> tuple[int, int]:
        """(block_stride_bytes, layer_stride_bytes)."""
    def resident_bytes(self) -> int:
        """Bytes of it that the kernel has backed with memory so far."""
    def read(self, layer: int, block: int) -> tuple[_F32, _F32]:
        """(k, v) of one block as f32, each [block_size, num_kv_heads, head_dim]."""
    def write(self, layer: int, block: int, k: _F32, v: _F32) -> None: ...

class Program:
    """A flat list of kernel calls over planned buffers, recorded once, replayed by one native call per step.

    Recording methods take and return buffer handles (ints); `finalize` plans memory by liveness and freezes the list.
    Sizes are read at run time from the step's metadata, so one program serves every batch.
    Row spaces: "tokens" buffers have one row per scheduled token, "logit_rows" buffers one per row that needs logits.
    """

    def __init__(
        self, pool: ThreadPool, max_tokens: int, max_logit_rows: int, max_sequences: int
    ) -> None: ...
    # -- recording
    def buffer(self, rows: _RowSpace, cols: int, dtype: _ComputeDtype) -> int: ...
    def embedding(self, out: int, table: PackedLinear) -> None:
        """out[t] = table row token_ids[t] (reads the packed layout: a tied LM head needs no second copy)."""
    def rms_norm(self, out: int, x: int, weight: _F32, eps: float) -> None: ...
    def add_rms_norm(self, out: int, residual: int, x: int, weight: _F32, eps: float) -> None:
        """residual += x in place (f32), out = rms_norm(residual) * weight."""
    def add(self, residual: int, x: int) -> None:
        """residual += x in place (f32)."""
    def linear(self, out: int, x: int, weight: PackedLinear) -> None:
        """out = x @ weight.T + bias; x is bfloat16 for bfloat16 weights and float32 for float32 ones; out f32 or bf16."""
    def rope_kv_write(
        self, qkv: int, num_heads: int, num_kv_heads: int, head_dim: int, cos_sin: _F32, layer: int
    ) -> None:
        """qkv [tokens, (num_heads + 2 num_kv_heads) * head_dim] f32: rotate q and k in place (half-rotation, as in
        Llama; cos_sin is [max_positions, rotary_dim]: cos of the rotary_dim/2 angles, then sin), write k and v of
        every row into the cache. All rows of a layer are written before any row of `attention` reads."""
    def attention(
        self,
        out: int,
        qkv: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        scale: float,
        layer: int,
        sliding_window: int = 0,
    ) -> None:
        """Causal paged attention of every row's q over the keys 0..position of its sequence; prefill chunks and
        decode rows in one call. Online softmax over key tiles with boundaries at fixed absolute positions, combined
        left to right. out [tokens, num_heads * head_dim] f32 or bf16. sliding_window 0 = none."""
    def silu_mul(self, out: int, gate_up: int) -> None:
        """gate_up [tokens, 2n] = gate | up; out [tokens, n] = silu(gate) * up."""
    def gather_rows(self, out: int, x: int) -> None:
        """logit_rows buffer out[i] = x[logit_rows[i]]."""
    def logits(self, x: int, lm_head: PackedLinear) -> None:
        """The f32 logits [logit_rows, vocab]; the last recorded call."""
    def finalize(self) -> None: ...
    @property
    def num_ops(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...
    def describe(self) -> list[str]:
        """One line per recorded call; recording a model twice gives equal lists."""
    # -- replay
    def run(
        self,
        kv: KVCache | None,
        token_ids: _I32,
        positions: _I32,
        query_start: _I32,
        block_tables: _I32,
        logit_rows: _I32,
        first_op: int = 0,
        last_op: int = -1,
    ) -> None:
        """One step. token_ids, positions [T]; query_start [S + 1] prefix sums of tokens per sequence; block_tables
        [S, max_blocks] (row s serves sequence s; unused entries are not read); logit_rows [L] indices into the T
        tokens; positions are consecutive within a sequence. kv None skips cache writes and lets attention read only the
        step's own rows (profile runs). first_op/last_op, both inclusive, replay a part (eager mode, tests); -1 is the
        last call."""
    def logits_view(self) -> _F32:
        """View [L, vocab] of the last run's logits; valid until the next run."""
    def read_buffer(self, handle: int) -> _F32:
        """f32 copy of a buffer after the last run (tests; only buffers kept by `keep`)."""
    def keep(self, handle: int) -> None:
        """Exclude a buffer from memory reuse, so that it can be read after a run."""
    def run_traced(
        self,
        kv: KVCache | None,
        token_ids: _I32,
        positions: _I32,
        query_start: _I32,
        block_tables: _I32,
        logit_rows: _I32,
    ) -> list[tuple[str, float]]:
        """As run, returning (kernel name, seconds) per call."""

class SampleResult:
    token_ids: _I32
    """[rows]"""
    logprobs: list[tuple[_I32, _F32, int] | None]
    """Per row that asked: (token ids [k + 1], log-probabilities [k + 1], rank of the sampled token);
    column 0 is the sampled token, then the top k in order (ties: lower id first). The rank is the number of tokens
    at least as likely, so that equals share the last of their places, as in vLLM."""
    num_nonfinite: _I32
    """[rows] count of NaN or infinite logits seen in each row before any mask was applied."""
    exhausted: NDArray[np.bool_]
    """[rows] whether the constraints left no token to choose from: token_ids then means nothing, logprobs is None."""

class Sampler:
    """Native sampling with per-slot state (parameters, prompt and output token counts).

    Order, as in vLLM: raw log-probabilities are taken first; then allowed ids, bad words, min_tokens mask, logit bias,
    penalties (repetition over prompt and output, frequency and presence over output), then argmax if temperature is 0,
    else temperature, min_p, top_k, top_p. One uniform number per draw from Philox4x32-10 with key = seed and
    counter = (position, stream): candidates in token-id order, the first whose float64 cumulative weight exceeds
    u * total. Results of a row depend on that row only.
    """

    def __init__(self, pool: ThreadPool, num_slots: int, vocab_size: int) -> None: ...
    def set_slot(
        self,
        slot: int,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        repetition_penalty: float,
        presence_penalty: float,
        frequency_penalty: float,
        seed: int,
        min_tokens: int,
        stop_token_ids: _I32,
        logit_bias_ids: _I32,
        logit_bias_values: _F32,
        allowed_token_ids: _I32 | None,
        bad_words: Sequence[Sequence[int]],
        num_logprobs: int | None,
        prompt_token_ids: _I32,
        output_token_ids: _I32,
    ) -> None:
        """num_logprobs: None = not asked, -1 = whole vocabulary. seed is any int64 or uint64 (taken modulo 2**64)."""
    def clear_slot(self, slot: int) -> None: ...
    def append(self, slot: int, token_ids: _I32) -> None:
        """Commit output tokens of a slot (counts, min_tokens progress, bad-word history)."""
    def sample(
        self, program: Program, logit_indices: _I32, slots: _I32, positions: _I32, stream: int = 0
    ) -> SampleResult:
        """Sample row logit_indices[i] of the program's last logits for slots[i]; positions[i] is the absolute position
        of the token being drawn."""
    def sample_logits(self, logits: _F32, slots: _I32, positions: _I32, stream: int = 0) -> SampleResult:
        """As sample, over a given array [rows, vocab] (tests, other back ends)."""
    def score(
        self, program: Program, logit_indices: _I32, target_ids: _I32, num_logprobs: int
    ) -> tuple[_I32, _F32, _I32]:
        """Prompt log-probabilities: (token ids [rows, k + 1], log-probabilities, ranks [rows]); column 0 = target."""

def philox_uniform(seed: int, position: int, stream: int) -> float:
    """The uniform number in [0, 1) a draw uses (tests)."""
