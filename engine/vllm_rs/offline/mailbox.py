"""From the engine's thread to a consumer on some event loop."""

import asyncio
from collections.abc import Callable

from vllm_rs.offline.outputs import RequestOutput
from vllm_rs.offline.sampling_params import RequestOutputKind


class Mailbox:
    """Outputs on their way to one consumer; a slow consumer of cumulative output sees the newest."""

    def __init__(self, loop: asyncio.AbstractEventLoop, kind: RequestOutputKind) -> None:
        self._loop = loop
        self._kind = kind
        self._queue: asyncio.Queue[RequestOutput | BaseException] = asyncio.Queue()

    def put_from_thread(self, item: RequestOutput | BaseException) -> bool:
        """Called by the engine thread; False when the consumer's loop is closed."""
        return call_on(self._loop, lambda: self._put(item))

    def _put(self, item: RequestOutput | BaseException) -> None:
        if self._kind == RequestOutputKind.CUMULATIVE and not isinstance(item, BaseException):
            while not self._queue.empty():
                self._queue.get_nowait()  # superseded: bounds the memory of a stalled consumer
        self._queue.put_nowait(item)

    async def get(self) -> RequestOutput:
        """The next output; raises what ended the engine."""
        item = await self._queue.get()
        if isinstance(item, BaseException):
            raise item
        return item


def settle(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]", error: BaseException | None
) -> None:
    """Resolve a future of another thread's loop, unless it was cancelled."""

    def resolve() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    call_on(loop, resolve)


def call_on(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> bool:
    """Run `work` on a loop of another thread; False when that loop is closed."""
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:  # the only way asyncio says that the loop is closed
        return False
    return True
