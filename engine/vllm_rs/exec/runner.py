"""One device's share of a step: load the model, size it, and turn each StepPlan into a StepResult."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vllm_rs.exec.backend import Backend, LogprobsRow, SampleResult, StepLimits
from vllm_rs.exec.batch import InputBatch
from vllm_rs.exec.executor import LifecycleError, MemoryReport, StageTiming
from vllm_rs.exec.process_memory import resident_bytes
from vllm_rs.exec.prompt_logprobs import PromptScores, score_prompts
from vllm_rs.exec.requests import SlotRequest, enter_slot
from vllm_rs.exec.step import StepArrays
from vllm_rs.models.base import CausalLM
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.models.loader import CheckpointLoader, ModelSource, Progress
from vllm_rs.sched.plan import RowResult, ScheduledRow, StepPlan, StepResult, TokenLogprobs

stations = logging.getLogger("vllm_rs.request")
logger = logging.getLogger(__name__)

STAGES = ("init_device", "load_model", "profile_run", "allocate_kv_cache", "warm_up")
NOTHING_ALLOWED = "allowed_token_ids, bad_words, min_tokens and logit_bias leave no token to choose from"
_SHORTEST_BLOCK = 8
"""Tokens that fit in one block of any allowed size."""


@dataclass
class StepCounters:
    """How steps ran since the start."""

    replayed: int = 0
    eager: int = 0


class ModelRunner:
    """The five stages of `STAGES` in order, then `execute` for every plan."""

    def __init__(
        self, make_backend: Callable[[], Backend], limits: StepLimits, *, enforce_eager: bool = False
    ) -> None:
        self.limits = limits
        self.enforce_eager = enforce_eager
        self.counters = StepCounters()
        self._make_backend = make_backend
        self._stages_done = 0
        self._previous_tokens: list[int] = []
        self._requests: list[SlotRequest | None] = [None] * limits.max_sequences
        self._profiled_peak_bytes = 0

    # -- start-up

    def init_device(self) -> StageTiming:
        """Threads, kernels, device."""
        with _Stage(self, "init_device") as stage:
            self.backend = self._make_backend()
        return stage.timing

    def load_model(
        self, model: CausalLM, source: ModelSource, progress: Progress | None = None
    ) -> StageTiming:
        """Pack the weights and build the step."""
        with _Stage(self, "load_model") as stage:
            self.model = model
            model.load_weights(CheckpointLoader(source, self.backend, progress))
            start_s = time.perf_counter()
            self.backend.build(model, self.limits)
            self._capture_s = time.perf_counter() - start_s
        return stage.timing

    def profile_run(self) -> StageTiming:
        """The largest step without a cache, to see what it touches."""
        with _Stage(self, "profile_run") as stage:
            before = resident_bytes()
            self.backend.forward(self._dummy_step(self.limits.max_tokens, self.limits.max_model_len))
            self._profiled_peak_bytes = max(0, resident_bytes() - before)
        return stage.timing

    def allocate_kv_cache(self, num_blocks: int, block_size: int) -> StageTiming:
        """The cache, and the block tables that point into it."""
        with _Stage(self, "allocate_kv_cache") as stage:
            self.backend.allocate_kv_cache(self.kv_cache_spec(), num_blocks, block_size)
            self._num_blocks = num_blocks
            max_blocks = -(-self.limits.max_model_len // block_size)
            self.batch = InputBatch(self.limits.max_sequences, max_blocks, self.limits.max_tokens)
        return stage.timing

    def warm_up(self) -> StageTiming:
        """A decode step and a prefill step; their keys go to blocks that nothing uses yet."""
        with _Stage(self, "warm_up") as stage:
            for num_tokens in (1, min(self.limits.max_tokens, self._num_blocks, 64), 1):
                start_s = time.perf_counter()
                step = self._dummy_step(num_tokens, _SHORTEST_BLOCK)
                self.backend.forward(step, eager=self.enforce_eager)
        logger.info(
            "step program: capture %.2f ms, warm-up %.2f ms, replay of one token %.2f ms",
            self._capture_s * 1e3,
            stage.timing.elapsed_s * 1e3,
            (time.perf_counter() - start_s) * 1e3,
        )
        return stage.timing

    def kv_cache_spec(self) -> list[KVCacheSpec]:
        """One per layer."""
        return self.model.kv_cache_specs(self.backend.kv_dtype)

    def memory_report(self) -> MemoryReport:
        """Known after `profile_run`."""
        return MemoryReport(
            self.backend.weights_bytes, self.backend.workspace_bytes, self._profiled_peak_bytes
        )

    def _dummy_step(self, num_tokens: int, longest: int) -> StepArrays:
        """Up to `num_tokens` tokens in sequences of at most `longest`; sequence s has block s alone."""
        count = min(self.limits.max_sequences, num_tokens)
        lengths = np.full(count, num_tokens // count, np.int32)
        lengths[: num_tokens % count] += 1
        lengths = np.minimum(lengths, longest)
        query_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        total = int(query_start[-1])
        positions = np.arange(total, dtype=np.int32) - np.repeat(query_start[:-1], lengths)
        rows = (query_start[1:] - 1)[: self.limits.max_logit_rows]
        sequences = np.arange(len(rows), dtype=np.int32)
        tables = (np.arange(count, dtype=np.int32)[:, None].copy(),)
        return StepArrays(np.zeros(total, np.int32), positions, query_start, tables, rows, sequences)

    # -- steps

    def execute(self, plan: StepPlan) -> StepResult:
        """Run one plan."""
        if self._stages_done < len(STAGES):
            raise LifecycleError(f"execute before {STAGES[self._stages_done]}")
        self._update_slots(plan)
        if not plan.rows:
            self._previous_tokens = []
            return StepResult(plan.step_id)
        step = self.batch.flatten(plan.rows, self._previous_tokens)
        self.backend.forward(step, eager=self.enforce_eager)
        if stations.isEnabledFor(logging.DEBUG):
            for request in plan.new_requests:
                stations.debug('request_id=%s station="forward" step=%d', request.request_id, plan.step_id)
        if self.enforce_eager:
            self.counters.eager += 1
        else:
            self.counters.replayed += 1
        results = self._sample(plan.rows, step)
        if any(row.num_prompt_logprob_rows for row in plan.rows):
            self._add_prompt_scores(plan.rows, step, results)
        # Of a row without a token: any id will do, as only a request that has just failed can refer to it.
        self._previous_tokens = [row.token_ids[-1] if row.token_ids else 0 for row in results]
        return StepResult(plan.step_id, results)

    def _update_slots(self, plan: StepPlan) -> None:
        for slot in plan.freed_slots:
            self.backend.sampler.clear_slot(slot)
            self._requests[slot] = None
        self.batch.apply(plan)
        for request in plan.new_requests:
            entered = self._requests[request.slot] = enter_slot(self.backend.sampler, request)
            if entered.error is not None:
                logger.error("request %s cannot be sampled: %s", request.request_id, entered.error)

    def _sample(self, rows: Sequence[ScheduledRow], step: StepArrays) -> list[RowResult]:
        """Draw one token for each logit row, in the plan's order."""
        requests = [self._requests[row.slot] for row in rows]
        count = len(step.logit_rows)
        if count == 0:
            return [RowResult([], error=request.error if request else None) for request in requests]
        slots = np.array([row.slot for row in rows], np.int32)[step.logit_sequences]
        indices = np.arange(count, dtype=np.int32)
        drawn = self.backend.sample(indices, slots, step.logit_positions + np.int32(1))
        results = _row_results(rows, drawn)
        for row, request, result in zip(rows, requests, results, strict=True):
            if request is None:
                continue
            if request.error is not None:
                result.token_ids, result.logprobs, result.error = [], None, request.error
            elif result.error is not None:
                logger.warning("request %s: %s", request.request_id, result.error)
            if request.needs_history and result.token_ids:
                self.backend.sampler.append(row.slot, np.array(result.token_ids, np.int32))
        return results

    def _add_prompt_scores(
        self, rows: Sequence[ScheduledRow], step: StepArrays, results: Sequence[RowResult]
    ) -> None:
        requests = [self._requests[row.slot] for row in rows]
        wanted = [
            PromptScores(
                index,
                int(step.query_start[index]),
                row.num_prompt_logprob_rows,
                request.prompt_token_ids[row.num_computed_tokens + 1 :],
                request.num_prompt_logprobs or 0,
            )
            for index, (row, request) in enumerate(zip(rows, requests, strict=True))
            if row.num_prompt_logprob_rows and request is not None
        ]
        for scores in wanted:
            results[scores.row].prompt_logprobs = score_prompts(
                self.backend, step, scores, self.limits.max_logit_rows
            )

    def shutdown(self) -> None:
        """Free the device."""
        if self._stages_done:
            self.backend.shutdown()


