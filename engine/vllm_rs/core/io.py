"""The socket threads: frames in, frames out. They share nothing with the loop but two queues."""

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import msgspec
import zmq

from vllm_rs.core.handshake import engine_identity
from vllm_rs.core.inbox import ClientGone, Message, MessageReader, ThreadDied
from vllm_rs.core.threads import name_this_thread
from vllm_rs.wire import ENGINE_CORE_DEAD, EngineCoreOutputs, EngineCoreReadyResponse
from vllm_rs.wire_codec import Buffer, Encoder

logger = logging.getLogger("vllm_rs.core")

Context = zmq.Context[zmq.Socket[bytes]]
Inbox = SimpleQueue[Message]
OUTPUT_LINGER_MS = 4000
MAX_UNSENT_MESSAGES = 65_536
"""Outputs a client may leave unread before its requests are ended."""
MAX_UNREAD_MESSAGES = 16_384
"""Messages the loop may lag behind before the sockets are left alone for a moment."""


class InputThread:
    """Registers with every client, then reads its messages into the loop's inbox."""

    def __init__(
        self,
        context: Context,
        addresses: list[str],
        engine_index: int,
        reader: MessageReader,
        inbox: Inbox,
    ) -> None:
        self._context = context
        self._addresses = addresses
        self._identity = engine_identity(engine_index)
        self._reader = reader
        self._inbox = inbox
        self._stop_address = f"inproc://vllm-rs-input-{id(self)}"
        self._stop_socket = context.socket(zmq.PAIR)
        self._stop_socket.bind(self._stop_address)
        self._registered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vllm-rs-input", daemon=True)
        self._ready = b""

    def start(self, ready: EngineCoreReadyResponse) -> None:
        """Connect and register; returns once every client has been sent the registration."""
        self._ready = msgspec.msgpack.encode(ready)
        self._thread.start()
        self._registered.wait()

    def stop(self) -> None:
        """End the thread and close its sockets."""
        if self._thread.is_alive():
            self._stop_socket.send(b"")
            self._thread.join(timeout=5.0)
        self._stop_socket.close(linger=0)

    def _run(self) -> None:
        name_this_thread()
        sockets: list[zmq.Socket[bytes]] = []
        try:
            stop = self._context.socket(zmq.PAIR)
            sockets.append(stop)
            stop.connect(self._stop_address)
            poller = zmq.Poller()
            poller.register(stop, zmq.POLLIN)
            for address in self._addresses:
                socket = make_socket(self._context, zmq.DEALER, address, identity=self._identity)
                sockets.append(socket)
                socket.send(self._ready)
                poller.register(socket, zmq.POLLIN)
            self._registered.set()
            self._read_until_stopped(poller, stop)
        except BaseException as error:
            self._inbox.put(ThreadDied("vllm-rs-input", error))
        finally:
            self._registered.set()
            for socket in sockets:
                socket.close(linger=0)

    def _read_until_stopped(self, poller: zmq.Poller, stop: "zmq.Socket[bytes]") -> None:
        while True:
            for socket, _ in poller.poll():
                if socket is stop:
                    return
                if self._inbox.qsize() > MAX_UNREAD_MESSAGES:
                    # The loop is behind: what is not read here waits in the sender's socket.
                    time.sleep(0.005)
                    continue
                message = self._reader.read(socket.recv_multipart())
                if message is not None:
                    self._inbox.put(message)


class OutputThread:
    """Encodes and sends messages; a client that does not read is reported, not waited for."""

    def __init__(
        self,
        context: Context,
        addresses: list[str],
        inbox: Inbox,
        *,
        max_unsent_messages: int = MAX_UNSENT_MESSAGES,
    ) -> None:
        self._context = context
        self._addresses = addresses
        self._inbox = inbox
        self._max_unsent_messages = max_unsent_messages
        self._queue: SimpleQueue[tuple[int, EngineCoreOutputs] | bytes | None] = SimpleQueue()
        self._gone: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="vllm-rs-output", daemon=True)
        self.num_undelivered = 0
        """Messages given up because their client did not read."""

    def start(self) -> None:
        """Connect the sockets in the thread that uses them."""
        self._thread.start()

    def put(self, client_index: int, message: EngineCoreOutputs) -> None:
        """Send `message` to one client, in order with those before."""
        self._queue.put((client_index, message))

    def send_dead(self) -> None:
        """Tell every client that the engine is dying."""
        self._queue.put(ENGINE_CORE_DEAD)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Send what is queued, close, and wait for that."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout=timeout_s)

    def _run(self) -> None:
        name_this_thread()
        sockets: list[zmq.Socket[bytes]] = []
        try:
            for address in self._addresses:
                sockets.append(
                    make_socket(
                        self._context, zmq.PUSH, address, max_unsent_messages=self._max_unsent_messages
                    )
                )
            encoder = Encoder()
            while (item := self._queue.get()) is not None:
                if isinstance(item, bytes):
                    for index, socket in enumerate(sockets):
                        self._send(index, socket, [item])
                else:
                    client_index, message = item
                    self._send(client_index, sockets[client_index], encoder.encode(message))
        except BaseException as error:
            self._inbox.put(ThreadDied("vllm-rs-output", error))
        finally:
            for socket in sockets:
                socket.close(linger=OUTPUT_LINGER_MS)

    def _send(self, client_index: int, socket: "zmq.Socket[bytes]", frames: list[Buffer]) -> None:
        try:
            socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=len(frames) == 1)
        except zmq.Again:
            self.num_undelivered += 1
            if client_index not in self._gone:
                logger.error(
                    "client %d has %d unread messages: ending its requests", client_index, MAX_UNSENT_MESSAGES
                )
            self._gone.add(client_index)
            self._inbox.put(ClientGone(client_index))
        else:
            self._gone.discard(client_index)


def make_socket(
    context: Context, kind: int, address: str, *, identity: bytes | None = None, max_unsent_messages: int = 0
) -> "zmq.Socket[bytes]":
    """A connected socket with the protocol's options; 0 unsent messages means no limit."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.SNDHWM, max_unsent_messages)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.IPV6, 1)
    if identity is not None:
        socket.setsockopt(zmq.IDENTITY, identity)
    socket.connect(address)
    return socket


def drain(inbox: Inbox, handle: Callable[[Message], None]) -> None:
    """Hand over every message there is."""
    while True:
        try:
            message = inbox.get_nowait()
        except Empty:
            return
        handle(message)


def wait(inbox: Inbox, handle: Callable[[Message], None], *, timeout_s: float | None = None) -> bool:
    """Sleep until a message comes and hand it over; False if none came in time."""
    try:
        message = inbox.get(timeout=timeout_s)
    except Empty:
        return False
    handle(message)
    return True
