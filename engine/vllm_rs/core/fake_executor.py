"""An executor without a model. Its "KV cache" holds token ids, so a wrong block table or position shows as
wrong tokens.

Every row first writes its tokens into the physical blocks the plan names; only then does any row read its
whole history back through its block table. The next token is a hash of that history and the seed: it
depends on nothing else, so equal requests give equal tokens whatever the batch, chunking, sharing or
preemption.
"""

import hashlib
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from vllm_rs.exec.executor import MemoryReport, StageReporter, StageTiming, StepHandle
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.sched.plan import (
    NewRequest,
    PreviousToken,
    PromptLogprobs,
    RowResult,
    ScheduledRow,
    StepPlan,
    StepResult,
    TokenLogprobs,
)

_UNWRITTEN = -1


class FakeExecutorError(RuntimeError):
    """A plan that a real executor could not have run."""


def next_token(history: Sequence[int], seed: int, vocab_size: int) -> int:
    """The token the fake model "samples" after `history`."""
    digest = hashlib.blake2b(
        array("q", history).tobytes(), digest_size=8, key=seed.to_bytes(8, "little")
    ).digest()
    return int.from_bytes(digest, "little") % vocab_size


@dataclass
class _Slot:
    request: NewRequest
    block_ids: list[list[int]]
    token_ids: list[int] = field(default_factory=list)
    """Tokens the executor was told of, by position."""


class _Done:
    def __init__(self, result: StepResult) -> None:
        self._result = result

    def ready(self) -> bool:
        return True

    def result(self) -> StepResult:
        return self._result


