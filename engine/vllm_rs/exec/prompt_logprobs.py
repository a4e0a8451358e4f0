"""Log-probabilities of prompt tokens: the head runs again over rows that are not sampled, a few at a time."""

from dataclasses import dataclass

import numpy as np

from vllm_rs.exec.backend import Backend
from vllm_rs.exec.step import I32, StepArrays
from vllm_rs.sched.plan import PromptLogprobs


@dataclass(frozen=True)
class PromptScores:
    """Leading tokens of one row of the plan whose logits score the prompt token after them."""

    row: int
    """Index into the plan's rows."""
    first_token: int
    """Index of the row's first token in the step."""
    count: int
    targets: I32
    """Prompt tokens from the one after `first_token` on; at least `count` of them."""
    num_logprobs: int


def score_prompts(
    backend: Backend, step: StepArrays, scores: PromptScores, rows_at_once: int
) -> list[PromptLogprobs]:
    """The scored tokens in order. Bounded memory: at most `rows_at_once` rows of logits exist at a time."""
    parts: list[PromptLogprobs] = []
    for done in range(0, scores.count, rows_at_once):
        count = min(rows_at_once, scores.count - done)
        first = scores.first_token + done
        backend.forward_head(step, np.arange(first, first + count, dtype=np.int32))
        targets = np.ascontiguousarray(scores.targets[done : done + count])
        rows = np.arange(count, dtype=np.int32)
        parts.append(PromptLogprobs.from_arrays(*backend.score(rows, targets, scores.num_logprobs)))
    return parts
