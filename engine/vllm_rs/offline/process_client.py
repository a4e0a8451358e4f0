"""An engine core in a process of its own, driven over the EngineCore protocol on private ipc:// sockets."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import zmq

from vllm_rs import wire
from vllm_rs.config import EngineConfig, LinkConfig
from vllm_rs.errors import VllmRsError
from vllm_rs.wire_codec import Decoder, Encoder

START_LIMIT_S = 600.0
STOP_LIMIT_S = 10.0
ENGINE_IDENTITY = (0).to_bytes(2, "little")


class EngineDeadError(VllmRsError):
    """The engine process ended or could not start."""

    kind = "EngineDead"


class ProcessClient:
    """Owns the engine process: starts it, talks to it, ends it."""

    def __init__(self, config: EngineConfig) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vllm-rs-"))  # 0700: nobody else may connect
        self._encoder, self._decoder = Encoder(), Decoder(wire.EngineCoreOutputs)
        self._context = zmq.Context()
        handshake = self._bind(zmq.ROUTER, "handshake")
        self._input = self._bind(zmq.ROUTER, "input")
        self._output = self._bind(zmq.PULL, "output")
        link = msgspec.structs.replace(config.link, handshake_address=self._address("handshake"))
        self._engine_error: str | None = None
        self._process = self._spawn(config, link)
        self._events = threading.Thread(target=self._read_events, name="engine-events", daemon=True)
        self._events.start()
        try:
            self._ready = self._handshake(handshake)
        except BaseException:
            self.shutdown()
            raise
        finally:
            handshake.close(linger=0)

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus output, in tokens."""
        return self._ready.max_model_len

    @property
    def pid(self) -> int:
        """Process id of the engine."""
        return self._process.pid

    def add_request(self, request: wire.EngineCoreRequest) -> None:
        """Send ADD."""
        frames = self._encoder.encode(request)
        self._input.send_multipart([ENGINE_IDENTITY, wire.RequestType.ADD.value, *frames])

    def abort_requests(self, request_ids: list[str]) -> None:
        """Send ABORT; the engine does not reply to it."""
        frames = self._encoder.encode(request_ids)
        self._input.send_multipart([ENGINE_IDENTITY, wire.RequestType.ABORT.value, *frames])

    def poll(self, timeout_s: float | None) -> list[wire.EngineCoreOutput]:
        """Wait for one message of outputs."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._output.poll(
                200 if deadline is None else max(0, int((deadline - time.monotonic()) * 1000))
            ):
                frames = self._output.recv_multipart()
                if frames == [wire.ENGINE_CORE_DEAD]:
                    raise self._dead("the engine reported a fatal error")
                return self._decoder.decode(frames).outputs
            if self._process.poll() is not None:
                raise self._dead(f"the engine ended with exit code {self._process.returncode}")
            if deadline is not None and time.monotonic() >= deadline:
                return []

    def shutdown(self) -> None:
        """Terminate the engine, close the sockets, remove the folder."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _address(self, name: str) -> str:
        return f"ipc://{self._folder / name}"

    def _bind(self, kind: int, name: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.bind(self._address(name))
        return socket

    def _spawn(self, config: EngineConfig, link: LinkConfig) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "vllm_rs.core.proc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None, "opened with a pipe above"
        with contextlib.suppress(BrokenPipeError):  # an engine that dies at once is reported by the handshake
            process.stdin.write(msgspec.structs.replace(config, link=link).to_json() + b"\n")
            process.stdin.flush()  # stays open: its end tells the engine that this process is gone
        return process

    def _read_events(self) -> None:
        assert self._process.stdout is not None, "opened with a pipe above"
        with contextlib.suppress(ValueError, OSError):  # the pipe closes under us at shutdown
            for line in self._process.stdout:
                with contextlib.suppress(json.JSONDecodeError):
                    event: dict[str, Any] = json.loads(line)
                    if event.get("event") == "error":
                        hint = f" ({event['hint']})" if event.get("hint") else ""
                        self._engine_error = f"{event.get('message')}{hint}"

    def _handshake(self, socket: zmq.Socket[bytes]) -> wire.EngineCoreReadyResponse:
        deadline = time.monotonic() + START_LIMIT_S
        self._expect(socket, "HELLO", deadline)
        init = {
            "addresses": {"inputs": [self._address("input")], "outputs": [self._address("output")]},
            "parallel_config": {},
        }
        socket.send_multipart([ENGINE_IDENTITY, msgspec.msgpack.encode(init)])
        registration = self._receive(self._input, deadline, "registration")
        ready = msgspec.msgpack.decode(registration, type=wire.EngineCoreReadyResponse)
        self._expect(socket, "READY", deadline)
        return ready

    def _expect(self, socket: zmq.Socket[bytes], status: str, deadline: float) -> None:
        message = msgspec.msgpack.decode(self._receive(socket, deadline, status))
        if message.get("status") != status:
            raise EngineDeadError(f"handshake: expected {status}, got {message.get('status')!r}")

    def _receive(self, socket: zmq.Socket[bytes], deadline: float, awaited: str) -> bytes:
        while time.monotonic() < deadline:
            if socket.poll(100):
                return socket.recv_multipart()[1]
            if self._process.poll() is not None:
                raise self._dead(
                    f"the engine ended with exit code {self._process.returncode} before {awaited}"
                )
        raise EngineDeadError(f"the engine sent no {awaited} within {START_LIMIT_S:.0f} s")

    def _dead(self, what: str) -> EngineDeadError:
        self._events.join(timeout=1.0)  # its last line may hold the reason
        return EngineDeadError(self._engine_error or what)
