"""Environment variables that Python reads itself. What has a flag arrives resolved, as `EngineConfig`."""

import os
from collections.abc import Mapping

from vllm_rs.config import ConfigError

_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


def check_invariants(environ: Mapping[str, str] = os.environ) -> bool:
    """VLLM_RS_CHECK_INVARIANTS: audit scheduler and block pool after every step, not only when idle."""
    return _switch("VLLM_RS_CHECK_INVARIANTS", environ)


def _switch(name: str, environ: Mapping[str, str]) -> bool:
    text = environ.get(name, "").strip().lower()
    if text not in _ON + _OFF:
        raise ConfigError(f"{name}: expected one of {', '.join(_ON + _OFF[1:])}, got {environ[name]!r}")
    return text in _ON
