"""Reference of the native sampler in numpy: same contract (`_cpu.Sampler`), same order of operations, no
speed.

The torch backend samples with it, and the native sampler is tested against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vllm_rs.exec.backend import F32, LogprobsRow
from vllm_rs.exec.step import I32

F64 = NDArray[np.float64]

_U32 = 0xFFFFFFFF


def philox_uniform(seed: int, position: int, stream: int) -> float:
    """Uniform in [0, 1), 53 bits: Philox4x32-10, key = seed modulo 2**64, counter = (position, stream)."""
    seed %= 1 << 64
    key = [seed & _U32, seed >> 32]
    counter = [position & _U32, (position >> 32) & _U32, stream & _U32, 0]
    for _ in range(10):
        low, high = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (high >> 32) ^ counter[1] ^ key[0],
            high & _U32,
            (low >> 32) ^ counter[3] ^ key[1],
            low & _U32,
        ]
        key = [(key[0] + 0x9E3779B9) & _U32, (key[1] + 0xBB67AE85) & _U32]
    return ((counter[0] << 21) | (counter[1] >> 11)) * 2.0**-53


@dataclass
class _Slot:
    """One request's parameters and history; names as in `SamplingParams`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    min_tokens: int
    stop_token_ids: I32
    logit_bias_ids: I32
    logit_bias_values: F32
    allowed_token_ids: I32 | None
    bad_words: list[list[int]]
    num_logprobs: int | None
    prompt_token_ids: I32
    output: list[int] = field(default_factory=list)


@dataclass
class ReferenceSampleResult:
    """See `_cpu.SampleResult`."""

    token_ids: I32
    logprobs: list[LogprobsRow | None]
    num_nonfinite: I32
    exhausted: NDArray[np.bool_]


class ReferenceSampler:
    """`SlotSampler` plus drawing from given logits."""

    def __init__(self, num_slots: int, vocab_size: int) -> None:
        self._slots: list[_Slot | None] = [None] * num_slots
        self._vocab_size = vocab_size

    def set_slot(
        self,
        slot: int,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        repetition_penalty: float,
        presence_penalty: float,
        frequency_penalty: float,
        seed: int,
        min_tokens: int,
        stop_token_ids: I32,
        logit_bias_ids: I32,
        logit_bias_values: F32,
        allowed_token_ids: I32 | None,
        bad_words: Sequence[Sequence[int]],
        num_logprobs: int | None,
        prompt_token_ids: I32,
        output_token_ids: I32,
    ) -> None:
        """A request enters the slot."""
        self._slots[slot] = _Slot(
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            seed,
            min_tokens,
            stop_token_ids,
            logit_bias_ids,
            logit_bias_values,
            allowed_token_ids,
            [list(word) for word in bad_words],
            num_logprobs,
            prompt_token_ids,
            output_token_ids.tolist(),
        )

    def clear_slot(self, slot: int) -> None:
        """The request leaves."""
        self._slots[slot] = None

    def append(self, slot: int, token_ids: I32) -> None:
        """Output tokens were committed."""
        self._slot(slot).output.extend(token_ids.tolist())

    def _slot(self, slot: int) -> _Slot:
        state = self._slots[slot]
        if state is None:
            raise ValueError(f"slot {slot} is empty")
        return state

    def sample_logits(
        self, logits: F32, slots: I32, positions: I32, stream: int = 0
    ) -> ReferenceSampleResult:
        """One token per row of logits [rows, vocab]."""
        tokens: list[int] = []
        logprobs: list[LogprobsRow | None] = []
        exhausted: list[bool] = []
        for row, slot, position in zip(logits, slots.tolist(), positions.tolist(), strict=True):
            state = self._slot(slot)
            adjusted = adjust_logits(row, state)
            exhausted.append(not np.nanmax(adjusted, initial=-np.inf) > -np.inf)
            if exhausted[-1]:
                tokens.append(0)
                logprobs.append(None)
                continue
            if state.temperature == 0.0 or np.isposinf(np.nanmax(adjusted)):
                token = int(np.argmax(adjusted))
            else:
                token = _draw(adjusted, state, philox_uniform(state.seed, position, stream))
            tokens.append(token)
            asked = state.num_logprobs is not None
            logprobs.append(top_logprobs(row, token, state.num_logprobs or 0) if asked else None)
        nonfinite = np.count_nonzero(~np.isfinite(logits), axis=1).astype(np.int32)
        return ReferenceSampleResult(
            np.array(tokens, np.int32), logprobs, nonfinite, np.array(exhausted, np.bool_)
        )

    def score_logits(self, logits: F32, target_ids: I32, num_logprobs: int) -> tuple[I32, F32, I32]:
        """Log-probabilities of the targets and the top k of each row."""
        rows = [
            top_logprobs(row, target, num_logprobs)
            for row, target in zip(logits, target_ids.tolist(), strict=True)
        ]
        ids, values = np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows])
        return ids, values, np.array([row[2] for row in rows], np.int32)


