"""Log-probabilities of a step as the wire carries them."""

from collections.abc import Sequence

import numpy as np

from vllm_rs.sched.plan import TokenLogprobs
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


def prompt_logprobs_to_wire(positions: Sequence[TokenLogprobs]) -> LogprobsTensors:
    """The same shapes as torch tensors; row i scores prompt token i + 1."""
    lists = sampled_logprobs_to_wire(positions)
    return LogprobsTensors(
        Tensor(lists.token_ids, "int32"), Tensor(lists.logprobs, "float32"), Tensor(lists.ranks, "int64")
    )
