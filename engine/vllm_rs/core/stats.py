"""The scheduler's state as clients hear of it."""

from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.wire import SchedulerStats


def make_scheduler_stats(scheduler: Scheduler) -> SchedulerStats:
    """Gauges as they are, prefix cache look-ups since the last call."""
    return SchedulerStats(
        num_running_reqs=len(scheduler.running),
        num_waiting_reqs=len(scheduler.waiting),
        kv_cache_usage=scheduler.kv.pool.usage,
        prefix_cache_stats=scheduler.counters.take_prefix_cache(),
    )