def adjust_logits(logits: F32, state: _Slot) -> F32:
    """Masks, bias and penalties, in the contract's order; float32 [vocab]."""
    out = logits.astype(np.float32, copy=True)
    if state.allowed_token_ids is not None:
        masked = np.full_like(out, -np.inf)
        masked[state.allowed_token_ids] = out[state.allowed_token_ids]
        out = masked
    for word in state.bad_words:
        prefix = word[:-1]
        if not prefix or state.output[-len(prefix) :] == prefix:
            out[word[-1]] = -np.inf
    if len(state.output) < state.min_tokens:
        out[state.stop_token_ids] = -np.inf
    np.add.at(out, state.logit_bias_ids, state.logit_bias_values)
    _penalise(out, state)
    return out


def _penalise(logits: F32, state: _Slot) -> None:
    if state.repetition_penalty != 1.0:
        seen = np.unique(np.concatenate([state.prompt_token_ids, np.array(state.output, np.int32)]))
        factor = np.float32(state.repetition_penalty)
        logits[seen] = np.where(logits[seen] > 0, logits[seen] / factor, logits[seen] * factor)
    if state.output and (state.frequency_penalty or state.presence_penalty):
        ids, counts = np.unique(np.array(state.output, np.int32), return_counts=True)
        logits[ids] -= np.float32(state.frequency_penalty) * counts.astype(np.float32)
        logits[ids] -= np.float32(state.presence_penalty)


def _draw(logits: F32, state: _Slot, uniform: float) -> int:
    """Temperature, min_p, top_k, top_p; then the first id whose cumulative weight exceeds uniform * total."""
    weights = candidate_weights(logits, state.temperature, state.min_p, state.top_k, state.top_p)
    cumulative = np.cumsum(weights)
    index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))


def candidate_weights(logits: F32, temperature: float, min_p: float, top_k: int, top_p: float) -> F64:
    """Unnormalised weights [vocab], the most likely token 1.0; 0 where a filter removed it."""
    scaled = logits / np.float32(temperature)
    weights: F64 = np.exp((scaled - scaled.max()).astype(np.float64))
    if min_p > 0.0:
        weights[weights < min_p] = 0.0
    order = np.argsort(-weights, kind="stable")  # ties: lower id first
    if 0 < top_k < len(weights):
        weights[order[top_k:]] = 0.0
    if top_p < 1.0:
        cumulative = np.cumsum(weights[order])
        # The smallest set that reaches top_p: a token stays while what comes before it falls short.
        before = cumulative - weights[order]
        weights[order[before >= top_p * cumulative[-1]]] = 0.0
        weights[order[0]] = 1.0
    return weights


def top_logprobs(logits: F32, token: int, num_logprobs: int) -> LogprobsRow:
    """The token's own log-probability first, then the top `num_logprobs` (-1: all), and the token's rank: how
    many are at least as likely.
    """
    exact = logits.astype(np.float64)
    peak = exact.max()
    normalised = exact - (peak + np.log(np.exp(exact - peak).sum()))
    count = len(logits) if num_logprobs < 0 else num_logprobs
    top = np.argsort(-exact, kind="stable")[:count]
    ids = np.concatenate([[token], top]).astype(np.int32)
    rank = max(1, int(np.count_nonzero(exact >= exact[token])))
    return ids, normalised[ids].astype(np.float32), rank
