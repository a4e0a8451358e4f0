"""The engine process: `python -m vllm_rs.core.proc` with one line of JSON on stdin, which then stays open.

stdout carries JSON events for the parent, stderr log lines. End of stdin means that the parent is gone.
Exit codes: 0 stopped as asked, 2 bad configuration or model, 3 fatal failure, 4 parent lost.
"""

import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import Any

import msgspec
import zmq

from vllm_rs.build_info import build_info
from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.core.handshake import Handshake, HandshakeError, ready_response
from vllm_rs.core.inbox import MessageReader, Shutdown
from vllm_rs.core.io import Context, Inbox, InputThread, OutputThread
from vllm_rs.core.logs import configure_logging, logger
from vllm_rs.core.loop import EngineLoop
from vllm_rs.core.setup import EventSink
from vllm_rs.core.threads import name_this_thread
from vllm_rs.errors import InvariantError, VllmRsError
from vllm_rs.exec.executor import Executor, ExecutorError, LifecycleError

EXIT_STOPPED = 0
EXIT_BAD_CONFIGURATION = 2
EXIT_FATAL = 3
EXIT_PARENT_LOST = 4
MAX_CONFIG_BYTES = 1 << 20

_OUR_FAULT = (InvariantError, HandshakeError, ExecutorError, LifecycleError)
"""Start-up errors that another try may cure; the others are about what was asked for."""

ExecutorFactory = Callable[[EngineConfig], Executor]


def local_executor(config: EngineConfig) -> Executor:
    """The executor of the configured device, in this process."""
    from vllm_rs.exec.local import LocalExecutor

    return LocalExecutor(config)


def main(make_executor: ExecutorFactory = local_executor) -> int:
    """Run the engine process; returns its exit code."""
    name_this_thread("vllm-rs-engine")
    emit = _claim_stdout()
    stop = _StopSignals()
    try:
        line = _read_line()
    except EOFError:
        return EXIT_PARENT_LOST
    threading.Thread(target=_exit_with_parent, name="vllm-rs-parent", daemon=True).start()
    try:
        config = EngineConfig.from_json(line)
    except ConfigError as error:
        return _report(emit, error)
    configure_logging(config.observability.log_level, config.observability.log_format)
    context: Context = zmq.Context()
    server = _Server(context, config, emit, stop)
    try:
        return server.run(make_executor)
    except Exception as error:
        logger.error("engine failed: %s", error, exc_info=not isinstance(error, VllmRsError))
        return _report(emit, error)
    finally:
        server.close()
        context.term()


class _Server:
    """What lives as long as the process, in the order in which it is built."""

    def __init__(self, context: Context, config: EngineConfig, emit: EventSink, stop: "_StopSignals") -> None:
        self._context = context
        self._config = config
        self._emit = emit
        self._stop = stop
        self._inbox: Inbox = SimpleQueue()
        self._handshake: Handshake | None = None
        self._core: EngineCore | None = None
        self._input: InputThread | None = None
        self._output: OutputThread | None = None

    def run(self, make_executor: ExecutorFactory) -> int:
        """Handshake, start, serve until stopped."""
        link = self._config.link
        address = (
            link.handshake_address or f"tcp://{link.data_parallel_address}:{link.data_parallel_rpc_port}"
        )
        self._handshake = Handshake(self._context, address, link.engine_index, headless=link.headless)
        init = self._handshake.hello()
        self._emit({"event": "stage", "stage": "handshake", "elapsed_s": self._handshake.elapsed_s})
        info = build_info()
        _compare_builds(info, init.extensions.get("vllm_rs"))
        self._core = core = EngineCore(make_executor(self._config), self._config, emit=self._emit)
        inputs, outputs = init.addresses.inputs, init.addresses.outputs
        self._output = OutputThread(self._context, outputs, self._inbox)
        self._output.start()
        reader = MessageReader(core.prepare, len(outputs))
        self._input = InputThread(self._context, inputs, link.engine_index, reader, self._inbox)
        self._input.start(ready_response(core, uuid.uuid4().hex, info))
        self._handshake.ready()
        self._handshake = None
        self._emit({"event": "stage", "stage": "ready", "elapsed_s": 0.0})
        self._stop.deliver_to(self._inbox)
        try:
            drain_limit_s = self._config.link.shutdown_timeout
            EngineLoop(core, self._inbox, self._output, drain_limit_s=drain_limit_s).run()
        except BaseException:
            self._output.send_dead()
            raise
        return EXIT_STOPPED

    def close(self) -> None:
        """Tear down what was built, outputs last so that they go out."""
        if self._handshake is not None:
            self._handshake.close()
        if self._input is not None:
            self._input.stop()
        if self._output is not None:
            self._output.stop()
        if self._core is not None:
            self._core.shutdown()


class _StopSignals:
    """SIGTERM and SIGINT: exit at once while starting, a message to the loop afterwards."""

    def __init__(self) -> None:
        self._inbox: Inbox | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def deliver_to(self, inbox: Inbox) -> None:
        """From now on the loop hears of signals."""
        self._inbox = inbox

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._inbox is None:
            os._exit(EXIT_STOPPED)
        self._inbox.put(Shutdown())


def _claim_stdout() -> EventSink:
    """Keep stdout for events alone: whatever else is printed goes to stderr."""
    events = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def emit(event: dict[str, Any]) -> None:
        try:
            events.write(msgspec.json.encode(event) + b"\n")
        except OSError:
            logger.debug("nobody reads events")

    return emit


def _read_line() -> bytes:
    """The first line of stdin, unbuffered, so that a thread can wait for the rest."""
    data = bytearray()
    while not data.endswith(b"\n"):
        byte = os.read(0, 65536)
        if not byte:
            if data:
                return bytes(data)
            raise EOFError
        data += byte
        if len(data) > MAX_CONFIG_BYTES:
            break
    return bytes(data)


def _exit_with_parent() -> None:
    name_this_thread()
    while os.read(0, 4096):
        pass
    os._exit(EXIT_PARENT_LOST)


def _report(emit: EventSink, error: Exception) -> int:
    """One line to the parent and the exit code that says whether another try makes sense."""
    kind = getattr(error, "kind", type(error).__name__)
    message = " ".join(str(error).split()) or type(error).__name__
    emit({"event": "error", "kind": kind, "message": message, "hint": getattr(error, "hint", "")})
    asked_for = isinstance(error, (VllmRsError, ConfigError)) and not isinstance(error, _OUR_FAULT)
    return EXIT_BAD_CONFIGURATION if asked_for else EXIT_FATAL


def _compare_builds(own: dict[str, str], other: object) -> None:
    if isinstance(other, dict) and other.get("build_id") not in (None, own["build_id"]):
        logger.warning(
            "frontend build %s and engine build %s differ: reinstall so that both come from one wheel",
            other.get("build_id"),
            own["build_id"],
        )


if __name__ == "__main__":
    sys.exit(main())
