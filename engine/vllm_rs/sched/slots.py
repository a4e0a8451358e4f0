"""How full the allocated part of the KV cache is."""

from typing import NamedTuple

from vllm_rs.sched.scheduler import Scheduler


class CacheSlots(NamedTuple):
    """Token slots of the blocks in use."""

    num_allocated: int
    num_unused: int
    """Of those, how many hold no token once the planned steps have run: the tails of last blocks."""


def cache_slots(scheduler: Scheduler) -> CacheSlots:
    """Shared blocks count once; only a table's own last blocks can have unused slots."""
    kv = scheduler.kv
    num_in_use = (kv.pool.num_blocks - kv.pool.num_free_blocks) // kv.num_groups
    num_unused = sum(
        kv.num_blocks_of(request.request_id) * kv.block_size - request.num_computed_tokens
        for request in scheduler.running
    )
    return CacheSlots(num_in_use * kv.block_size, num_unused)
