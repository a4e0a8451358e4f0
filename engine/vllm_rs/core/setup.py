"""Start-up of the engine core: executor stages, memory budget, KV cache, scheduler."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vllm_rs.config import EngineConfig
from vllm_rs.exec.executor import Executor, StageReporter
from vllm_rs.kv.host_memory import private_bytes, total_memory_bytes
from vllm_rs.kv.manager import KVCacheManager
from vllm_rs.kv.memory import MemoryBudget, MemoryDemand, solve
from vllm_rs.kv.spec import group_layers
from vllm_rs.sched.latency import InterTokenTarget, Unlimited
from vllm_rs.sched.limits import SchedulerLimits
from vllm_rs.sched.scheduler import Scheduler

logger = logging.getLogger("vllm_rs.core")

EventSink = Callable[[dict[str, Any]], None]
"""Takes start-up events for the parent process."""


def ignore_event(event: dict[str, Any]) -> None:
    """Nobody listens: the engine core runs in the caller's own process."""


class EventReporter(StageReporter):
    """Turns the executor's progress into events."""

    def __init__(self, emit: EventSink) -> None:
        self._emit = emit

    def stage(self, stage: str, elapsed_s: float) -> None:
        """A stage ended."""
        logger.info("stage %s: %.3f s", stage, elapsed_s)
        self._emit({"event": "stage", "stage": stage, "elapsed_s": elapsed_s})

    def progress(self, stage: str, done: int, total: int) -> None:
        """Part of a stage is through."""
        self._emit({"event": "progress", "stage": stage, "done": done, "total": total})


@dataclass(frozen=True)
class EngineParts:
    """What start-up leaves behind."""

    scheduler: Scheduler
    budget: MemoryBudget
    dtype: str
    """Of the KV cache, as a torch name."""


def build(executor: Executor, config: EngineConfig, emit: EventSink, *, check_integrity: bool) -> EngineParts:
    """Bring the executor up and build the scheduler on what it has to offer."""
    reporter = EventReporter(emit)
    executor.initialize(reporter)
    groups = group_layers(executor.kv_cache_spec())
    block_size = config.cache.block_size
    report = executor.memory_report()
    taken_bytes = report.weights_bytes + report.workspace_bytes
    budget = solve(
        MemoryDemand(
            bytes_per_block=sum(group.bytes_per_block(block_size) for group in groups),
            block_size=block_size,
            max_model_len=executor.max_model_len,
            max_num_seqs=config.scheduler.max_num_seqs,
            available_bytes=executor.determine_available_memory(),
            max_model_len_is_explicit=config.model.max_model_len is not None,
            kv_cache_memory_bytes=config.cache.kv_cache_memory_bytes,
            memory_utilization=config.cache.gpu_memory_utilization,
            total_bytes=total_memory_bytes(),
            weights_bytes=report.weights_bytes,
            activations_bytes=report.workspace_bytes,
            context_bytes=max(0, private_bytes() - taken_bytes),
        )
    )
    emit(
        {
            "event": "memory",
            "table": budget.table,
            "limited_by": budget.limited_by,
            "notes": list(budget.notes),
        }
    )
    for line in budget.lines():
        logger.info("memory: %s", line)
    block_bytes = budget.bytes_per_block
    logger.info("KV cache: %d blocks of %d tokens, %d bytes each", budget.num_blocks, block_size, block_bytes)
    timing = executor.allocate_kv_cache(budget.num_blocks, block_size)
    reporter.stage(timing.stage, timing.elapsed_s)
    timing = executor.warm_up()
    reporter.stage(timing.stage, timing.elapsed_s)
    return EngineParts(_scheduler(config, budget, len(groups), check_integrity), budget, groups[0].spec.dtype)


def _scheduler(
    config: EngineConfig, budget: MemoryBudget, num_groups: int, check_integrity: bool
) -> Scheduler:
    limits = SchedulerLimits(
        max_num_seqs=budget.max_num_seqs,
        max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
        max_model_len=budget.max_model_len,
        enable_chunked_prefill=config.scheduler.enable_chunked_prefill,
        long_prefill_token_threshold=config.scheduler.long_prefill_token_threshold,
        policy=config.scheduler.scheduling_policy,
        check_integrity=check_integrity,
    )
    kv = KVCacheManager(
        budget.num_blocks,
        config.cache.block_size,
        num_groups=num_groups,
        enable_caching=config.cache.enable_prefix_caching,
    )
    target_ms = config.scheduler.decode_latency_target_ms
    latency = Unlimited() if target_ms is None else InterTokenTarget(target_ms / 1e3)
    return Scheduler(limits, kv, latency=latency)
