"""Which device and attention path runs a model, and why. One table; every refusal names the flag."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vllm_rs.config import ConfigError
from vllm_rs.models.ops import AttentionShape

_LARGEST_CPU_HEAD_DIM = 512


@dataclass(frozen=True)
class AttentionChoice:
    """The attention path of a model on a device, with the reason for the log."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Rule:
    name: str
    device: str
    accepts: Callable[[AttentionShape, bool], bool]
    """(shape, whether the step is a recorded program)."""
    reason: str


def _any(shape: AttentionShape, recorded: bool) -> bool:
    return True


def _fits_cpu_kernel(shape: AttentionShape, recorded: bool) -> bool:
    return shape.head_dim <= _LARGEST_CPU_HEAD_DIM and shape.head_dim % 2 == 0


_RULES = (
    _Rule("cpu_paged", "cpu", _fits_cpu_kernel, "native paged kernel: online softmax, one call for all rows"),
    _Rule(
        "torch_reference", "torch", lambda shape, recorded: not recorded, "readable reference, call by call"
    ),
)
"""First match wins."""


def select_attention(
    device: str, shape: AttentionShape, *, recorded: bool, override: str | None = None
) -> AttentionChoice:
    """Decide by device, head_dim, sliding window and whether steps are recorded."""
    if override is not None and override not in {rule.name for rule in _RULES}:
        known = ", ".join(rule.name for rule in _RULES)
        raise ConfigError(f"--attention-backend: expected one of {known}, got {override}")
    for rule in _RULES:
        if override is not None and rule.name != override:
            continue
        if rule.device == device and rule.accepts(shape, recorded):
            window = f", sliding window {shape.sliding_window}" if shape.sliding_window else ""
            why = "asked for" if override else rule.reason
            return AttentionChoice(rule.name, f"{why} (device {device}, head_dim {shape.head_dim}{window})")
    asked = f"attention backend {override}" if override else "no attention backend"
    raise ConfigError(
        f"--device {device}: {asked} cannot run head_dim {shape.head_dim}"
        f"{' recorded' if recorded else ''}; use --device torch --enforce-eager"
    )


def resolve_dtype(requested: str, device: str, stored: Any) -> str:
    """`--dtype` to a compute dtype: auto is bfloat16 on CPU, and the checkpoint's own on the reference
    device.
    """
    if requested != "auto":
        return requested
    if device == "cpu":
        return "bfloat16"
    return "bfloat16" if str(stored) == "bfloat16" else "float32"
