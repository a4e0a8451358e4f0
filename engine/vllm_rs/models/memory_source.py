"""A checkpoint held in arrays: random weights of any shape, or another library's, without a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_rs.models.loader import build_model
from vllm_rs.models.params import LinearParam

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class ArrayInfo:
    """Shape of one tensor."""

    shape: tuple[int, ...]


class MemorySource:
    """`ModelSource` over float32 arrays by Hugging Face name."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, F32]) -> None:
        self.config = config
        self._tensors = tensors

    def tensor_names(self) -> Sequence[str]:
        """Names given."""
        return list(self._tensors)

    def tensor(self, name: str) -> ArrayInfo:
        """Shape."""
        return ArrayInfo(self._tensors[name].shape)

    def read_f32(self, name: str, out: F32) -> None:
        """Copy."""
        out[...] = self._tensors[name]

    def read_bf16(self, name: str, out: NDArray[np.uint16]) -> None:
        """Round to nearest even."""
        out[...] = round_to_bf16(self._tensors[name])


def round_to_bf16(values: F32) -> NDArray[np.uint16]:
    """bfloat16 bits of finite float32 values, nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )


def random_source(config: Mapping[str, Any], seed: int = 0) -> MemorySource:
    """Random weights for a config, scaled so that activations keep their size through the layers."""
    random = np.random.default_rng(seed)
    tensors: dict[str, F32] = {}
    for param in build_model(MemorySource(config, {}), None).params():
        if not isinstance(param, LinearParam):
            tensors[param.source] = (1 + 0.1 * random.standard_normal(param.size)).astype(np.float32)
            continue
        for name, rows in param.sources:
            scale = param.in_features**-0.5
            tensors[name + ".weight"] = (scale * random.standard_normal((rows, param.in_features))).astype(
                np.float32
            )
            if param.bias:
                tensors[name + ".bias"] = (0.1 * random.standard_normal(rows)).astype(np.float32)
    return MemorySource(config, tensors)
