"""The waiting queue: first come first served, or by priority. Every operation is O(1) or O(log n)."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from vllm_rs.sched.request import Request


class WaitingQueue(Protocol):
    """Requests that wait for a place in the batch, in the order in which they may start."""

    def add(self, request: Request) -> None:
        """A new arrival."""

    def put_back(self, request: Request) -> None:
        """A preempted request: ahead of those that never ran, if the policy has an opinion on that."""

    def peek(self) -> Request | None:
        """The next request to start, left in the queue."""

    def pop(self) -> Request:
        """The next request to start; IndexError if there is none."""

    def remove(self, request: Request) -> None:
        """Takes an aborted request out; KeyError if it is not there."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]: ...


class FcfsQueue:
    """First come, first served; a preempted request goes to the front."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, Request] = OrderedDict()

    def add(self, request: Request) -> None:
        """Append."""
        self._requests[request.request_id] = request

    def put_back(self, request: Request) -> None:
        """Prepend."""
        self._requests[request.request_id] = request
        self._requests.move_to_end(request.request_id, last=False)

    def peek(self) -> Request | None:
        """The front."""
        return next(iter(self._requests.values()), None)

    def pop(self) -> Request:
        """Take the front."""
        if not self._requests:
            raise IndexError("no request is waiting")
        return self._requests.popitem(last=False)[1]

    def remove(self, request: Request) -> None:
        """Take it out, wherever it is."""
        del self._requests[request.request_id]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests.values())


class PriorityQueue:
    """Smaller `priority` first, ties by arrival. A preempted request keeps its arrival and so its place."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._requests: dict[str, Request] = {}
        """Members; heap entries of others are stale and skipped."""

    def add(self, request: Request) -> None:
        """Insert by importance."""
        self._requests[request.request_id] = request
        heapq.heappush(self._heap, (*request.importance, request.request_id))

    def put_back(self, request: Request) -> None:
        """Insert by importance."""
        self.add(request)

    def peek(self) -> Request | None:
        """The most important."""
        while self._heap:
            _, arrival_order, request_id = self._heap[0]
            request = self._requests.get(request_id)
            if request is not None and request.arrival_order == arrival_order:
                return request
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Request:
        """Take the most important."""
        request = self.peek()
        if request is None:
            raise IndexError("no request is waiting")
        heapq.heappop(self._heap)
        del self._requests[request.request_id]
        return request

    def remove(self, request: Request) -> None:
        """Take it out; its heap entry goes when it comes up."""
        del self._requests[request.request_id]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(sorted(self._requests.values(), key=lambda request: request.importance))


def make_queue(policy: str) -> WaitingQueue:
    """The queue of a `--scheduling-policy`."""
    if policy == "fcfs":
        return FcfsQueue()
    if policy == "priority":
        return PriorityQueue()
    raise ValueError(f"scheduling policy must be fcfs or priority, got {policy!r}")
