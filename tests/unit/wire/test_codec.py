"""Bytes of the protocol: golden frames, positions, array triples, and what malformed bytes do."""

import contextlib
import json
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_rs.errors import WireError
from vllm_rs.sched.plan import PreviousToken, ScheduledRow, StepPlan
from vllm_rs.wire import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FinishReason,
    HandshakeInit,
    HandshakeStatus,
    LogprobsLists,
    LogprobsTensors,
    SamplingParams,
    SchedulerStats,
    Tensor,
    UtilityRequest,
)
from vllm_rs.wire_codec import Decoder, Encoder, WireLimits


def logprobs():
    return LogprobsLists(
        np.array([[7, 7, 9]], "<i4"), np.array([[-0.5, -0.5, -2.0]], "<f4"), np.array([1], "<i8")
    )


def request(**changes):
    fields = {
        "sampling_params": SamplingParams(temperature=0.0),
        "pooling_params": None,
        "arrival_time": 1234.5,
    }
    return EngineCoreRequest(
        **{"request_id": "req-1", "prompt_token_ids": [1, 2, 3], "mm_features": None, **fields, **changes}
    )


def test_golden_logprobs():
    (frame,) = Encoder().encode(logprobs())
    assert frame.hex() == (
        "9493a33c6934920103c70c03070000000700000009000000"
        "93a33c6634920103c70c03000000bf000000bf000000c0"
        "93a33c69389101d7030100000000000000c0"
    )


def test_golden_handshake_and_abort():
    hello = msgspec.msgpack.encode(HandshakeStatus("HELLO", local=False, headless=True))
    assert hello.hex() == "83a6737461747573a548454c4c4fa56c6f63616cc2a8686561646c657373c3"
    assert Decoder(list[str]).decode([bytes.fromhex("91a57265712d31")]) == ["req-1"]


@pytest.mark.covers("ENG-11")
def test_request_slots():
    (frame,) = Encoder().encode(request(client_index=3, priority=-2, cache_salt="s"))
    slots = msgspec.msgpack.decode(frame)
    expected = [
        "req-1",
        [1, 2, 3],
        None,
        {"temperature": 0.0},
        None,
        1234.5,
        None,
        "s",
        None,
        None,
        None,
        3,
        0,
        -2,
    ]
    assert slots == [*expected, None, False, None, None, None, False, None, None]
    assert frame.hex().startswith("dc0016a57265712d3193010203c0")


def test_output_slots_and_defaults():
    message = EngineCoreOutputs(
        2, [EngineCoreOutput("a", [5], finish_reason=FinishReason.REPETITION)], timestamp=1.5
    )
    (frame,) = Encoder().encode(message)
    slots = msgspec.msgpack.decode(frame)
    assert len(slots) == 9
    assert len(slots[1][0]) == 18
    assert slots[1][0][5] == 4
    minimal = Decoder(EngineCoreOutputs).decode(
        [msgspec.msgpack.encode([0, [["req-1", [43], None, None, None, 0]], None, 12.5])]
    )
    assert minimal.outputs[0].finish_reason is FinishReason.STOP


def test_missing_trailing_fields_have_defaults_and_unknown_ones_are_ignored():
    short = ["r", [1], None, {"max_tokens": 2, "of_the_future": 1}, None, 1.0]
    decoded = Decoder(EngineCoreRequest).decode([msgspec.msgpack.encode(short)])
    assert (decoded.sampling_params.max_tokens, decoded.client_index) == (2, 0)
    (frame,) = Encoder().encode(request())
    longer = [*msgspec.msgpack.decode(frame), "0.33", {"x": 1}]
    assert Decoder(EngineCoreRequest).decode([msgspec.msgpack.encode(longer)]) == request()


def test_parameters_drop_their_defaults():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(SamplingParams())) == {}
    odd = SamplingParams(_eos_token_id=2, _all_stop_token_ids={2}, logit_bias={5: 1.0}, stop="x")
    assert set(msgspec.msgpack.decode(msgspec.msgpack.encode(odd), strict=False)) == {
        "_eos_token_id", "_all_stop_token_ids", "logit_bias", "stop",
    }  # fmt: skip
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(odd), type=SamplingParams) == odd


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 40), (100, 3)])
def test_arrays_travel_inline_or_as_frames_of_their_own(shape):
    array = np.arange(int(np.prod(shape)), dtype="<f4").reshape(shape)
    values = LogprobsTensors(
        Tensor(array, "float32"), Tensor(array.astype("<u2"), "bfloat16"), Tensor(array, "float32")
    )
    frames = Encoder().encode(values)
    num_large = sum(tensor.array.nbytes >= 256 and shape != () for tensor in values[:3])
    assert len(frames) == 1 + num_large
    back = Decoder(LogprobsTensors).decode([bytes(frame) for frame in frames])
    for sent, got in zip(values[:3], back[:3], strict=True):
        assert (got.dtype, got.array.dtype, got.array.shape) == (sent.dtype, sent.array.dtype, shape)
        assert np.array_equal(got.array, sent.array)


