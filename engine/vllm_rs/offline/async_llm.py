"""AsyncLLM: the same engine behind async iterators, one per request."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

from vllm_rs._rust import Tokenizer
from vllm_rs.errors import RequestError
from vllm_rs.offline.llm_engine import EnginePlace, LLMEngine, Prompt, resolve_config
from vllm_rs.offline.mailbox import Mailbox, settle
from vllm_rs.offline.outputs import RequestOutput
from vllm_rs.offline.sampling_params import SamplingParams

IDLE_POLL_S = 0.05
"""Longest wait for outputs of an engine in another process before the inbox is looked at again."""

Action: TypeAlias = Callable[[BaseException | None], None]
"""Work for the engine thread; called with an error instead when the engine has ended."""


class AsyncLLM:
    """`generate` yields growing RequestOutputs; leaving the iterator early aborts the request."""

    def __init__(self, model: str = "smollm2", *, engine: EnginePlace = "process", **keywords: Any) -> None:
        self._engine = LLMEngine(resolve_config({"model": model, **keywords}), engine)
        self._wake = threading.Condition()
        self._inbox: list[Action] = []
        self._stopping = False
        self._ended: BaseException | None = None
        """Why no further request is taken."""
        self._mailboxes: dict[str, Mailbox] = {}
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
        mailbox = Mailbox(loop, sampling_params.output_kind)

        def add(ended: BaseException | None) -> None:
            error = ended
            if error is None:
                try:
                    self._add(request_id, prompt, sampling_params, mailbox, priority)
                except Exception as refused:  # the caller's to handle, whatever it is
                    error = refused
            settle(loop, added, error)

        if not self._post(add):
            assert self._ended is not None, "the only reason not to take an action"
            raise self._ended
        finished = False
        try:
            await added
            while not finished:
                output = await mailbox.get()
                finished = output.finished
                yield output
        finally:
            if not finished:
                # Queued behind `add`, so it also undoes a submission that was cancelled half-way.
                self._post(lambda ended: self._drop(mailbox, request_id))

    async def abort(self, request_id: str) -> None:
        """End a request: its iterator yields one last output, with finish reason `abort`."""

        def end(ended: BaseException | None) -> None:
            mailbox = self._mailboxes.pop(request_id, None)
            last = self._engine.abort_request(request_id) if mailbox is not None and ended is None else None
            if mailbox is not None and last is not None:
                mailbox.put_from_thread(last)

        self._post(end)

    def shutdown(self) -> None:
        """End open requests with an error and stop the engine; may be called twice."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()
        self._engine.shutdown()

    def _add(
        self, request_id: str, prompt: Prompt, params: SamplingParams, mailbox: Mailbox, priority: int
    ) -> None:
        if request_id in self._mailboxes:
            raise RequestError("request_id", "unique among unfinished requests", request_id)
        self._engine.add_request(request_id, prompt, params, priority=priority)
        self._mailboxes[request_id] = mailbox

    def _drop(self, mailbox: Mailbox, request_id: str) -> None:
        """Abort a request whose consumer left; another one may have taken over its id by now."""
        if self._mailboxes.get(request_id) is mailbox:
            del self._mailboxes[request_id]
            self._engine.abort_request(request_id)

    def _post(self, action: Action) -> bool:
        """Queue work for the engine thread; False when it has ended."""
        with self._wake:
            if self._ended is not None:
                return False
            self._inbox.append(action)
            self._wake.notify()
            return True

    def _run(self) -> None:
        reason: BaseException = RuntimeError("AsyncLLM was shut down")
        try:
            while self._next_actions():
                for output in self._engine.step(IDLE_POLL_S):
                    self._deliver(output)
        except Exception as error:  # the engine is gone: every consumer must hear of it
            reason = error
        with self._wake:
            self._ended = reason
            unheard, self._inbox = self._inbox, []
        for action in unheard:
            action(reason)
        for mailbox in self._mailboxes.values():
            mailbox.put_from_thread(reason)

    def _next_actions(self) -> bool:
        with self._wake:
            while not (self._inbox or self._stopping or self._engine.has_unfinished_requests()):
                self._wake.wait()
            if self._stopping:
                return False
            actions, self._inbox = self._inbox, []
        for action in actions:
            action(None)
        return True

    def _deliver(self, output: RequestOutput) -> None:
        mailbox = self._mailboxes.get(output.request_id)
        if mailbox is None:
            return
        if output.finished:
            del self._mailboxes[output.request_id]
        if not mailbox.put_from_thread(output) and not output.finished:
            self._drop(mailbox, output.request_id)
