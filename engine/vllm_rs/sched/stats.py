"""Counters the scheduler keeps; the engine core turns them into wire messages and tests into equations."""

from dataclasses import dataclass, field

from vllm_rs.wire import FinishReason, PrefixCacheStats


@dataclass
class SchedulerCounters:
    """Totals since start, except `prefix_cache`, which is handed over and restarted with every stats
    message.
    """

    num_started: int = 0
    num_finished: dict[FinishReason, int] = field(default_factory=dict)
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    """Tokens computed once more because a preemption dropped their KV."""
    num_steps: int = 0
    num_decode_tokens: int = 0
    num_prefill_tokens: int = 0
    prefix_cache: PrefixCacheStats = field(default_factory=PrefixCacheStats)

    def finished(self, reason: FinishReason) -> None:
        """One more request ended."""
        self.num_finished[reason] = self.num_finished.get(reason, 0) + 1

    def prefix_lookup(self, num_tokens: int, num_hit_tokens: int, *, preempted: bool) -> None:
        """A request was admitted after looking for its prefix."""
        stats = self.prefix_cache
        if preempted:
            stats.preempted_requests += 1
            stats.preempted_queries += num_tokens
            stats.preempted_hits += num_hit_tokens
        else:
            stats.requests += 1
            stats.queries += num_tokens
            stats.hits += num_hit_tokens

    def take_prefix_cache(self) -> PrefixCacheStats:
        """The look-ups since the last call."""
        stats = self.prefix_cache
        self.prefix_cache = PrefixCacheStats()
        return stats
