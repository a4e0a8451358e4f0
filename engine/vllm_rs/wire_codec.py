"""Frames of the EngineCore protocol: msgpack main frame, large buffers as frames of their own. No pickle,
ever.

An array travels as `[dtype, shape, data]`; data is inline (extension 3) below `INLINE_LIMIT_BYTES`, else
the index of the auxiliary frame that holds its bytes. Extensions 1 and 2 (pickle, cloudpickle) are refused
by name.
"""

import math
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from vllm_rs.errors import WireError
from vllm_rs.wire import Tensor

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview
EXT_RAW = 3
EXT_PICKLE = (1, 2)
INLINE_LIMIT_BYTES = 256

_NUMPY_DTYPES = frozenset(
    ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"),
)
"""Plain numbers only: object, string and structured dtypes never cross a socket."""
_TORCH_DTYPES: dict[str, str] = {
    "bool": "|b1",
    "int8": "|i1",
    "uint8": "|u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float16": "<f2",
    "bfloat16": "<u2",
    "float32": "<f4",
    "float64": "<f8",
}


class WireLimits(msgspec.Struct, frozen=True):
    """What a receiver accepts at most."""

    max_frames: int = 64
    max_message_bytes: int = 256 * 1024 * 1024
    max_array_dims: int = 8


class Encoder:
    """Encodes one message at a time into frames. Not thread-safe: one per thread."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._encode_custom)
        self._aux: list[Buffer] = []

    def encode(self, message: object) -> list[Buffer]:
        """Frames of `message`: the msgpack frame, then auxiliary frames in depth-first order."""
        self._aux = []
        main = self._encoder.encode(message)
        return [main, *self._aux]

    def _encode_custom(self, value: object) -> object:
        if isinstance(value, np.ndarray):
            return self._triple(value, value.dtype.str)
        if isinstance(value, Tensor):
            return self._triple(value.array, value.dtype)
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"cannot send a {type(value).__name__} on the wire")

    def _triple(self, array: np.ndarray[Any, Any], dtype: str) -> tuple[str, tuple[int, ...], object]:
        if array.dtype.str not in _NUMPY_DTYPES:
            raise TypeError(f"cannot send an array of dtype {array.dtype} on the wire")
        shape = array.shape
        if array.nbytes < INLINE_LIMIT_BYTES or not shape:
            return dtype, shape, msgspec.msgpack.Ext(EXT_RAW, array.tobytes())
        self._aux.append(np.ascontiguousarray(array).data.cast("B"))
        return dtype, shape, len(self._aux)


class Decoder(Generic[T]):
    """Decodes frames into one type. Not thread-safe: one per thread."""

    def __init__(self, target: type[T], limits: WireLimits | None = None) -> None:
        self._decoder = msgspec.msgpack.Decoder(target, ext_hook=decode_ext, dec_hook=self._decode_custom)
        self._limits = limits or WireLimits()
        self._frames: Sequence[Buffer] = ()

    def decode(self, frames: Sequence[Buffer]) -> T:
        """The message in `frames` (main frame first). Raises WireError, whatever the bytes are."""
        check_frames(frames, self._limits)
        self._frames = frames
        try:
            return self._decoder.decode(frames[0])
        except WireError:
            raise
        except (
            msgspec.MsgspecError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            MemoryError,
        ) as error:
            raise WireError(f"malformed message: {error}") from error
        finally:
            self._frames = ()

    def _decode_custom(self, target: type, value: object) -> object:
        if not isinstance(value, list) or len(value) != 3:
            raise WireError("an array must be [dtype, shape, data]")
        name, shape, data = value
        if not isinstance(name, str):
            raise WireError(f"array dtype must be a string, got {type(name).__name__}")
        is_tensor = target is Tensor
        dtype = _TORCH_DTYPES.get(name) if is_tensor else (name if name in _NUMPY_DTYPES else None)
        if dtype is None:
            raise WireError(f"array dtype {name[:32]!r} is not accepted")
        array = self._array(np.dtype(dtype), shape, data)
        return Tensor(array, name) if is_tensor else array

    def _array(self, dtype: np.dtype[Any], shape: object, data: object) -> np.ndarray[Any, Any]:
        if not isinstance(shape, list) or len(shape) > self._limits.max_array_dims:
            raise WireError(f"array shape must be a list of at most {self._limits.max_array_dims} sizes")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise WireError("array shape must hold whole numbers >= 0")
        raw = self._buffer(data)
        if math.prod(shape) * dtype.itemsize != raw.nbytes:
            raise WireError(f"array of shape {shape} and dtype {dtype.str} cannot have {raw.nbytes} bytes")
        return np.frombuffer(raw, dtype=dtype).reshape(shape)

    def _buffer(self, data: object) -> memoryview:
        if isinstance(data, memoryview):
            return data
        if type(data) is int:
            if not 1 <= data < len(self._frames):
                raise WireError(f"auxiliary frame {data} is not in a message of {len(self._frames)} frames")
            return memoryview(self._frames[data]).cast("B")
        raise WireError("array data must be extension 3 or the number of an auxiliary frame")


def decode_ext(code: int, data: memoryview) -> memoryview:
    """msgspec's extension hook: raw bytes only."""
    if code == EXT_RAW:
        return memoryview(bytes(data))
    if code in EXT_PICKLE:
        raise WireError(
            f"extension {code} (pickle) is refused: nothing that can run code is read from a socket"
        )
    raise WireError(f"unknown extension {code}")


def check_frames(frames: Sequence[Buffer], limits: WireLimits) -> None:
    """Raises WireError if the message is empty or larger than the limits."""
    if not frames:
        raise WireError("a message needs at least one frame")
    if len(frames) > limits.max_frames:
        raise WireError(f"a message may have {limits.max_frames} frames, got {len(frames)}")
    num_bytes = sum(memoryview(frame).nbytes for frame in frames)
    if num_bytes > limits.max_message_bytes:
        raise WireError(f"a message may have {limits.max_message_bytes} bytes, got {num_bytes}")
