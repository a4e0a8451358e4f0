"""What crosses between scheduler and executor: StepPlan out, StepResult back.

Full data for requests that are new to the executor, deltas for those it knows. Everything encodes to
msgpack, so a plan can cross a process boundary; tests send plans through bytes even when both sides
live in one process.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from vllm_rs.wire import SamplingParams

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]


class PreviousToken(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An input token whose value is not known yet: what the previous step sampled for one of its rows."""

    row: int
    """Index into the previous plan's `rows`."""


class NewRequest(msgspec.Struct, array_like=True):
    """Everything the executor must know of a request that enters (or re-enters after preemption) a slot."""

    request_id: str
    slot: int
    """Persistent row of this request in the executor's batch until it is named in `StepPlan.freed_slots`."""
    prompt_token_ids: list[int]
    output_token_ids: list[int]
    """Tokens already emitted: empty at first, non-empty after a preemption or a replay."""
    sampling_params: SamplingParams
    seed: int
    """Resolved seed: the request's own, or one drawn for it."""
    block_ids: list[list[int]]
    """Physical block ids per KV group, in logical order, covering num_computed_tokens and this step's
    tokens.
    """
    num_computed_tokens: int
    """Tokens whose KV is in the cache already (prefix hit)."""


class ScheduledRow(msgspec.Struct, array_like=True):
    """One request's share of a step."""

    slot: int
    num_computed_tokens: int
    """Position of the first token run in this step."""
    token_ids: list[int | PreviousToken]
    """The tokens to run, draft tokens last. Their positions are num_computed_tokens, + 1, ..."""
    new_block_ids: list[list[int]] = []
    """Blocks appended since the last plan, per KV group; empty for a request in `StepPlan.new_requests`."""
    num_draft_tokens: int = 0
    """How many of `token_ids` are unverified drafts."""
    num_sampled_rows: int = 0
    """Trailing rows that need logits to sample from: 0 for an unfinished prefill chunk, 1 +
    num_draft_tokens otherwise.
    """
    num_prompt_logprob_rows: int = 0
    """Leading rows whose logits score the next prompt token (prompt_logprobs)."""

    @property
    def is_prefill(self) -> bool:
        """Whether it runs more than the one token, and drafts, of a decode row."""
        return len(self.token_ids) > 1 + self.num_draft_tokens or not self.num_sampled_rows


class StepPlan(msgspec.Struct, array_like=True):
    """One step: what leaves, what enters, what runs. Order of `rows` is the order of results."""

    step_id: int
    freed_slots: list[int] = []
    """Slots to forget before anything else: finished, aborted or preempted requests."""
    new_requests: list[NewRequest] = []
    rows: list[ScheduledRow] = []

    @property
    def num_tokens(self) -> int:
        """Tokens run in this step over all rows."""
        return sum(len(row.token_ids) for row in self.rows)


class TokenLogprobs(msgspec.Struct, array_like=True):
    """Log-probabilities at one position: column 0 is the sampled (or prompt) token, then the top k in
    order.
    """

    token_ids: list[int]
    logprobs: list[float]
    rank: int
    """Of column 0: how many tokens are at least as likely, 1 for the single best."""


class PromptLogprobs(msgspec.Struct, array_like=True):
    """Log-probabilities of consecutive prompt tokens, [rows, k + 1]; column 0 is the prompt token itself.

    Arrays as their bytes: a long prompt with many alternatives has millions of entries, and Python objects
    would take ten times their memory.
    """

    num_columns: int
    token_ids: bytes
    """int32"""
    logprobs: bytes
    """float32"""
    ranks: bytes
    """int32 [rows], ranks of column 0."""

    @staticmethod
    def from_arrays(token_ids: I32, logprobs: F32, ranks: I32) -> "PromptLogprobs":
        """Copies arrays of the shapes above."""
        num_columns = token_ids.shape[1]
        return PromptLogprobs(num_columns, token_ids.tobytes(), logprobs.tobytes(), ranks.tobytes())

    def arrays(self) -> tuple[I32, F32, I32]:
        """Read-only views: token ids and log-probabilities [rows, k + 1], ranks [rows]."""
        shape = (-1, self.num_columns)
        return (
            np.frombuffer(self.token_ids, np.int32).reshape(shape),
            np.frombuffer(self.logprobs, np.float32).reshape(shape),
            np.frombuffer(self.ranks, np.int32),
        )


class RowResult(msgspec.Struct, array_like=True):
    """What one row of the plan produced."""

    token_ids: list[int]
    """Committed tokens: none for an unfinished chunk, one in plain decode, up to num_draft_tokens + 1."""
    logprobs: list[TokenLogprobs] | None = None
    """One entry per token of `token_ids`, if the request asked."""
    prompt_logprobs: list[PromptLogprobs] = []
    """The scored prompt rows in order, some at a time, if the request asked."""
    num_nonfinite_logits: int = 0
    """NaN or infinite logits seen in this row; such a row's request ends with finish reason `error`."""
    error: str | None = None
    """Why this row could not be sampled; its request ends with finish reason `error`, others go on."""


class StepResult(msgspec.Struct, array_like=True):
    """Answer to the plan with the same step_id; `rows[i]` belongs to `plan.rows[i]`."""

    step_id: int
    rows: list[RowResult] = []
