"""From model files to packed weights, one stacked matrix at a time in one scratch array."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vllm_rs.errors import ModelError
from vllm_rs.models.base import CausalLM
from vllm_rs.models.ops import F32, Packer, Weight
from vllm_rs.models.params import LinearParam, Param, VectorParam
from vllm_rs.models.registry import resolve_model_class

_NAMES_SHOWN = 5

Progress = Callable[[int, int], None]
"""(tensors packed, tensors in all)."""


class TensorInfo(Protocol):
    """What the loader asks of one tensor in a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Row-major, as Hugging Face stores it."""


class ModelSource(Protocol):
    """The part of `_rust.ModelFiles` that loading needs; tests give arrays in memory."""

    @property
    def config(self) -> Mapping[str, Any]:
        """config.json."""

    def tensor_names(self) -> Sequence[str]:
        """Hugging Face names."""

    def tensor(self, name: str) -> TensorInfo:
        """Shape and dtype."""

    def read_f32(self, name: str, out: NDArray[np.float32]) -> None:
        """Any stored dtype, as float32."""

    def read_bf16(self, name: str, out: NDArray[np.uint16]) -> None:
        """Any stored dtype, rounded to bfloat16 bits."""


def build_model(source: ModelSource, max_model_len: int | None) -> CausalLM:
    """The registered class for the source's architecture, without weights."""
    architectures = source.config.get("architectures") or []
    return resolve_model_class(architectures)(source.config, max_model_len)


class CheckpointLoader:
    """`WeightLoader` over one source. Checks every name and shape before it reads anything."""

    def __init__(self, source: ModelSource, packer: Packer, progress: Progress | None = None) -> None:
        self.packer = packer
        self._source = source
        self._names = set(source.tensor_names())
        self._progress = progress or (lambda done, total: None)
        self._scratch: NDArray[Any] = np.empty(0, np.float32)

    def has(self, tensor: str) -> bool:
        """Whether the checkpoint holds this tensor."""
        return tensor in self._names

    def read_f32(self, tensor: str, shape: tuple[int, ...]) -> F32:
        """One tensor as a fresh float32 array."""
        self._refuse([_shape_problem(tensor, shape, self._source.tensor(tensor).shape)])
        out = np.empty(shape, np.float32)
        self._source.read_f32(tensor, out)
        return out

    def load(self, params: Sequence[Param], ignored: Sequence[str] = ()) -> dict[str, Weight]:
        """Packed weights by name."""
        self._check(params, ignored)
        packed: dict[str, Weight] = {}
        for done, param in enumerate(params):
            self._progress(done, len(params))
            packed[param.name] = self._pack(param)
        self._progress(len(params), len(params))
        self._scratch = np.empty(0, np.float32)
        return packed

    def _pack(self, param: Param) -> Weight:
        if isinstance(param, VectorParam):
            return self.packer.pack_vector(self.read_f32(param.source, (param.size,)))
        bias = self._read_bias(param) if param.bias else None
        wide = self.packer.compute_dtype == "float32"
        weight = self._scratch_for((param.out_features, param.in_features), np.float32 if wide else np.uint16)
        row = 0
        for name, rows in param.sources:
            part = weight[row : row + rows]
            if wide:
                self._source.read_f32(name + ".weight", part)
            else:
                self._source.read_bf16(name + ".weight", part)
            row += rows
        return self.packer.pack_linear(weight, bias)

    def _read_bias(self, param: LinearParam) -> F32:
        return np.concatenate([self.read_f32(name + ".bias", (rows,)) for name, rows in param.sources])

    def _scratch_for(self, shape: tuple[int, int], dtype: type[np.generic]) -> NDArray[Any]:
        """A view of the one scratch array, grown to the largest matrix seen."""
        size = shape[0] * shape[1]
        if self._scratch.dtype != dtype or self._scratch.size < size:
            self._scratch = np.empty(0, dtype)  # free the smaller one first
            self._scratch = np.empty(size, dtype)
        return self._scratch[:size].reshape(shape)

    def _check(self, params: Sequence[Param], ignored: Sequence[str]) -> None:
        expected = dict(shape for param in params for shape in _expected_shapes(param))
        skip = re.compile("|".join(ignored) or r"(?!)")
        missing = [name for name in expected if name not in self._names]
        unknown = sorted(name for name in self._names if name not in expected and not skip.fullmatch(name))
        problems = [
            f"{what} {_listed(names)}"
            for what, names in (("missing tensors:", missing), ("unknown tensors:", unknown))
            if names
        ]
        for name in expected:
            if name in self._names:
                problems.append(_shape_problem(name, expected[name], self._source.tensor(name).shape))
        self._refuse(problems)

    def _refuse(self, problems: Sequence[str]) -> None:
        found = [problem for problem in problems if problem]
        if found:
            shown = "; ".join(found[:_NAMES_SHOWN])
            more = f" (and {len(found) - _NAMES_SHOWN} more)" if len(found) > _NAMES_SHOWN else ""
            raise ModelError(f"the checkpoint does not fit its config.json: {shown}{more}")


def _expected_shapes(param: Param) -> list[tuple[str, tuple[int, ...]]]:
    if isinstance(param, VectorParam):
        return [(param.source, (param.size,))]
    shapes: list[tuple[str, tuple[int, ...]]] = []
    for name, rows in param.sources:
        shapes.append((name + ".weight", (rows, param.in_features)))
        if param.bias:
            shapes.append((name + ".bias", (rows,)))
    return shapes


def _shape_problem(name: str, expected: tuple[int, ...], given: tuple[int, ...]) -> str:
    return "" if tuple(given) == expected else f"{name} has shape {tuple(given)}, expected {expected}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