class FakeExecutor:
    """Implements `Executor` and checks every plan it gets. Plans go through bytes, as between processes."""

    def __init__(
        self,
        *,
        vocab_size: int = 1000,
        max_model_len: int = 2048,
        available_bytes: int = 1 << 30,
        num_layers: int = 2,
        step_time_s: float = 0.0,
        fail_at_step: int | None = None,
        nonfinite_token_id: int | None = None,
    ) -> None:
        self.max_model_len = max_model_len
        self.vocab_size = vocab_size
        self.steps: list[StepPlan] = []
        """Every plan seen, for tests that look at who ran when."""
        self._available_bytes = available_bytes
        self._num_layers = num_layers
        self._step_time_s = step_time_s
        self._fail_at_step = fail_at_step
        self._nonfinite_token_id = nonfinite_token_id
        """A row whose history ends in this token reports non-finite logits."""
        self._cache: list[list[list[int]]] = []
        self._block_size = 0
        self._slots: dict[int, _Slot] = {}
        self._previous: list[int | None] = []
        self._decoder = msgspec.msgpack.Decoder(StepPlan)

    def initialize(self, reporter: StageReporter | None = None) -> Sequence[StageTiming]:
        """Nothing to load."""
        timings = [StageTiming(stage, 0.0) for stage in ("init_device", "load_model", "profile_run")]
        if reporter is not None:
            for timing in timings:
                reporter.stage(timing.stage, timing.elapsed_s)
        return timings

    def kv_cache_spec(self) -> list[KVCacheSpec]:
        """Equal layers of one small head."""
        return [KVCacheSpec(num_kv_heads=1, head_dim=16, dtype="float32")] * self._num_layers

    def memory_report(self) -> MemoryReport:
        """A model of no weight."""
        return MemoryReport(weights_bytes=0, workspace_bytes=0, profiled_peak_bytes=0)

    def determine_available_memory(self) -> int:
        """As told."""
        return self._available_bytes

    def allocate_kv_cache(self, num_blocks: int, block_size: int) -> StageTiming:
        """One list of token ids per physical block."""
        self._block_size = block_size
        self._cache = [[[_UNWRITTEN] * block_size for _ in range(num_blocks)]]
        return StageTiming("allocate_kv_cache", 0.0)

    def warm_up(self) -> StageTiming:
        """Nothing to warm."""
        return StageTiming("warm_up", 0.0)

    def shutdown(self) -> None:
        """Nothing to free."""

    def submit(self, plan: StepPlan) -> StepHandle:
        """Run the plan at once."""
        plan = self._decoder.decode(msgspec.msgpack.encode(plan))
        self.steps.append(plan)
        if self._fail_at_step is not None and len(self.steps) > self._fail_at_step:
            raise FakeExecutorError(f"told to fail after {self._fail_at_step} steps")
        if self._step_time_s:
            time.sleep(self._step_time_s)
        self._update_slots(plan)
        for row in plan.rows:
            self._write(row)
        results = [self._read(row) for row in plan.rows]
        self._previous = [result.token_ids[-1] if result.token_ids else None for result in results]
        return _Done(StepResult(plan.step_id, results))

    def _update_slots(self, plan: StepPlan) -> None:
        for slot in plan.freed_slots:
            if self._slots.pop(slot, None) is None:
                raise FakeExecutorError(f"slot {slot} freed but not in use")
        for request in plan.new_requests:
            if request.slot in self._slots:
                raise FakeExecutorError(f"slot {request.slot} is in use")
            tokens = [*request.prompt_token_ids, *request.output_token_ids]
            self._slots[request.slot] = _Slot(request, [list(ids) for ids in request.block_ids], tokens)
        slots = [row.slot for row in plan.rows]
        if len(set(slots)) != len(slots):
            raise FakeExecutorError(f"slots {slots} run twice in one step")

    def _write(self, row: ScheduledRow) -> None:
        slot = self._slots[row.slot]
        for ids, new in zip(slot.block_ids, row.new_block_ids, strict=bool(row.new_block_ids)):
            ids.extend(new)
        for offset, token in enumerate(row.token_ids):
            position = row.num_computed_tokens + offset
            value = self._value(token)
            if offset < len(row.token_ids) - row.num_draft_tokens:
                self._remember(slot, position, value)
            for group, ids in zip(self._cache, slot.block_ids, strict=True):
                group[ids[position // self._block_size]][position % self._block_size] = value

    @staticmethod
    def _remember(slot: _Slot, position: int, value: int) -> None:
        if position == len(slot.token_ids):
            slot.token_ids.append(value)
        elif position > len(slot.token_ids) or slot.token_ids[position] != value:
            raise FakeExecutorError(
                f"token {value} at {position} of {slot.request.request_id} is not its own"
            )

    def _value(self, token: int | PreviousToken) -> int:
        if isinstance(token, int):
            return token
        value = self._previous[token.row]
        if value is None:
            raise FakeExecutorError(f"row {token.row} of the step before sampled nothing")
        return value

    def _read(self, row: ScheduledRow) -> RowResult:
        slot = self._slots[row.slot]
        end = row.num_computed_tokens + len(row.token_ids)
        history = self._history(slot, end)
        params = slot.request.sampling_params
        prompt_logprobs = []
        if row.num_prompt_logprob_rows:
            start = row.num_computed_tokens
            scored = slot.request.prompt_token_ids[start + 1 : start + 1 + row.num_prompt_logprob_rows]
            ids = np.array(scored, np.int32)[:, None]
            ranks = np.ones(len(scored), np.int32)
            prompt_logprobs = [PromptLogprobs.from_arrays(ids, -ids.astype(np.float32), ranks)]
        nonfinite = int(self._nonfinite_token_id is not None and history[-1] == self._nonfinite_token_id)
        if not row.num_sampled_rows:
            return RowResult([], prompt_logprobs=prompt_logprobs, num_nonfinite_logits=nonfinite)
        tokens = self._verify(slot, history, row.num_draft_tokens)
        slot.token_ids[end - row.num_draft_tokens :] = tokens[:-1]
        logprobs = None
        if params.logprobs is not None:
            width = 1 + params.logprobs
            logprobs = [TokenLogprobs([token] * width, [-1.0] * width, 1) for token in tokens]
        return RowResult(tokens, logprobs, prompt_logprobs, nonfinite)

    def _verify(self, slot: _Slot, history: list[int], num_drafts: int) -> list[int]:
        """One token, plus those drafts that are what would have been sampled."""
        known = len(history) - num_drafts
        tokens = [next_token(history[:known], slot.request.seed, self.vocab_size)]
        for index in range(num_drafts):
            if history[known + index] != tokens[-1]:
                break
            tokens.append(next_token(history[: known + index + 1], slot.request.seed, self.vocab_size))
        return tokens

    def _history(self, slot: _Slot, end: int) -> list[int]:
        """Tokens 0..end as read from the cache through the block table."""
        history: list[int] = []
        for ids in slot.block_ids[0]:
            history.extend(self._cache[0][ids])
            if len(history) >= end:
                break
        if len(history) < end or _UNWRITTEN in history[:end]:
            raise FakeExecutorError(f"{slot.request.request_id} reads {end} tokens, some were never written")
        return history[:end]
