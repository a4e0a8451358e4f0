"""The scheduler's state as clients hear of it."""

from vllm_rs.sched.plan import StepPlan
from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.wire import IterationDetails, SchedulerStats


def make_scheduler_stats(scheduler: Scheduler, details: IterationDetails | None) -> SchedulerStats:
    """Gauges as they are, prefix cache look-ups since the last call, and `details` if a step was run."""
    return SchedulerStats(
        num_running_reqs=len(scheduler.running),
        num_waiting_reqs=len(scheduler.waiting),
        kv_cache_usage=scheduler.kv.pool.usage,
        iteration_details=details,
        prefix_cache_stats=scheduler.counters.take_prefix_cache(),
    )


def step_details(plan: StepPlan, elapsed_s: float) -> IterationDetails:
    """What the step ran: prompt (ctx) and generation requests and tokens, and how long it took."""
    prefill = [len(row.token_ids) for row in plan.rows if row.is_prefill]
    return IterationDetails(
        iteration_index=plan.step_id,
        num_ctx_requests=len(prefill),
        num_ctx_tokens=sum(prefill),
        num_generation_requests=len(plan.rows) - len(prefill),
        num_generation_tokens=plan.num_tokens - sum(prefill),
        elapsed_ms=elapsed_s * 1e3,
    )
