"""What a request may ask for, checked apart from decoding, so that a bad value is an error of its request
only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from vllm_rs.errors import RequestError
from vllm_rs.wire import EngineCoreRequest, SamplingParams

MAX_N = 16_384
MAX_LOGIT_BIAS = 100.0
MAX_PATTERN_TOKENS = 1024
"""Longest pattern that repetition detection looks for; every length is tried after every token."""
INT64_MIN, UINT64_MAX = -(1 << 63), (1 << 64) - 1
INT32_MAX = (1 << 31) - 1
FLOAT32_TINY, FLOAT32_MAX = 2.0**-126, (2.0 - 2.0**-23) * 2.0**127
"""Samplers compute in float32: a smaller number is zero or denormal there, a larger one infinite."""


@dataclass(frozen=True)
class SamplingLimits:
    """Bounds of `validate`. None means that the checker does not know the bound."""

    vocab_size: int | None = None
    max_model_len: int | None = None
    max_logprobs: int | None = None
    """Most alternatives per position; -1 in a request means the whole vocabulary and is checked against
    it.
    """
    max_stop_token_ids: int = 1024
    max_logit_bias: int = 4096
    max_bad_words: int = 1024
    max_bad_word_tokens: int = 256


_UNSUPPORTED: tuple[tuple[str, object], ...] = (
    ("watermarking", None),
    ("prompt_logprob_token_ids", None),
    ("prompt_logprob_start", None),
    ("logprob_token_ids", None),
    ("structured_outputs", None),
    ("thinking_token_budget", None),
    ("trace_decode_token_ids", None),
)


def validate(params: SamplingParams, limits: SamplingLimits) -> None:
    """Raises RequestError, naming field, limit and value, if `params` cannot be served."""
    _check_numbers(params)
    _check_lengths(params, limits)
    _check_logprobs(params, limits)
    _check_token_ids(params, limits)
    for field, neutral in _UNSUPPORTED:
        value = getattr(params, field)
        if value is not neutral and value is not False:
            raise RequestError(field, "left out: this engine does not support it", value)


def validate_request(request: EngineCoreRequest, limits: SamplingLimits) -> tuple[list[int], SamplingParams]:
    """Prompt and sampling parameters of a request this engine can serve; raises RequestError otherwise."""
    for field in ("mm_features", "pooling_params", "lora_request", "prompt_embeds", "prompt_is_token_ids"):
        value = getattr(request, field)
        if value is not None and value != []:
            raise RequestError(field, "left out: this engine does not support it", type(value).__name__)
    if request.resumable:
        raise RequestError("resumable", "false: this engine takes whole prompts", True)
    if request.sampling_params is None:
        raise RequestError("sampling_params", "given", None)
    prompt = request.prompt_token_ids
    if not prompt:
        raise RequestError("prompt_token_ids", "at least one token long", prompt)
    if limits.max_model_len is not None and len(prompt) >= limits.max_model_len:
        raise RequestError("prompt_token_ids", f"fewer than {limits.max_model_len} tokens", len(prompt))
    if limits.vocab_size is not None and not (min(prompt) >= 0 and max(prompt) < limits.vocab_size):
        bad = next(token for token in prompt if not 0 <= token < limits.vocab_size)
        raise RequestError("prompt_token_ids", f"token ids in [0, {limits.vocab_size})", bad)
    params = _reachable_stops(request.sampling_params, limits)
    validate(params, limits)
    return prompt, params


def _reachable_stops(params: SamplingParams, limits: SamplingLimits) -> SamplingParams:
    """Without the stop ids that no token can have: tokenizers name more ids than models have logits."""
    if limits.vocab_size is None:
        return params
    vocabulary = range(limits.vocab_size)
    stops, eos = params.stop_token_ids, params._eos_token_id
    return msgspec.structs.replace(
        params,
        stop_token_ids=stops and [token_id for token_id in stops if token_id in vocabulary],
        _eos_token_id=eos if eos in vocabulary else None,
        _all_stop_token_ids={token_id for token_id in params._all_stop_token_ids if token_id in vocabulary},
    )


def _check_numbers(params: SamplingParams) -> None:
    _in_range("presence_penalty", params.presence_penalty, -2.0, 2.0)
    _in_range("frequency_penalty", params.frequency_penalty, -2.0, 2.0)
    _in_range("temperature", params.temperature, 0.0, 2.0)
    if 0.0 < params.temperature < FLOAT32_TINY:
        raise RequestError("temperature", "0 or a normal float32 above it", params.temperature)
    _in_range("min_p", params.min_p, 0.0, 1.0)
    if not FLOAT32_TINY <= params.repetition_penalty <= FLOAT32_MAX:
        raise RequestError("repetition_penalty", "a finite float32 above 0", params.repetition_penalty)
    if not FLOAT32_TINY <= params.top_p <= 1.0:
        raise RequestError("top_p", "a float32 above 0 and at most 1", params.top_p)
    _in_range("top_k", params.top_k, -1, INT32_MAX)
    if params.seed is not None and not INT64_MIN <= params.seed <= UINT64_MAX:
        raise RequestError("seed", "a 64-bit integer", params.seed)
    if not 1 <= params.n <= MAX_N:
        raise RequestError("n", f"in [1, {MAX_N}]", params.n)
    if params.n > 1 and params.temperature == 0.0:
        raise RequestError("n", "1 when temperature is 0, as all choices would be equal", params.n)
    for token_id, bias in (params.logit_bias or {}).items():
        _in_range(f"logit_bias[{token_id}]", bias, -MAX_LOGIT_BIAS, MAX_LOGIT_BIAS)


def _check_lengths(params: SamplingParams, limits: SamplingLimits) -> None:
    if params.max_tokens is not None:
        _at_least("max_tokens", params.max_tokens, 1)
    _in_range("min_tokens", params.min_tokens, 0, INT32_MAX)
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        raise RequestError("min_tokens", f"at most max_tokens ({params.max_tokens})", params.min_tokens)
    if params.stream_interval is not None:
        _at_least("stream_interval", params.stream_interval, 1)
    stops = [params.stop] if isinstance(params.stop, str) else params.stop or []
    if any(not stop for stop in stops):
        raise RequestError("stop", "strings of at least one character", params.stop)
    if stops and not params.detokenize:
        raise RequestError("detokenize", "true when stop strings are given", params.detokenize)
    _at_most("stop_token_ids", params.stop_token_ids, limits.max_stop_token_ids)
    _at_most("logit_bias", params.logit_bias, limits.max_logit_bias)
    _at_most("bad_words", params._bad_words_token_ids, limits.max_bad_words)
    for sequence in params._bad_words_token_ids or ():
        if not 1 <= len(sequence) <= limits.max_bad_word_tokens:
            raise RequestError("bad_words", f"1 to {limits.max_bad_word_tokens} tokens each", len(sequence))
    detection = params.repetition_detection
    if detection is not None:
        _in_range("repetition_detection.max_pattern_size", detection.max_pattern_size, 0, MAX_PATTERN_TOKENS)
        _at_least("repetition_detection.min_pattern_size", detection.min_pattern_size, 0)
        _at_least("repetition_detection.min_count", detection.min_count, 0)


def _check_logprobs(params: SamplingParams, limits: SamplingLimits) -> None:
    for field, value in (("logprobs", params.logprobs), ("prompt_logprobs", params.prompt_logprobs)):
        if value is None:
            continue
        _at_least(field, value, -1)
        bounds = [bound for bound in (limits.max_logprobs, limits.vocab_size) if bound is not None]
        wanted = value if value >= 0 else limits.vocab_size
        if bounds and wanted is not None and wanted > min(bounds):
            raise RequestError(field, f"at most {min(bounds)}", value)


def _check_token_ids(params: SamplingParams, limits: SamplingLimits) -> None:
    _in_vocab("logit_bias", params.logit_bias or (), limits)
    _in_vocab("bad_words", [token for words in params._bad_words_token_ids or () for token in words], limits)
    if params.allowed_token_ids is not None:
        if not params.allowed_token_ids:
            raise RequestError("allowed_token_ids", "at least one token id", [])
        _in_vocab("allowed_token_ids", params.allowed_token_ids, limits)


def _in_vocab(field: str, token_ids: Iterable[int], limits: SamplingLimits) -> None:
    if limits.vocab_size is None:
        return
    for token_id in token_ids:
        if not 0 <= token_id < limits.vocab_size:
            raise RequestError(field, f"token ids in [0, {limits.vocab_size})", token_id)


def _in_range(field: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # NaN fails as well
        raise RequestError(field, f"in [{low:.10g}, {high:.10g}]", value)


def _at_least(field: str, value: int, low: int) -> None:
    if value < low:
        raise RequestError(field, f"at least {low}", value)


def _at_most(field: str, values: Sequence[object] | dict[int, float] | None, limit: int) -> None:
    if values is not None and len(values) > limit:
        raise RequestError(field, f"at most {limit} entries", len(values))
