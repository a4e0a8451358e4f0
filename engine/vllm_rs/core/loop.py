"""The endless loop of an engine behind sockets: drain the inbox, step, hand the outputs on."""

import logging
import time
from collections.abc import Iterable

from vllm_rs.core.engine_core import EngineCore, StepOutputs
from vllm_rs.core.inbox import Abort, Add, ClientGone, Message, Refused, Shutdown, ThreadDied
from vllm_rs.core.io import Inbox, OutputThread, drain, wait
from vllm_rs.core.utility import UtilityCalls
from vllm_rs.errors import RequestError, VllmRsError
from vllm_rs.wire import EngineCoreOutputs, FinishReason, UtilityOutput, UtilityRequest

logger = logging.getLogger("vllm_rs.core")

IDLE_BEFORE_AUDIT_S = 1.0


class SocketThreadError(VllmRsError):
    """A socket thread ended: the engine can no longer be reached."""

    kind = "SocketThreadError"


class EngineLoop:
    """Runs an EngineCore until it is told to stop. Steps and messages alternate: all messages first, then one
    step.

    After a stop signal running requests get `drain_limit_s` to finish; a second signal ends them at once.
    """

    def __init__(
        self, core: EngineCore, inbox: Inbox, outputs: OutputThread, *, drain_limit_s: float
    ) -> None:
        self._core = core
        self._inbox = inbox
        self._outputs = outputs
        self._utilities = UtilityCalls(core)
        self._drain_limit_s = drain_limit_s
        self._stop_at_s: float | None = None
        """Set by the first stop signal: when the requests still running are ended."""
        self._stats_due = False
        """Requests ended outside a step: without a further step nobody would hear that the gauges fell."""
        self.num_refused = 0

    def run(self) -> None:
        """Returns when stopped and drained; raises on a fatal error."""
        while not self._is_done():
            drain(self._inbox, self._handle)
            if self._core.has_work:
                self._emit(self._core.step())
            elif self._stop_at_s is None:
                if self._stats_due:
                    self._stats_due = False
                    self._emit(self._core.stats_only())
                self._idle()
            else:
                break  # paused while stopping: nothing will move any more
        self._emit(self._core.abort_all())

    def _idle(self) -> None:
        """Sleep until there is a message; a quiet moment is used for the audit, so that no request waits for
        it.
        """
        if not wait(self._inbox, self._handle, timeout_s=IDLE_BEFORE_AUDIT_S):
            self._core.check_integrity()
            wait(self._inbox, self._handle)

    def _is_done(self) -> bool:
        if self._stop_at_s is None:
            return False
        return not self._core.scheduler.requests or time.monotonic() >= self._stop_at_s

    def _handle(self, message: Message) -> None:
        if isinstance(message, Add):
            self._add(message)
        elif isinstance(message, Abort):
            self._stats_due |= bool(self._core.abort_requests(message.request_ids))
        elif isinstance(message, UtilityRequest):
            self._call(message)
        elif isinstance(message, Refused):
            self._refuse(message.client_index, message.request_id, message.reason)
        elif isinstance(message, ClientGone):
            self._core.abort_client(message.client_index)
        elif isinstance(message, Shutdown):
            now_s = time.monotonic()
            self._stop_at_s = now_s if self._stop_at_s is not None else now_s + self._drain_limit_s
        elif isinstance(message, ThreadDied):
            raise SocketThreadError(f"thread {message.name} ended: {message.error!r}") from message.error

    def _add(self, message: Add) -> None:
        request = message.request
        if self._stop_at_s is not None:
            self._end([(request.client_index, request.request_id, FinishReason.ABORT)])
            return
        try:
            self._core.add(request)
        except RequestError as error:
            existing = self._core.scheduler.requests.get(request.request_id)
            if existing is not None and existing.client_index == request.client_index:
                # An answer would end the stream that rightly has this id.
                logger.warning("dropped a second request with the id %s", request.request_id)
                return
            self._refuse(request.client_index, request.request_id, str(error))
            return
        if message.abort_immediately:
            self._core.abort_requests([request.request_id])

    def _refuse(self, client_index: int, request_id: str, reason: str) -> None:
        self.num_refused += 1
        logger.warning("request %s refused: %s", request_id, reason)
        self._end([(client_index, request_id, FinishReason.ERROR)])

    def _call(self, request: UtilityRequest) -> None:
        if self._stop_at_s is not None:
            answer = UtilityOutput(request.call_id, "Server shutting down")
        else:
            answer = self._utilities.call(request)
        for outputs in self._utilities.pending_outputs:
            self._emit(outputs)
        self._utilities.pending_outputs.clear()
        message = EngineCoreOutputs(
            self._core.engine_index, timestamp=time.monotonic(), utility_output=answer
        )
        self._outputs.put(request.client_index, message)

    def _end(self, ended: Iterable[tuple[int, str, FinishReason]]) -> None:
        self._emit(self._core.final_outputs(ended))

    def _emit(self, outputs: StepOutputs) -> None:
        for client_index, message in outputs.items():
            self._outputs.put(client_index, message)
