"""The wire is one contract: the committed bytes are what Python and Rust write, and what both read.

The Rust half is `frontend-rs/wire/tests/golden`.
"""

import contextlib
import json
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from vllm_rs.errors import WireError
from vllm_rs.wire import EngineCoreOutputs, EngineCoreRequest, Tensor
from vllm_rs.wire_codec import Decoder, Encoder

from .cases import cases

GOLDEN = Path(__file__).parent / "golden"
CASES = cases()


def _frames(file: str) -> dict[str, list[bytes]]:
    text = json.loads((GOLDEN / file).read_text())
    return {name: [bytes.fromhex(frame) for frame in frames] for name, frames in text.items()}


WIRE = _frames("wire.json")
VLLM = _frames("vllm-0.32.0.json")


def _same(left: object, right: object) -> bool:
    """Equality that looks into arrays and tensors."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.dtype == right.dtype and np.array_equal(left.array, right.array)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, msgspec.Struct) and type(left) is type(right):
        return all(_same(getattr(left, f), getattr(right, f)) for f in left.__struct_fields__)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return left == right


def test_the_golden_bytes_cover_every_case() -> None:
    assert WIRE.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_python_writes_the_golden_bytes(name: str) -> None:
    assert [bytes(frame) for frame in Encoder().encode(CASES[name])] == WIRE[name]


@pytest.mark.covers("ENG-09")
@pytest.mark.parametrize("name", CASES)
def test_python_reads_the_bytes_that_rust_writes(name: str) -> None:
    value = CASES[name]
    decoded = Decoder(type(value)).decode(WIRE[name])
    assert _same(decoded, value)


@pytest.mark.parametrize("name", [name for name in VLLM if name.startswith("request")])
def test_python_reads_vllms_requests(name: str) -> None:
    request = Decoder(EngineCoreRequest).decode(VLLM[name])
    assert request.request_id.startswith("req-")
    assert [bytes(frame) for frame in Encoder().encode(request)] == VLLM[name]


@pytest.mark.parametrize("name", [name for name in VLLM if name.startswith("outputs")])
def test_python_reads_vllms_outputs(name: str) -> None:
    outputs = Decoder(EngineCoreOutputs).decode(VLLM[name])
    assert outputs.timestamp > 0


@pytest.mark.parametrize("target", [EngineCoreRequest, EngineCoreOutputs])
def test_mutated_bytes_are_refused_by_name_or_read(target: type) -> None:
    source = random.Random(7)
    decoder = Decoder(target)
    originals = [frames for name, frames in WIRE.items() if isinstance(CASES[name], target)]
    for _ in range(5_000):
        frames = [bytearray(frame) for frame in source.choice(originals)]
        for _ in range(source.randint(1, 4)):
            frame = source.choice(frames)
            at = source.randrange(len(frame) + 1)
            frame[at : at + source.randint(0, 2)] = source.randbytes(source.randint(0, 2))
        with contextlib.suppress(WireError):
            decoder.decode(frames)
