"""One step's inputs as flat arrays, the form kernels read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]


@dataclass(frozen=True)
class StepArrays:
    """T tokens of S sequences; L rows need logits. Sequences keep the order of the plan's rows."""

    token_ids: I32
    """[T]"""
    positions: I32
    """[T] absolute position of each token in its sequence."""
    query_start: I32
    """[S + 1] prefix sums of tokens per sequence."""
    block_tables: tuple[I32, ...]
    """Per KV group: [S, blocks], physical block ids in logical order; entries past a sequence's end are
    stale.
    """
    logit_rows: I32
    """[L] indices into the T tokens, ascending."""
    logit_sequences: I32
    """[L] which sequence each logit row belongs to."""

    @property
    def num_tokens(self) -> int:
        """T."""
        return len(self.token_ids)

    @property
    def num_sequences(self) -> int:
        """S."""
        return len(self.query_start) - 1

    @property
    def logit_positions(self) -> I32:
        """[L] absolute position of each logit row's token."""
        return self.positions[self.logit_rows]

    @property
    def sequence_lengths(self) -> I32:
        """[S] tokens in the cache after this step."""
        return self.positions[self.query_start[1:] - 1] + np.int32(1)

    def slot_mapping(self, block_size: int, group: int = 0) -> I32:
        """[T] where each token's key and value go: physical block * block_size + offset in it."""
        sequence = np.repeat(np.arange(self.num_sequences), np.diff(self.query_start))
        block, offset = np.divmod(self.positions, np.int32(block_size))
        return self.block_tables[group][sequence, block] * np.int32(block_size) + offset
