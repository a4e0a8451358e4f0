"""The engine's loop body: receive -> schedule -> execute -> commit -> emit. No sockets here, no threads, no
model.

`LLM` drives it in its own process; `core.loop` drives it behind sockets.
"""

import hashlib
import secrets
import time
from collections.abc import Iterable

from vllm_rs.config import EngineConfig
from vllm_rs.core import step_log
from vllm_rs.core.setup import EventSink, build, ignore_event
from vllm_rs.core.stats import make_scheduler_stats, step_details
from vllm_rs.env import check_invariants
from vllm_rs.errors import EngineDeadError, InvariantError, RequestError
from vllm_rs.exec.executor import Executor
from vllm_rs.sched.audit import check_integrity as audit
from vllm_rs.sched.commit import commit_step
from vllm_rs.sched.request import Request
from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.wire import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FinishReason,
    IterationDetails,
)
from vllm_rs.wire_validate import SamplingLimits, validate_request

StepOutputs = dict[int, EngineCoreOutputs]
"""One message per client index."""


class EngineCore:
    """Owns scheduler and executor; one thread drives it. `prepare` alone may be called from another.

    `check_integrity` audits the book-keeping after every step; None leaves that to VLLM_RS_CHECK_INVARIANTS.
    """

    def __init__(
        self,
        executor: Executor,
        config: EngineConfig,
        *,
        emit: EventSink = ignore_event,
        check_integrity: bool | None = None,
    ) -> None:
        self.config = config
        self.engine_index = config.link.engine_index
        self.weight_version = "default"
        self.is_paused = False
        """Paused: requests wait or stay where they are, no step runs."""
        audit_steps = check_invariants() if check_integrity is None else check_integrity
        parts = build(executor, config, emit, check_integrity=audit_steps)
        self.scheduler: Scheduler = parts.scheduler
        self.budget = parts.budget
        self.dtype = parts.dtype
        self.sampling_limits = SamplingLimits(
            vocab_size=executor.vocab_size,
            max_model_len=self.scheduler.limits.max_model_len,
            # -1: the vocabulary is the only bound.
            max_logprobs=config.model.max_logprobs if config.model.max_logprobs >= 0 else None,
        )
        self._executor = executor
        self._failure: BaseException | None = None
        """What ended this engine: its book-keeping may contradict itself from then on."""

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus output, in tokens."""
        return self.scheduler.limits.max_model_len

    @property
    def has_work(self) -> bool:
        """Whether a step would have something to do."""
        return self.scheduler.has_work and not self.is_paused

    # Receive

    def prepare(self, wire: EngineCoreRequest) -> Request:
        """Check a request and hash its prompt. Raises RequestError; changes nothing, so any thread may call
        it.
        """
        prompt_token_ids, params = validate_request(wire, self.sampling_limits)
        request = Request(
            wire,
            params,
            prompt_token_ids,
            seed=self._seed(wire.request_id, params.seed),
            max_model_len=self.max_model_len,
            block_size=self.scheduler.kv.block_size,
        )
        request.block_hashes.extend(request.token_ids, request.num_prompt_tokens)
        return request

    def add(self, request: Request) -> None:
        """Queue a prepared request. Raises RequestError if its id is in use or the queue is full."""
        self._check_alive()
        limit = self.config.scheduler.max_num_queued_reqs
        if request.request_id in self.scheduler.requests:
            raise RequestError("request_id", "unique among unfinished requests", request.request_id)
        if len(self.scheduler.requests) >= limit:
            raise RequestError("max_num_queued_reqs", f"at most {limit} unfinished requests", limit + 1)
        self.scheduler.add(request)

    def add_request(self, wire: EngineCoreRequest) -> None:
        """`prepare` and `add` in one."""
        self.add(self.prepare(wire))

    def abort_requests(self, request_ids: Iterable[str]) -> list[Request]:
        """End requests without a reply; unknown and finished ids are ignored."""
        return self.scheduler.abort(request_ids)

    def abort_client(self, client_index: int) -> None:
        """End all requests of a client that no longer takes its outputs."""
        self.scheduler.abort(
            [request.request_id for request in self._alive() if request.client_index == client_index]
        )

    def abort_all(self) -> StepOutputs:
        """End every request with an ABORT output, as on shutdown."""
        aborted = self.scheduler.abort(list(self.scheduler.requests))
        return self.final_outputs(
            (request.client_index, request.request_id, FinishReason.ABORT) for request in aborted
        )

    # Schedule, execute, commit, emit

    def step(self) -> StepOutputs:
        """One iteration; returns what each client has to hear. After a failure every further call raises
        EngineDeadError.
        """
        self._check_alive()
        try:
            return self._step()
        except BaseException as error:  # an interrupt leaves a step half done as well
            self._failure = error
            raise

    def _check_alive(self) -> None:
        if self._failure is not None:
            kind = type(self._failure).__name__
            raise EngineDeadError(f"a step failed before: {kind}: {self._failure}") from self._failure

    def _step(self) -> StepOutputs:
        start_s = time.monotonic()
        plan = self.scheduler.schedule()
        if not plan.rows:
            if self.scheduler.running:
                raise InvariantError(
                    f"nothing can run, but {len(self.scheduler.running)} requests hold blocks"
                )
            return {}
        planned_s = time.monotonic()
        is_logged = step_log.enabled()
        if is_logged:
            step_log.log_scheduling(self.scheduler, plan, planned_s - start_s)
        result = self._executor.submit(plan).result()
        executed_s = time.monotonic()
        if is_logged:
            step_log.log_execution(plan, executed_s - planned_s)
        outputs = commit_step(self.scheduler, result)
        self.scheduler.observe(plan, executed_s - planned_s)
        messages = self._messages(outputs, step_details(plan, executed_s - start_s))
        if is_logged:
            step_log.log_output(plan, outputs, time.monotonic() - executed_s)
        return messages

    def check_integrity(self) -> None:
        """Audit of the book-keeping, for when there is nothing else to do."""
        audit(self.scheduler)

    def shutdown(self) -> None:
        """Free what the executor holds."""
        self._executor.shutdown()

    def final_outputs(self, ended: Iterable[tuple[int, str, FinishReason]]) -> StepOutputs:
        """Last messages for requests that end outside a step, from (client index, request id, reason)."""
        messages: StepOutputs = {}
        for client_index, request_id, reason in ended:
            message = messages.get(client_index)
            if message is None:
                message = messages[client_index] = self._message([])
                message.finished_requests = set()
            message.outputs.append(EngineCoreOutput(request_id, [], finish_reason=reason))
            if message.finished_requests is not None:
                message.finished_requests.add(request_id)
        return messages

    def stats_only(self) -> StepOutputs:
        """A message that carries nothing but the statistics."""
        return self._messages({})

    def _messages(
        self, outputs: dict[int, list[EngineCoreOutput]], details: IterationDetails | None = None
    ) -> StepOutputs:
        """Outputs by client; the statistics of the step go to one of them only."""
        messages = {client_index: self._message(batch) for client_index, batch in outputs.items()}
        first = next(iter(messages), 0)
        if first not in messages:
            messages[first] = self._message([])
        messages[first].scheduler_stats = make_scheduler_stats(self.scheduler, details)
        return messages

    def _message(self, outputs: list[EngineCoreOutput]) -> EngineCoreOutputs:
        return EngineCoreOutputs(
            self.engine_index, outputs, timestamp=time.monotonic(), weight_version=self.weight_version
        )

    def _alive(self) -> list[Request]:
        return list(self.scheduler.requests.values())

    def _seed(self, request_id: str, seed: int | None) -> int:
        """The request's seed modulo 2**64; without one, drawn, or derived from the engine's seed if that is
        set.
        """
        if seed is not None:
            return seed & 0xFFFF_FFFF_FFFF_FFFF
        base = self.config.model.seed
        if base is None:
            return secrets.randbits(63)
        digest = hashlib.sha256(base.to_bytes(8, "little") + request_id.encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 1
