"""Size and framing of messages on the wire."""

import json

import msgspec
import numpy as np
import pytest

from vllm_rs.wire import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    LogprobsTensors,
    SamplingParams,
    Tensor,
)
from vllm_rs.wire_codec import Decoder, Encoder

MIB = 1 << 20


def big_logprobs():
    """8 MiB of log-probabilities: 8,192 prompt positions of 256 candidates."""
    logprobs = np.linspace(-9, 0, 8192 * 256, dtype=np.float32).reshape(8192, 256)
    ids = np.zeros((8192, 256), np.int32)
    ranks = np.ones(8192, np.int32)
    return logprobs, LogprobsTensors(
        Tensor(ids, "int32"), Tensor(logprobs, "float32"), Tensor(ranks, "int32")
    )


def test_a_large_tensor_travels_as_a_frame_of_its_own_without_a_copy():
    logprobs, tensors = big_logprobs()
    output = EngineCoreOutput("a", [5], new_prompt_logprobs_tensors=tensors)
    frames = Encoder().encode(EngineCoreOutputs(0, [output], timestamp=1.0))
    own = [frame for frame in frames if memoryview(frame).nbytes == 8 * MIB]
    assert len(own) == 2, "ids and values"
    assert memoryview(frames[0]).nbytes < 1000
    assert any(np.shares_memory(np.frombuffer(frame, np.uint8), logprobs) for frame in own)
    decoded = Decoder(EngineCoreOutputs).decode([bytes(frames[0]), *frames[1:]])
    again = decoded.outputs[0].new_prompt_logprobs_tensors
    assert np.array_equal(again.logprobs.array, logprobs)
    assert np.shares_memory(again.logprobs.array, logprobs), "decoding copies nothing either"


@pytest.mark.covers("ENG-09")
def test_binary_messages_take_less_than_60_percent_of_json():
    """Requests and step outputs as they are while serving."""
    choose = np.random.default_rng(0)
    params = SamplingParams(temperature=0.0, max_tokens=128)
    request = EngineCoreRequest(
        "chatcmpl-0a1e18f823d545aeb887c0cf1344365a-44c50747",
        choose.integers(0, 49_152, 512).tolist(), None, params, None, 1795257891.25,
    )  # fmt: skip
    outputs = EngineCoreOutputs(
        0,
        [
            EngineCoreOutput(f"chatcmpl-{index:032x}", [int(choose.integers(0, 49_152))])
            for index in range(32)
        ],
        timestamp=12345.678,
    )
    for message in (request, outputs):
        binary = sum(memoryview(frame).nbytes for frame in Encoder().encode(message))
        as_json = json.dumps(named(message), separators=(",", ":")).encode()
        assert binary < 0.6 * len(as_json)


def named(value):
    """The same message as JSON objects: every field under its name."""
    if isinstance(value, msgspec.Struct):
        return {field: named(getattr(value, field)) for field in value.__struct_fields__}
    return [named(item) for item in value] if isinstance(value, list | set) else value
