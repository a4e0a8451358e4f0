"""SamplingParams as users write them, and their translation to the wire.

The names, defaults and meanings are vLLM's.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from vllm_rs import wire
from vllm_rs._rust import Tokenizer
from vllm_rs.errors import RequestError

MIN_NONZERO_TEMPERATURE = 0.01
"""Smaller positive temperatures are raised to this, as in vLLM: dividing logits by less overflows."""


class RequestOutputKind(IntEnum):
    """Whether outputs repeat the whole text, carry only what is new, or come once at the end."""

    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass(slots=True, kw_only=True)
class SamplingParams:
    """How to sample one request. Temperature 0 is greedy; `max_tokens` None means up to the model's limit."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    repetition_detection: wire.RepetitionDetection | None = None
    """Ends the request with finish reason `repetition` when its tail repeats a pattern."""
    skip_reading_prefix_cache: bool | None = None
    extra_args: dict[str, Any] | None = None
    stop_strings: list[str] = field(init=False)
    """`stop` as a list."""

    def __post_init__(self) -> None:
        if self.stop is None:
            self.stop_strings = []
        else:
            self.stop_strings = [self.stop] if isinstance(self.stop, str) else list(self.stop)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise RequestError("min_tokens", f"at most max_tokens ({self.max_tokens})", self.min_tokens)
        if "" in self.stop_strings:
            raise RequestError("stop", "non-empty strings", self.stop)
        if self.stop_strings and not self.detokenize:
            raise RequestError("detokenize", "True when stop strings are given", self.detokenize)
        if 0.0 < self.temperature < MIN_NONZERO_TEMPERATURE:
            self.temperature = MIN_NONZERO_TEMPERATURE

    def to_wire(
        self, tokenizer: Tokenizer, *, max_model_len: int, num_prompt_tokens: int
    ) -> wire.SamplingParams:
        """The engine's form for one of the n completions: limits resolved, end-of-sequence ids filled in."""
        room_tokens = max_model_len - num_prompt_tokens
        skip_cache = True if self.prompt_logprobs is not None else self.skip_reading_prefix_cache
        eos_ids = [] if self.ignore_eos else tokenizer.eos_token_ids
        stop_ids = list(self.stop_token_ids or [])
        extra_eos = [token for token in eos_ids[1:] if token not in stop_ids]
        return wire.SamplingParams(
            n=1,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=self.seed,
            stop_token_ids=(stop_ids + extra_eos) or None,
            ignore_eos=self.ignore_eos,
            max_tokens=room_tokens if self.max_tokens is None else min(self.max_tokens, room_tokens),
            min_tokens=min(self.min_tokens, room_tokens),
            logprobs=self.logprobs,
            prompt_logprobs=self.prompt_logprobs,
            detokenize=self.detokenize,
            output_kind=RequestOutputKind.DELTA,
            _eos_token_id=eos_ids[0] if eos_ids else None,
            _all_stop_token_ids=set(stop_ids) | set(eos_ids),
            logit_bias=self.logit_bias,
            allowed_token_ids=self.allowed_token_ids,
            _bad_words_token_ids=bad_word_token_ids(tokenizer, self.bad_words or []) or None,
            repetition_detection=self.repetition_detection,
            skip_reading_prefix_cache=skip_cache,
            extra_args=self.extra_args,
        )


def bad_word_token_ids(tokenizer: Tokenizer, words: list[str]) -> list[list[int]]:
    """Token sequences that must not appear: each word at the start of a text and after a space."""
    sequences: list[list[int]] = []
    for word in words:
        for text in (word, " " + word.lstrip()):
            ids = tokenizer.encode(text, add_special_tokens=False)
            if ids and ids not in sequences:
                sequences.append(ids)
    return sequences
