"""Meeting the frontend: HELLO, INIT, registration, READY."""

import time

import msgspec
import zmq

from vllm_rs.core.engine_core import EngineCore
from vllm_rs.errors import VllmRsError, WireError
from vllm_rs.wire import EngineCoreReadyResponse, HandshakeInit, HandshakeStatus
from vllm_rs.wire_codec import Decoder

PROTOCOL_VERSION = "0.32.0"
"""Version of vLLM whose protocol this engine speaks; frontends switch on it."""
INIT_TIMEOUT_S = 300.0
HANDSHAKE_LINGER_MS = 5000


class HandshakeError(VllmRsError):
    """The frontend did not answer, or asked for what this engine cannot do."""

    kind = "HandshakeError"


def engine_identity(engine_index: int) -> bytes:
    """ZMQ identity of an engine: its index as two little-endian bytes."""
    return engine_index.to_bytes(2, "little")


class Handshake:
    """The start-up socket; lives until READY is sent."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", address: str, engine_index: int, *, headless: bool
    ) -> None:
        self._start_s = time.monotonic()
        self._headless = headless
        self._address = address
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, engine_identity(engine_index))
        self._socket.setsockopt(zmq.LINGER, HANDSHAKE_LINGER_MS)
        self._socket.setsockopt(zmq.IPV6, 1)
        self._socket.connect(address)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the socket was made."""
        return time.monotonic() - self._start_s

    def hello(self, *, timeout_s: float = INIT_TIMEOUT_S) -> HandshakeInit:
        """Say HELLO and wait for INIT."""
        self._send("HELLO")
        if not self._socket.poll(int(timeout_s * 1000)):
            raise HandshakeError(f"no answer from the frontend at {self._address} within {timeout_s:.0f} s")
        frames = self._socket.recv_multipart()
        try:
            init = Decoder(HandshakeInit).decode(frames)
        except WireError as error:
            raise HandshakeError(f"the frontend's INIT cannot be read: {error}") from error
        addresses = init.addresses
        if not addresses.inputs or len(addresses.inputs) != len(addresses.outputs):
            raise HandshakeError("INIT must name as many input as output addresses, and at least one")
        if addresses.coordinator_input is not None or addresses.coordinator_output is not None:
            raise HandshakeError("data parallelism with a coordinator is not supported by this engine")
        return init

    def ready(self) -> None:
        """Tell the launcher that the engine serves, and close."""
        self._send("READY")
        self._socket.close()

    def close(self) -> None:
        """Give up."""
        self._socket.close(linger=0)

    def _send(self, status: str) -> None:
        message = HandshakeStatus(status, local=not self._headless, headless=self._headless)
        self._socket.send(msgspec.msgpack.encode(message))


def ready_response(core: EngineCore, instance_id: str, build_info: dict[str, str]) -> EngineCoreReadyResponse:
    """What clients learn when the engine registers."""
    limits = core.scheduler.limits
    num_tokens = core.budget.num_tokens
    return EngineCoreReadyResponse(
        max_model_len=limits.max_model_len,
        num_gpu_blocks=core.budget.num_blocks,
        block_size=core.scheduler.kv.block_size,
        dp_stats_address=None,
        dtype=core.dtype,
        vllm_version=PROTOCOL_VERSION,
        world_size=1,
        data_parallel_size=1,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        decode_context_parallel_size=1,
        data_parallel_rank=core.engine_index,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        instance_id=instance_id,
        supports_lora=False,
        max_loras=0,
        kv_cache_size_tokens=num_tokens,
        kv_cache_max_concurrency=num_tokens / limits.max_model_len,
        effective_attention_block_size=core.scheduler.kv.block_size,
        extensions={"vllm_rs": dict(build_info)},
    )
