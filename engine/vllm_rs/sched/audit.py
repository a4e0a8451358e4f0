"""Invariants of the scheduler as code: checked when idle, and after every step under tests."""

from vllm_rs.errors import InvariantError
from vllm_rs.sched.request import RequestStatus
from vllm_rs.sched.scheduler import Scheduler


def check_integrity(scheduler: Scheduler) -> None:
    """Raises InvariantError if a request is not in exactly one place or the KV book-keeping disagrees."""
    running = {request.request_id for request in scheduler.running}
    waiting = {request.request_id for request in scheduler.waiting}
    if running & waiting or running | waiting != set(scheduler.requests):
        raise InvariantError(
            f"misplaced: running {running}, waiting {waiting}, all {set(scheduler.requests)}"
        )
    slots = sorted(request.slot for request in scheduler.running if request.slot is not None)
    if sorted(scheduler.free_slots + slots) != list(range(scheduler.limits.max_num_seqs)):
        raise InvariantError(f"slots {slots} in use, {scheduler.free_slots} free")
    for request in scheduler.requests.values():
        if request.num_computed_tokens > request.num_tokens:
            raise InvariantError(f"{request} has computed more than it has")
        if scheduler.kv.has_table(request.request_id) != (request.status is RequestStatus.RUNNING):
            raise InvariantError(f"{request} {'has' if request.slot is None else 'lacks'} blocks")
    num_finished = sum(scheduler.counters.num_finished.values())
    if scheduler.counters.num_started != num_finished + len(scheduler.requests):
        raise InvariantError(
            f"{scheduler.counters.num_started} requests started, {num_finished} finished,"
            f" {len(scheduler.requests)} alive"
        )
    scheduler.kv.check_integrity()
