"""Log-probabilities of a step as the wire carries them."""

from collections.abc import Sequence

import numpy as np

from vllm_rs.sched.plan import PromptLogprobs, TokenLogprobs
from vllm_rs.wire import LogprobsLists, LogprobsTensors, Tensor


def sampled_logprobs_to_wire(positions: Sequence[TokenLogprobs]) -> LogprobsLists:
    """int32 [positions, k + 1], float32 [positions, k + 1], int64 [positions]; column 0 is the sampled
    token.
    """
    return LogprobsLists(
        np.array([position.token_ids for position in positions], dtype=np.int32),
        np.array([position.logprobs for position in positions], dtype=np.float32),
        np.array([position.rank for position in positions], dtype=np.int64),
    )


def prompt_logprobs_to_wire(parts: Sequence[PromptLogprobs], num_logprobs: int) -> LogprobsTensors:
    """The same shapes as torch tensors; row i scores prompt token i + 1.

    A prompt of one token has no row, and still an answer: its first position never has log-probabilities.
    """
    if parts:
        token_ids, logprobs, ranks = map(np.concatenate, zip(*(part.arrays() for part in parts), strict=True))
    else:
        shape = (0, 1 + max(0, num_logprobs))
        token_ids, logprobs = np.empty(shape, np.int32), np.empty(shape, np.float32)
        ranks = np.empty(0, np.int32)
    return LogprobsTensors(
        Tensor(token_ids, "int32"), Tensor(logprobs, "float32"), Tensor(ranks.astype(np.int64), "int64")
    )
