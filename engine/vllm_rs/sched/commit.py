"""After a step: tokens to their requests, stop checks, outputs for the clients."""

from vllm_rs.errors import InvariantError
from vllm_rs.sched.audit import check_integrity
from vllm_rs.sched.logprobs import prompt_logprobs_to_wire, sampled_logprobs_to_wire
from vllm_rs.sched.plan import RowResult, ScheduledRow, StepResult
from vllm_rs.sched.request import Request, RequestStatus
from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.sched.stop import check_stop
from vllm_rs.wire import EngineCoreOutput, FinishReason

Outputs = dict[int, list[EngineCoreOutput]]
"""Outputs by client index."""


def commit_step(scheduler: Scheduler, result: StepResult) -> Outputs:
    """Apply the result of the oldest step in flight; returns what each client has to hear."""
    if not scheduler.in_flight:
        raise InvariantError(f"result of step {result.step_id}, but no step is in flight")
    plan, requests = scheduler.in_flight.popleft()
    if plan.step_id != result.step_id or len(result.rows) != len(requests):
        raise InvariantError(
            f"result of step {result.step_id} with {len(result.rows)} rows"
            f" for step {plan.step_id} with {len(requests)}"
        )
    outputs: Outputs = {}
    for request, row, row_result in zip(requests, plan.rows, result.rows, strict=True):
        output = _commit_row(scheduler, request, row, row_result)
        if output is not None:
            outputs.setdefault(request.client_index, []).append(output)
    if scheduler.limits.check_integrity and not scheduler.in_flight:
        check_integrity(scheduler)
    return outputs


def _commit_row(
    scheduler: Scheduler, request: Request, row: ScheduledRow, result: RowResult
) -> EngineCoreOutput | None:
    if request.status is not RequestStatus.RUNNING or request.num_results_to_discard:
        # It ended, or was preempted, after this step was planned: the result belongs to nobody.
        request.num_results_to_discard = max(0, request.num_results_to_discard - 1)
        return None
    if result.num_nonfinite_logits or result.error is not None:
        request.num_pending_tokens = 0
        scheduler.finish(request, FinishReason.ERROR)
        return _output(request, [], result)
    if not request.prompt_logprobs_done:
        request.prompt_logprobs.extend(result.prompt_logprobs)
    if not row.num_sampled_rows:
        return None
    if not 1 <= len(result.token_ids) <= row.num_sampled_rows:
        raise InvariantError(
            f"{request}: {len(result.token_ids)} tokens from {row.num_sampled_rows} sampled rows"
        )
    request.num_pending_tokens -= 1
    request.draft_token_ids = []
    if row.num_draft_tokens:
        request.num_computed_tokens -= row.num_draft_tokens + 1 - len(result.token_ids)
    kept, reason = _append(request, result.token_ids)
    if reason is not None:
        request.num_computed_tokens = min(request.num_computed_tokens, len(request.token_ids))
        scheduler.finish(request, reason)
    return _output(request, kept, result)


def _append(request: Request, token_ids: list[int]) -> tuple[list[int], FinishReason | None]:
    """Give the request its tokens up to the one that ends it."""
    for index, token_id in enumerate(token_ids):
        request.token_ids.append(token_id)
        reason = check_stop(request)
        if reason is not None:
            return token_ids[: index + 1], reason
    return token_ids, None


def _output(request: Request, token_ids: list[int], result: RowResult) -> EngineCoreOutput:
    output = EngineCoreOutput(request.request_id, token_ids)
    if request.finish_reason is not None:
        output.finish_reason = request.finish_reason
        output.stop_reason = request.stop_reason
        output.num_nans_in_logits = result.num_nonfinite_logits
    if result.logprobs and token_ids:
        output.new_logprobs = sampled_logprobs_to_wire(result.logprobs[: len(token_ids)])
    if not request.prompt_logprobs_done and token_ids:
        output.new_prompt_logprobs_tensors = prompt_logprobs_to_wire(
            request.prompt_logprobs, request.params.prompt_logprobs or 0
        )
        request.prompt_logprobs_done = True
        request.prompt_logprobs = []
    if request.prefill_stats is not None:
        output.prefill_stats = request.prefill_stats
        request.prefill_stats = None
    if request.events:
        output.events = request.events
        request.events = []
    if request.trace_headers is not None:
        output.trace_headers = request.trace_headers
    return output
