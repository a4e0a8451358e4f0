"""Each bad value is refused by the name of its field, with the limit and what was given."""

import math

import pytest

from vllm_rs.errors import RequestError
from vllm_rs.wire import (
    EngineCoreRequest,
    LoRARequest,
    PoolingParams,
    RepetitionDetection,
    SamplingParams,
    StructuredOutputsParams,
)
from vllm_rs.wire_validate import SamplingLimits, validate, validate_request

LIMITS = SamplingLimits(vocab_size=100, max_model_len=32, max_logprobs=20)


@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("presence_penalty", {"presence_penalty": 2.1}),
        ("frequency_penalty", {"frequency_penalty": -2.1}),
        ("repetition_penalty", {"repetition_penalty": 0.0}),
        ("repetition_penalty", {"repetition_penalty": math.inf}),
        ("temperature", {"temperature": math.nan}),
        ("temperature", {"temperature": -0.1}),
        ("temperature", {"temperature": 2.5}),
        ("temperature", {"temperature": 1e-50}),
        ("repetition_penalty", {"repetition_penalty": 1e-50}),
        ("repetition_penalty", {"repetition_penalty": 1e300}),
        ("top_p", {"top_p": 1e-50}),
        ("top_k", {"top_k": 2**31}),
        ("min_tokens", {"min_tokens": 2**40, "max_tokens": None}),
        ("top_p", {"top_p": 0.0}),
        ("top_p", {"top_p": math.nan}),
        ("top_k", {"top_k": -2}),
        ("min_p", {"min_p": 1.1}),
        ("seed", {"seed": 1 << 65}),
        ("n", {"n": 0}),
        ("n", {"n": 2, "temperature": 0.0}),
        ("max_tokens", {"max_tokens": 0}),
        ("min_tokens", {"min_tokens": -1}),
        ("min_tokens", {"min_tokens": 17}),
        ("stream_interval", {"stream_interval": 0}),
        ("stop", {"stop": ["a", ""]}),
        ("detokenize", {"stop": "a", "detokenize": False}),
        ("logprobs", {"logprobs": 21}),
        ("logprobs", {"logprobs": -2}),
        ("logprobs", {"logprobs": -1}),
        ("prompt_logprobs", {"prompt_logprobs": 21}),
        ("stop_token_ids", {"stop_token_ids": [1] * 1025}),
        ("logit_bias", {"logit_bias": {-1: 1.0}}),
        (r"logit_bias\[3\]", {"logit_bias": {3: math.nan}}),
        (r"logit_bias\[3\]", {"logit_bias": {3: 100.5}}),
        (r"logit_bias\[3\]", {"logit_bias": {3: -1e39}}),
        ("allowed_token_ids", {"allowed_token_ids": []}),
        ("allowed_token_ids", {"allowed_token_ids": [100]}),
        ("bad_words", {"_bad_words_token_ids": [[]]}),
        ("bad_words", {"_bad_words_token_ids": [[1, 100]]}),
        ("repetition_detection.min_count", {"repetition_detection": RepetitionDetection(1, 1, -1)}),
        ("repetition_detection.max_pattern_size", {"repetition_detection": RepetitionDetection(1025, 1, 2)}),
        ("structured_outputs", {"structured_outputs": StructuredOutputsParams(regex="a")}),
        ("thinking_token_budget", {"thinking_token_budget": 4}),
    ],
)
def test_bad_values_name_their_field(field, params):
    with pytest.raises(RequestError, match=f"^{field} must be") as caught:
        validate(SamplingParams(**params), LIMITS)
    assert caught.value.limit


def test_good_values_pass():
    validate(SamplingParams(), LIMITS)
    validate(
        SamplingParams(
            temperature=0.0, top_k=-1, top_p=1.0, seed=-5, logprobs=20, stop_token_ids=[0, 99],
            max_tokens=None, logit_bias={5: -100.0}, _bad_words_token_ids=[[1, 2]], stop=["x"],
        ),
        LIMITS,
    )  # fmt: skip
    validate(SamplingParams(logprobs=-1, stop_token_ids=[10**6]), SamplingLimits())


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("prompt_token_ids", {"prompt_token_ids": []}),
        ("prompt_token_ids", {"prompt_token_ids": None}),
        ("prompt_token_ids", {"prompt_token_ids": [1] * 32}),
        ("prompt_token_ids", {"prompt_token_ids": [1, -1]}),
        ("prompt_token_ids", {"prompt_token_ids": [1, 100]}),
        ("sampling_params", {"sampling_params": None}),
        ("pooling_params", {"pooling_params": PoolingParams(task="embed")}),
        ("lora_request", {"lora_request": LoRARequest("a", 1, "/a")}),
        ("resumable", {"resumable": True}),
        ("top_p", {"sampling_params": SamplingParams(top_p=3)}),
    ],
)
def test_requests_that_cannot_be_served(field, changes):
    fields = {"prompt_token_ids": [1], "sampling_params": SamplingParams(), "pooling_params": None, **changes}
    request = EngineCoreRequest(request_id="r", mm_features=None, arrival_time=0.0, **fields)
    with pytest.raises(RequestError, match=f"^{field} must be"):
        validate_request(request, LIMITS)


def test_a_huge_value_makes_a_short_message():
    with pytest.raises(RequestError) as caught:
        raise RequestError("stop", "short", "x" * 100_000)
    assert len(str(caught.value)) < 300


def test_stop_ids_that_no_token_can_have_are_left_out():
    params = SamplingParams(
        stop_token_ids=[5, 100, -1, 2**40], _eos_token_id=100, _all_stop_token_ids={5, 7, 100, 2**40}
    )
    request = EngineCoreRequest("r", [1], None, params, None, 0.0)
    _, reachable = validate_request(request, LIMITS)
    assert reachable.stop_token_ids == [5]
    assert reachable._eos_token_id is None
    assert reachable._all_stop_token_ids == {5, 7}
