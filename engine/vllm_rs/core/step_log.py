"""The step log: at DEBUG one line per phase of every step, and a line per station of a request's first step.

At TRACE also a dump of the plan: where each row starts, its tokens and its block table.
"""

import logging

from vllm_rs.core.logs import TRACE
from vllm_rs.sched.plan import StepPlan
from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.sched.slots import cache_slots
from vllm_rs.wire import EngineCoreOutput

logger = logging.getLogger("vllm_rs.step")
stations = logging.getLogger("vllm_rs.request")


def enabled() -> bool:
    """Whether anybody reads the step log."""
    return logger.isEnabledFor(logging.DEBUG)


def log_scheduling(scheduler: Scheduler, plan: StepPlan, elapsed_s: float) -> None:
    """First phase: who runs on how many tokens, and how full the cache is then."""
    names = {request.slot: request.request_id for request in scheduler.running}
    slots = cache_slots(scheduler)
    logger.debug(
        "step %d scheduling: %d rows, %d tokens, rows [%s], kv slots %d allocated %d unused, %.0f us",
        plan.step_id,
        len(plan.rows),
        plan.num_tokens,
        " ".join(f"{names[row.slot]}:{len(row.token_ids)}" for row in plan.rows),
        slots.num_allocated,
        slots.num_unused,
        elapsed_s * 1e6,
    )
    for request in plan.new_requests:
        stations.debug('request_id=%s station="scheduled" step=%d', request.request_id, plan.step_id)
    if logger.isEnabledFor(TRACE):
        for row in plan.rows:
            logger.log(
                TRACE,
                "step %d row %s: from %d, tokens %s, sampled rows %d, block table %s",
                plan.step_id,
                names[row.slot],
                row.num_computed_tokens,
                row.token_ids,
                row.num_sampled_rows,
                scheduler.kv.block_ids(names[row.slot]),
            )
    for request in plan.new_requests:
        stations.debug('request_id=%s station="executing" step=%d', request.request_id, plan.step_id)


def log_execution(plan: StepPlan, elapsed_s: float) -> None:
    """Second phase: the executor has answered."""
    logger.debug("step %d execution: %.0f us", plan.step_id, elapsed_s * 1e6)


def log_output(plan: StepPlan, outputs: dict[int, list[EngineCoreOutput]], elapsed_s: float) -> None:
    """Third phase: tokens are with their requests, messages are ready to be sent."""
    logger.debug(
        "step %d output processing: %d outputs, %d clients, %.0f us",
        plan.step_id,
        sum(map(len, outputs.values())),
        len(outputs),
        elapsed_s * 1e6,
    )
