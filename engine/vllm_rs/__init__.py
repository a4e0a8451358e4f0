"""vllm-rs, an LLM serving engine: `LLM` and `SamplingParams` offline, `vllm-rs serve` over HTTP.

Names load on first use, so that the engine process and `import vllm_rs` pay only for what they touch.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036 (a source tree on the path has no pip to check this)
    raise ImportError(f"vllm-rs needs Python 3.11 or newer, this is {sys.version.split()[0]}")

if TYPE_CHECKING:
    from vllm_rs.build_info import build_info
    from vllm_rs.config import ConfigError
    from vllm_rs.offline.async_llm import AsyncLLM
    from vllm_rs.offline.llm import LLM
    from vllm_rs.offline.llm_engine import LLMEngine
    from vllm_rs.offline.outputs import CompletionOutput, RequestOutput
    from vllm_rs.offline.sampling_params import SamplingParams

    __version__: str

__all__ = [
    "LLM",
    "AsyncLLM",
    "CompletionOutput",
    "ConfigError",
    "LLMEngine",
    "RequestOutput",
    "SamplingParams",
    "__version__",
    "build_info",
]

_HOME = {
    "LLM": "offline.llm",
    "AsyncLLM": "offline.async_llm",
    "LLMEngine": "offline.llm_engine",
    "CompletionOutput": "offline.outputs",
    "RequestOutput": "offline.outputs",
    "SamplingParams": "offline.sampling_params",
    "ConfigError": "config",
    "build_info": "build_info",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("vllm-rs")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
