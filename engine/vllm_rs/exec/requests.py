"""What the runner remembers of the request in each slot."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from vllm_rs.exec.backend import SlotSampler
from vllm_rs.exec.step import I32
from vllm_rs.sched.plan import NewRequest
from vllm_rs.wire import SamplingParams


@dataclass(frozen=True)
class SlotRequest:
    """The part of a request that later steps need."""

    request_id: str
    prompt_token_ids: I32
    num_prompt_logprobs: int | None
    """How many per prompt token; -1 = whole vocabulary, None = not asked."""
    wants_logprobs: bool
    needs_history: bool
    """Whether sampling depends on the tokens already drawn (penalties, min_tokens, bad words)."""
    error: str | None = None
    """Why the sampler would not have this request."""


def enter_slot(sampler: SlotSampler, request: NewRequest) -> SlotRequest:
    """Hand the request's parameters to the sampler.

    If it will not have them, a neutral request takes the slot, and the error says why: one request fails, not
    the step it came in.
    """
    try:
        return _enter(sampler, request)
    except (ValueError, TypeError, ArithmeticError) as error:
        neutral = SamplingParams(temperature=0.0)
        entered = _enter(sampler, msgspec.structs.replace(request, sampling_params=neutral, seed=0))
        return dataclasses.replace(entered, error=f"{type(error).__name__}: {error}")


def _enter(sampler: SlotSampler, request: NewRequest) -> SlotRequest:
    params = request.sampling_params
    prompt = _ids(request.prompt_token_ids)
    bias = params.logit_bias or {}
    bad_words = params._bad_words_token_ids or []
    sampler.set_slot(
        request.slot,
        temperature=params.temperature,
        top_k=max(params.top_k, 0),
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        seed=request.seed,
        min_tokens=params.min_tokens,
        stop_token_ids=_ids(sorted(stop_tokens(params))),
        logit_bias_ids=_ids(bias.keys()),
        logit_bias_values=np.array(list(bias.values()), np.float32),
        allowed_token_ids=None if params.allowed_token_ids is None else _ids(params.allowed_token_ids),
        bad_words=bad_words,
        num_logprobs=params.logprobs,
        prompt_token_ids=prompt,
        output_token_ids=_ids(request.output_token_ids),
    )
    penalised = params.repetition_penalty != 1.0 or params.presence_penalty or params.frequency_penalty
    return SlotRequest(
        request.request_id,
        prompt,
        params.prompt_logprobs,
        params.logprobs is not None,
        bool(penalised or params.min_tokens or bad_words),
    )


def stop_tokens(params: SamplingParams) -> set[int]:
    """Every id that would end the request, masked until min_tokens."""
    return params._all_stop_token_ids | set(params.stop_token_ids or ())


def _ids(values: Iterable[int]) -> I32:
    return np.fromiter(values, np.int32)