def test_large_buffers_are_not_copied():
    array = np.zeros((1000, 2000), "<f4")
    frames = Encoder().encode(LogprobsLists(array[:1, :1].astype("<i4"), array, np.zeros(1, "<i8")))
    assert np.shares_memory(np.frombuffer(frames[1], "<f4"), array)


@pytest.mark.parametrize(
    ("triple", "message"),
    [
        (["<i4", [1], msgspec.msgpack.Ext(3, b"123")], "cannot have 3 bytes"),
        (["<i4", [-1], msgspec.msgpack.Ext(3, b"")], "whole numbers"),
        (["<i4", [1 << 62, 1 << 62], msgspec.msgpack.Ext(3, b"")], "cannot have 0 bytes"),
        (["|O", [1], msgspec.msgpack.Ext(3, b"12345678")], "not accepted"),
        (["<i4", [1], 1], "auxiliary frame 1"),
        (["<i4", [1], 0], "auxiliary frame 0"),
        (["<i4", [1], {"sender_id": 1}], "extension 3 or"),
        (["<i4", [1] * 9, msgspec.msgpack.Ext(3, b"1234")], "at most 8"),
        (["<i4", [1]], "must be"),
        (msgspec.msgpack.Ext(1, b"cos\nsystem"), "pickle"),
        (msgspec.msgpack.Ext(2, b""), "pickle"),
        (msgspec.msgpack.Ext(77, b""), "unknown extension 77"),
    ],
)
def test_lying_arrays_are_refused_by_reason(triple, message):
    frame = msgspec.msgpack.encode(["r", [1], None, {"prompt_logprob_token_ids": triple}, None, 0.0])
    with pytest.raises(WireError, match=message):
        Decoder(EngineCoreRequest).decode([frame])


def test_limits():
    decoder = Decoder(list[str], WireLimits(max_frames=2, max_message_bytes=10))
    for frames, message in (
        ([], "at least one"),
        ([b"\x90"] * 3, "2 frames"),
        ([b"\x90", b"x" * 10], "10 bytes"),
    ):
        with pytest.raises(WireError, match=message):
            decoder.decode(frames)


def test_objects_never_cross():
    with pytest.raises(TypeError, match="cannot send"):
        Encoder().encode([object()])
    with pytest.raises(TypeError, match="dtype object"):
        Encoder().encode([np.array([{}])])


SEEDS = [
    (EngineCoreRequest, request(sampling_params=SamplingParams(logit_bias={1: 2.0}, stop=["a"], logprobs=3))),
    (
        EngineCoreRequest,
        request(sampling_params=SamplingParams(prompt_logprob_token_ids=np.zeros((9, 9), "<i4"))),
    ),
    (
        EngineCoreOutputs,
        EngineCoreOutputs(0, [EngineCoreOutput("a", [1, 2], logprobs())], SchedulerStats(), 1.0),
    ),
    (UtilityRequest, UtilityRequest(0, 9, "profile", [True, {"a": [None, 1.5]}])),
    (HandshakeInit, msgspec.convert({"addresses": {"inputs": ["a"], "outputs": ["b"]}}, HandshakeInit)),
    (list[str], ["a", "b"]),
    (StepPlan, StepPlan(1, [2], [], [ScheduledRow(0, 0, [1, PreviousToken(0)])])),
]


@settings(max_examples=1500)
@given(st.integers(0, len(SEEDS) - 1), st.integers(0, 1 << 30), st.integers(1, 6))
def test_mutated_frames_decode_or_raise_wire_error(index, seed, edits):
    kind, value = SEEDS[index]
    frames = [bytearray(frame) for frame in Encoder().encode(value)]
    rng = random.Random(seed)
    for _ in range(edits):
        frame = rng.choice(frames)
        place = rng.randrange(len(frame) + 1)
        match rng.randrange(5):
            case 0:
                frame[place : place + rng.randrange(1, 9)] = b""
            case 1:
                frame[place:place] = rng.randbytes(rng.randrange(1, 9))
            case 2:
                frame[place : place + 1] = rng.choice(
                    [b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc7\x10\x01"]
                )
            case 3:
                frame[place : place + 1] = rng.randbytes(1)
            case _:
                frames = frames[: rng.randrange(1, len(frames) + 1)]
    try:
        decoded = Decoder(kind).decode([bytes(frame) for frame in frames])
    except WireError:
        return
    assert isinstance(decoded, list if kind == list[str] else kind)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_random_bytes_decode_or_raise_wire_error(frames):
    for kind, _ in SEEDS:
        with contextlib.suppress(WireError):
            Decoder(kind).decode(frames)


def test_deep_nesting_is_refused():
    with pytest.raises(WireError):
        Decoder(UtilityRequest).decode([b"\x91" * 100_000])


def test_messages_are_smaller_than_json():
    outputs = [EngineCoreOutput(f"chatcmpl-{index:032x}", [index * 997 % 49152]) for index in range(32)]
    message = EngineCoreOutputs(0, outputs, SchedulerStats(num_running_reqs=32), 1.5)
    assert len(Encoder().encode(message)[0]) < 0.6 * len(json.dumps(msgspec.to_builtins(message)))
