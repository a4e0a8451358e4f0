"""AsyncLLM: the same engine behind async iterators, one per request."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from vllm_rs._rust import Tokenizer
from vllm_rs.errors import RequestError
from vllm_rs.offline.llm_engine import EnginePlace, LLMEngine, Prompt, resolve_config
from vllm_rs.offline.outputs import RequestOutput
from vllm_rs.offline.sampling_params import RequestOutputKind, SamplingParams

IDLE_POLL_S = 0.05
"""Longest wait for outputs of an engine in another process before the inbox is looked at again."""


class _Mailbox:
    """Outputs on their way to one consumer; a slow consumer of cumulative output sees the newest."""

    def __init__(self, loop: asyncio.AbstractEventLoop, kind: RequestOutputKind) -> None:
        self._loop = loop
        self._kind = kind
        self._queue: asyncio.Queue[RequestOutput | BaseException] = asyncio.Queue()

    def put_from_thread(self, item: RequestOutput | BaseException) -> None:
        """Called by the engine thread."""
        self._loop.call_soon_threadsafe(self._put, item)

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


class AsyncLLM:
    """`generate` yields growing RequestOutputs; leaving the iterator early aborts the request."""

    def __init__(self, model: str = "smollm2", *, engine: EnginePlace = "process", **keywords: Any) -> None:
        self._engine = LLMEngine(resolve_config({"model": model, **keywords}), engine)
        self._inbox: list[Callable[[], None]] = []
        self._wake = threading.Condition()
        self._stopped = False
        self._dead: BaseException | None = None
        self._mailboxes: dict[str, _Mailbox] = {}
        self._ids = itertools.count()
        self._thread = threading.Thread(target=self._run, name="async-llm", daemon=True)
        self._thread.start()

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in use."""
        return self._engine.tokenizer

    async def generate(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams,
        request_id: str | None = None,
        *,
        priority: int = 0,
    ) -> AsyncIterator[RequestOutput]:
        """Submit one request and yield its outputs; the last one has `finished` set."""
        request_id = request_id or f"async-{next(self._ids)}"
        loop = asyncio.get_running_loop()
        added: asyncio.Future[None] = loop.create_future()
        mailbox = _Mailbox(loop, sampling_params.output_kind)

        def add() -> None:
            try:
                if request_id in self._mailboxes:
                    raise RequestError("request_id", "unique among unfinished requests", request_id)
                self._engine.add_request(request_id, prompt, sampling_params, priority=priority)
                self._mailboxes[request_id] = mailbox
                loop.call_soon_threadsafe(_settle, added, None)
            except Exception as error:  # the caller's to handle, whatever it is
                loop.call_soon_threadsafe(_settle, added, error)

        self._post(add)
        await added
        finished = False
        try:
            while not finished:
                output = await mailbox.get()
                finished = output.finished
                yield output
        finally:
            if not finished:
                self._post(lambda: self._abort(request_id))

    async def abort(self, request_id: str) -> None:
        """End a request; its iterator raises CancelledError."""

        def end() -> None:
            mailbox = self._mailboxes.get(request_id)
            self._abort(request_id)
            if mailbox is not None:
                mailbox.put_from_thread(asyncio.CancelledError(f"request {request_id} was aborted"))

        self._post(end)

    def shutdown(self) -> None:
        """Stop the engine; may be called twice."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._thread.join()
        self._engine.shutdown()

    def _abort(self, request_id: str) -> None:
        if self._mailboxes.pop(request_id, None) is not None:
            self._engine.abort_request(request_id)

    def _post(self, action: Callable[[], None]) -> None:
        with self._wake:
            if self._dead is not None:
                raise self._dead
            if self._stopped:
                raise RuntimeError("AsyncLLM was shut down")
            self._inbox.append(action)
            self._wake.notify()

    def _run(self) -> None:
        try:
            while self._next_actions():
                for output in self._engine.step(IDLE_POLL_S):
                    self._deliver(output)
        except Exception as error:  # the engine is gone: every consumer must hear of it
            with self._wake:
                self._dead = error
            for mailbox in self._mailboxes.values():
                mailbox.put_from_thread(error)

    def _next_actions(self) -> bool:
        with self._wake:
            while not (self._inbox or self._stopped or self._engine.has_unfinished_requests()):
                self._wake.wait()
            actions, self._inbox = self._inbox, []
            stopped = self._stopped
        for action in actions:
            action()
        return not stopped

    def _deliver(self, output: RequestOutput) -> None:
        mailbox = self._mailboxes.get(output.request_id)
        if mailbox is None:
            return
        if output.finished:
            del self._mailboxes[output.request_id]
        mailbox.put_from_thread(output)


def _settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
