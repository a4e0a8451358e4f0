"""How a model declares its weights, and what a loader offers it. Declarations are data: sharding and packing
read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from vllm_rs.models.ops import Packer, Weight


@dataclass(frozen=True)
class LinearParam:
    """A matrix [sum of out_features, in_features], its rows stacked from one or more checkpoint tensors."""

    name: str
    sources: tuple[tuple[str, int], ...]
    """(checkpoint name without ".weight", out_features), in stacking order: q, k, v or gate, up."""
    in_features: int
    bias: bool = False
    shard_dim: Literal[0, 1] | None = None
    """Dimension split over tensor-parallel ranks: 0 outputs of each source, 1 inputs, None replicated."""

    @property
    def out_features(self) -> int:
        """Rows of the stacked matrix."""
        return sum(rows for _, rows in self.sources)


@dataclass(frozen=True)
class VectorParam:
    """A replicated float32 vector, such as a norm's weight."""

    name: str
    source: str
    """Full checkpoint name."""
    size: int


Param = LinearParam | VectorParam


class WeightLoader(Protocol):
    """Reads a checkpoint and packs it for one backend."""

    packer: Packer

    def load(self, params: Sequence[Param], ignored: Sequence[str] = ()) -> dict[str, Weight]:
        """Packed weights by `Param.name`; a ModelError names missing, unknown and mis-shaped tensors."""

    def has(self, tensor: str) -> bool:
        """Whether the checkpoint holds this tensor."""

    def read_f32(self, tensor: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """One tensor as float32 (small ones: tables and vectors)."""