def _row_results(rows: Sequence[ScheduledRow], drawn: SampleResult) -> list[RowResult]:
    token_ids, nonfinite = drawn.token_ids.tolist(), drawn.num_nonfinite.tolist()
    results = []
    first = 0
    for row in rows:
        last = first + row.num_sampled_rows
        # Drafts are verified by whoever proposed them; here only the first drawn token of a row is committed.
        kept = slice(first, min(first + 1, last))
        result = RowResult(token_ids[kept], num_nonfinite_logits=sum(nonfinite[first:last]))
        if drawn.exhausted[kept].any():
            result.token_ids, result.error = [], NOTHING_ALLOWED
        if last > first and drawn.logprobs[first] is not None:
            result.logprobs = [
                as_token_logprobs(entry) for entry in drawn.logprobs[kept] if entry is not None
            ]
        results.append(result)
        first = last
    return results


def as_token_logprobs(entry: LogprobsRow) -> TokenLogprobs:
    """From arrays to the plain lists that cross to the scheduler."""
    ids, values, rank = entry
    return TokenLogprobs(ids.tolist(), values.tolist(), int(rank))


class _Stage:
    """Times one start-up stage and refuses a wrong order."""

    def __init__(self, runner: ModelRunner, name: str) -> None:
        expected = STAGES[runner._stages_done] if runner._stages_done < len(STAGES) else "execute"
        if name != expected:
            raise LifecycleError(f"{name} called where {expected} was due; the order is {', '.join(STAGES)}")
        self._runner, self._name = runner, name

    def __enter__(self) -> "_Stage":
        self._start_s = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.timing = StageTiming(self._name, time.perf_counter() - self._start_s)
        if kind is None:
            self._runner._stages_done += 1
