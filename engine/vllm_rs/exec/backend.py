"""What the runner needs of a device: memory, packed weights, forward passes, sampling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from vllm_rs.exec.step import I32, StepArrays
from vllm_rs.models.base import CausalLM
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.models.ops import Packer

F32 = NDArray[np.float32]
Dtype = Literal["float32", "bfloat16"]

LogprobsRow = tuple[I32, F32, int]
"""(token ids [k + 1], log-probabilities [k + 1], rank of column 0: tokens at least as likely)."""


@dataclass(frozen=True)
class StepLimits:
    """The largest step; buffers are planned for it."""

    max_tokens: int
    max_logit_rows: int
    max_sequences: int
    max_model_len: int


class SampleResult(Protocol):
    """`_cpu.SampleResult`, or the reference's."""

    token_ids: I32
    logprobs: list[LogprobsRow | None]
    num_nonfinite: I32
    exhausted: NDArray[np.bool_]


class SlotSampler(Protocol):
    """Sampling state by slot; the contract, order of operations included, is `_cpu.Sampler`."""

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
        stop_token_ids: I32,
        logit_bias_ids: I32,
        logit_bias_values: F32,
        allowed_token_ids: I32 | None,
        bad_words: Sequence[Sequence[int]],
        num_logprobs: int | None,
        prompt_token_ids: I32,
        output_token_ids: I32,
    ) -> None:
        """A request enters the slot."""

    def clear_slot(self, slot: int) -> None:
        """The request leaves."""

    def append(self, slot: int, token_ids: I32) -> None:
        """Output tokens were committed."""


class Backend(Packer, Protocol):
    """One device. Called in this order: `build`, `allocate_kv_cache`, then `forward` with `sample` and
    `score`.
    """

    name: str
    compute_dtype: Dtype
    kv_dtype: Dtype

    @property
    def weights_bytes(self) -> int:
        """Bytes of packed weights."""

    @property
    def workspace_bytes(self) -> int:
        """Bytes of activation buffers at the largest step."""

    @property
    def sampler(self) -> SlotSampler:
        """Per-slot sampling state; known after `build`."""

    def build(self, model: CausalLM, limits: StepLimits) -> None:
        """Prepare `model` (weights loaded) for steps up to `limits`."""

    def allocate_kv_cache(self, specs: Sequence[KVCacheSpec], num_blocks: int, block_size: int) -> None:
        """Reserve the cache; forwards before this keep no keys."""

    def forward(self, step: StepArrays, *, eager: bool = False) -> None:
        """Run the model; logits of `step.logit_rows` stay readable until the next call. `eager`: call by
        call.
        """

    def forward_head(self, step: StepArrays, logit_rows: I32) -> None:
        """After `forward` of the same step: logits of other rows, at most `max_logit_rows`."""

    def logits(self) -> F32:
        """[L, vocab] of the last forward; valid until the next."""

    def sample(self, logit_indices: I32, slots: I32, positions: I32) -> SampleResult:
        """Draw for `slots[i]` from logit row `logit_indices[i]`, the token at `positions[i]`."""

    def score(self, logit_indices: I32, target_ids: I32, num_logprobs: int) -> tuple[I32, F32, I32]:
        """Log-probabilities of given tokens and of the top k: ids, values [rows, k + 1], ranks [rows]."""

    def shutdown(self) -> None:
        """Free threads and memory."""
