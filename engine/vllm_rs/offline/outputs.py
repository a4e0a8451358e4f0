"""What a caller gets back: requests, their completions, log-probabilities. Names and fields as in vLLM."""

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class Logprob:
    """One candidate token at one position."""

    logprob: float
    rank: int | None = None
    """1-based rank among all tokens of the vocabulary."""
    decoded_token: str | None = None


PositionLogprobs: TypeAlias = dict[int, Logprob]
"""Candidates at one position, keyed by token id; the sampled (or prompt) token is always among them."""


@dataclass(slots=True)
class CompletionOutput:
    """One completion of a prompt; `index` is 0 .. n-1."""

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[PositionLogprobs] | None = None
    finish_reason: str | None = None
    """stop | length | abort | error | repetition once finished."""
    stop_reason: int | str | None = None
    """The stop string or stop token id that ended it; None for end of sequence."""

    def finished(self) -> bool:
        """Whether no more tokens will come."""
        return self.finish_reason is not None


@dataclass(slots=True)
class RequestOutput:
    """State of one request: the prompt and all its completions so far."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = False
    prompt_logprobs: list[PositionLogprobs | None] | None = None
    """One entry per prompt token; the first is None, as nothing precedes it."""
    num_cached_tokens: int | None = None
    """Prompt tokens whose KV came from the prefix cache."""
