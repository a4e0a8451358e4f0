"""From socket frames to what the loop understands. A malformed message is answered if it can be, else counted
and dropped.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from vllm_rs.errors import RequestError, WireError
from vllm_rs.sched.request import Request
from vllm_rs.wire import EngineCoreRequest, RequestType, UtilityRequest
from vllm_rs.wire_codec import Buffer, Decoder, WireLimits, decode_ext

logger = logging.getLogger("vllm_rs.core")

REQUEST_ID_SLOT = 0
CLIENT_INDEX_SLOT = 11
MAX_REQUEST_ID_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Add:
    """A checked request; `abort_immediately` ends it right after."""

    request: Request
    abort_immediately: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that has to be answered with an error."""

    client_index: int
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Requests a client no longer wants."""

    request_ids: list[str]


@dataclass(frozen=True, slots=True)
class ClientGone:
    """A client that no longer takes its outputs."""

    client_index: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The process was asked to stop."""


@dataclass(frozen=True, slots=True)
class ThreadDied:
    """A socket thread ended by an error: fatal."""

    name: str
    error: BaseException


Message = Add | Refused | Abort | UtilityRequest | ClientGone | Shutdown | ThreadDied


class MessageReader:
    """Decodes messages of clients. Used by one thread."""

    def __init__(
        self,
        prepare: Callable[[EngineCoreRequest], Request],
        num_clients: int,
        limits: WireLimits | None = None,
    ) -> None:
        self._prepare = prepare
        self._num_clients = num_clients
        self._requests = Decoder(EngineCoreRequest, limits)
        self._aborts = Decoder(list[str], limits)
        self._utilities = Decoder(UtilityRequest, limits)
        self.num_dropped = 0
        """Messages that could be neither understood nor answered."""

    def read(self, frames: list[Buffer]) -> Message | None:
        """One message from its frames (type first), or None if it had to be dropped. Never raises."""
        try:
            return self._read(frames)
        except WireError as error:
            logger.warning("dropped a message of %d frames: %s", len(frames), error)
        except Exception:
            logger.exception("dropped a message of %d frames: it could not be read", len(frames))
        self.num_dropped += 1
        return None

    def _read(self, frames: list[Buffer]) -> Message | None:
        if len(frames) < 2:
            raise WireError(f"a message has a type and a payload, got {len(frames)} frames")
        kind, payload = bytes(frames[0]), frames[1:]
        if kind == RequestType.ADD.value:
            return self._read_add(payload)
        if kind == RequestType.ABORT.value:
            return Abort(self._aborts.decode(payload))
        if kind == RequestType.UTILITY.value:
            call = self._utilities.decode(payload)
            self._check_client(call.client_index)
            return call
        raise WireError(f"message type {kind[:8].hex()} is not accepted")

    def _read_add(self, payload: list[Buffer]) -> Message:
        try:
            wire = self._requests.decode(payload)
        except WireError as error:
            client_index, request_id = self._attribute(payload[0], error)
            return Refused(client_index, request_id, str(error))
        self._check_client(wire.client_index)
        if len(wire.request_id) > MAX_REQUEST_ID_CHARS:
            raise WireError(
                f"a request id of {len(wire.request_id)} characters, {MAX_REQUEST_ID_CHARS} allowed"
            )
        try:
            return Add(self._prepare(wire), wire.abort_immediately)
        except RequestError as error:
            return Refused(wire.client_index, wire.request_id, str(error))
        except Exception as error:  # a bug of ours: it costs this request, not the thread that serves all
            logger.exception("request %s could not be checked", wire.request_id)
            reason = f"internal error: {type(error).__name__}: {error}"
            return Refused(wire.client_index, wire.request_id, reason)

    def _attribute(self, main: Buffer, cause: WireError) -> tuple[int, str]:
        """Whose request this was meant to be; raises WireError if that cannot be read."""
        try:
            slots: Any = msgspec.msgpack.decode(main, ext_hook=_any_ext)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError):
            raise cause from None
        if not isinstance(slots, list) or not slots:
            raise cause
        request_id = slots[REQUEST_ID_SLOT]
        client_index = slots[CLIENT_INDEX_SLOT] if len(slots) > CLIENT_INDEX_SLOT else 0
        if (
            not isinstance(request_id, str)
            or len(request_id) > MAX_REQUEST_ID_CHARS
            or type(client_index) is not int
        ):
            raise cause
        self._check_client(client_index)
        return client_index, request_id

    def _check_client(self, client_index: int) -> None:
        if not 0 <= client_index < self._num_clients:
            raise WireError(f"client index must be in [0, {self._num_clients}), got {client_index}")


def _any_ext(code: int, data: memoryview) -> object:
    """Only the shape of the message matters here; nothing in an extension is interpreted."""
    try:
        return decode_ext(code, data)
    except WireError:
        return None
