"""From the `architectures` of config.json to the class that implements it."""

import difflib
import importlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from vllm_rs.errors import ModelError
from vllm_rs.models.base import CausalLM

_BUILT_IN_MODULES = ("vllm_rs.models.llama",)
_classes: dict[str, type[CausalLM]] = {}

M = TypeVar("M", bound=type[CausalLM])


class UnsupportedArchitectureError(ModelError, ValueError):
    """No registered class implements the model's architecture."""


def register_model(*architectures: str) -> Callable[[M], M]:
    """Class decorator: the class serves these `architectures`. A later registration of a name replaces the
    earlier.
    """

    def register(model_class: M) -> M:
        for name in architectures:
            _classes[name] = model_class
        return model_class

    return register


def get_supported_archs() -> list[str]:
    """Names of every architecture that can be served, sorted."""
    _load_built_in()
    return sorted(_classes)


def resolve_model_class(architectures: Sequence[str]) -> type[CausalLM]:
    """The class of the first architecture that is registered."""
    _load_built_in()
    for name in architectures:
        if name in _classes:
            return _classes[name]
    given = ", ".join(architectures) or "(config.json names none)"
    supported = get_supported_archs()
    near = [
        match
        for name in architectures
        for match in difflib.get_close_matches(name, supported, n=3, cutoff=0.5)
    ]
    suggestion = f"; near matches: {', '.join(dict.fromkeys(near))}" if near else ""
    raise UnsupportedArchitectureError(
        f"architecture {given} is not supported{suggestion}", hint=f"supported: {', '.join(supported)}"
    )


def _load_built_in() -> None:
    for module in _BUILT_IN_MODULES:
        importlib.import_module(module)
