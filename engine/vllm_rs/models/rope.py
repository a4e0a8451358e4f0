"""Rotary position tables: inverse frequencies of each published scaling, and the cos | sin table the kernels
read.

Frequencies are float32, computed in double precision and rounded once. Two kinds would depend on the
length of the text in other engines, which changes keys already cached; here both are fixed at load from
`max_model_len`: `dynamic` takes its base from max(max_model_len, max_position_embeddings), `longrope` its
long factors if max_model_len exceeds the original context.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_rs.models.fields import FieldReader

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

KINDS = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
_ALIASES = {"su": "longrope", "phi3": "longrope"}


@dataclass(frozen=True)
class RopeConfig:
    """RoPE of one model. Fields beyond the first four are read only by the kinds named beside them."""

    kind: str
    theta: float
    rotary_dim: int
    """Leading dimensions of a head that are rotated; even."""
    max_position_embeddings: int
    factor: float = 1.0  # linear, dynamic, yarn, llama3, longrope
    original_max_position_embeddings: int = 0  # yarn, llama3, longrope
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    truncate: bool = True  # yarn
    attention_factor: float | None = None  # yarn, longrope
    mscale: float | None = None  # yarn
    mscale_all_dim: float | None = None  # yarn
    short_factor: tuple[float, ...] = field(default=())  # longrope
    long_factor: tuple[float, ...] = field(default=())  # longrope


def parse_rope(
    config: Mapping[str, Any], rotary_dim: int, max_position_embeddings: int, problems: list[str]
) -> RopeConfig:
    """RoPE settings of a Hugging Face config: `rope_parameters`, or the older `rope_scaling` with
    `rope_theta`.
    """
    nested = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(nested, Mapping):
        problems.append(f"rope_scaling must be an object, got {nested!r}")
        nested = {}
    kind = str(nested.get("rope_type", nested.get("type", "default")))
    kind = _ALIASES.get(kind, kind)
    if kind not in KINDS:
        problems.append(f"rope_scaling.rope_type must be one of {', '.join(KINDS)}, got {kind!r}")
        kind = "default"
    read = FieldReader({"rope_theta": config.get("rope_theta"), **nested}, problems, prefix="rope_scaling.")
    theta = read.number("rope_theta", default=10000.0, above=0.0)
    partial = read.number("partial_rotary_factor", default=1.0, above=0.0)
    if partial != 1.0:
        problems.append(
            f"rope_scaling.partial_rotary_factor must be 1.0 for this architecture, got {partial}"
        )
    if kind == "default":
        return RopeConfig(kind, theta, rotary_dim, max_position_embeddings)
    original = config.get("original_max_position_embeddings") or nested.get(
        "original_max_position_embeddings"
    )
    original = original or max_position_embeddings
    if not isinstance(original, int) or original < 1:
        problems.append(
            f"original_max_position_embeddings must be a whole number of at least 1, got {original!r}"
        )
        original = max_position_embeddings
    ratio = max_position_embeddings / original
    implied = ratio if kind in ("longrope", "yarn") else None
    half = rotary_dim // 2
    scaled = kind == "longrope"
    return RopeConfig(
        kind,
        theta,
        rotary_dim,
        max_position_embeddings,
        factor=read.number("factor", default=implied, above=0.0),
        original_max_position_embeddings=original,
        low_freq_factor=read.number("low_freq_factor", default=None if kind == "llama3" else 1.0, above=0.0),
        high_freq_factor=read.number(
            "high_freq_factor", default=None if kind == "llama3" else 4.0, above=0.0
        ),
        beta_fast=read.number("beta_fast", default=32.0, above=0.0),
        beta_slow=read.number("beta_slow", default=1.0, above=0.0),
        truncate=read.flag("truncate", default=True),
        attention_factor=read.optional_number("attention_factor", above=0.0),
        mscale=read.optional_number("mscale", above=0.0),
        mscale_all_dim=read.optional_number("mscale_all_dim", above=0.0),
        short_factor=read.numbers("short_factor", half) if scaled else (),
        long_factor=read.numbers("long_factor", half) if scaled else (),
    )


def longest_context(rope: RopeConfig) -> int:
    """Tokens the model is made for, scaling included."""
    if rope.kind in ("linear", "dynamic"):
        return int(rope.max_position_embeddings * rope.factor)
    if rope.kind == "yarn":
        return max(rope.max_position_embeddings, int(rope.original_max_position_embeddings * rope.factor))
    return rope.max_position_embeddings


def cos_sin_table(rope: RopeConfig, max_model_len: int, freq_factors: F32 | None = None) -> F32:
    """[max_model_len, rotary_dim] float32: cos of the rotary_dim/2 angles, then their sines, times the
    attention factor.

    `freq_factors` [rotary_dim/2] divide the frequencies (GGUF files carry llama3 scaling that way).
    """
    frequencies, attention_factor = inverse_frequencies(rope, max_model_len)
    if freq_factors is not None:
        frequencies = (frequencies / freq_factors).astype(np.float32)
    half = rope.rotary_dim // 2
    table = np.empty((max_model_len, rope.rotary_dim), np.float32)
    scale = np.float32(attention_factor)
    for first in range(0, max_model_len, 4096):
        rows = slice(first, min(first + 4096, max_model_len))
        # The angle is rounded to float32 before the cosine, as in the reference implementations.
        angles = np.arange(rows.start, rows.stop, dtype=np.float32)[:, None] * frequencies
        table[rows, :half] = np.cos(angles.astype(np.float64)).astype(np.float32) * scale
        table[rows, half:] = np.sin(angles.astype(np.float64)).astype(np.float32) * scale
    return table


def inverse_frequencies(rope: RopeConfig, max_model_len: int) -> tuple[F32, float]:
    """(float32 [rotary_dim/2], factor on cos and sin)."""
    if rope.kind == "linear":
        return (_plain(rope.theta, rope.rotary_dim) / np.float32(rope.factor)).astype(np.float32), 1.0
    if rope.kind == "dynamic":
        return _plain(_dynamic_theta(rope, max_model_len), rope.rotary_dim), 1.0
    if rope.kind == "llama3":
        return _llama3(rope), 1.0
    if rope.kind == "yarn":
        return _yarn(rope), _yarn_attention_factor(rope)
    if rope.kind == "longrope":
        return _longrope(rope, max_model_len)
    return _plain(rope.theta, rope.rotary_dim), 1.0


def _powers(theta: float, rotary_dim: int) -> F64:
    """theta ** (2i / rotary_dim) in double precision, from float32 theta and exponents."""
    exponents = (np.arange(0, rotary_dim, 2, dtype=np.float32) / np.float32(rotary_dim)).astype(np.float64)
    powers = np.power(float(np.float32(theta)), exponents)
    # Rounded here as well: the reference divides float32 powers.
    return powers.astype(np.float32).astype(np.float64)


def _plain(theta: float, rotary_dim: int) -> F32:
    return (1.0 / _powers(theta, rotary_dim)).astype(np.float32)


def _dynamic_theta(rope: RopeConfig, max_model_len: int) -> float:
    length = max(max_model_len, rope.max_position_embeddings)
    stretch = rope.factor * length / rope.max_position_embeddings - (rope.factor - 1)
    return float(rope.theta * stretch ** (rope.rotary_dim / (rope.rotary_dim - 2)))


def _llama3(rope: RopeConfig) -> F32:
    """Long wavelengths divided by the factor, short ones kept, a linear blend between the two limits."""
    plain = _plain(rope.theta, rope.rotary_dim)
    wavelengths = (2 * math.pi / plain).astype(np.float32)
    low_limit = rope.original_max_position_embeddings / rope.low_freq_factor
    high_limit = rope.original_max_position_embeddings / rope.high_freq_factor
    scaled = np.where(wavelengths > low_limit, plain / np.float32(rope.factor), plain)
    span = rope.high_freq_factor - rope.low_freq_factor
    blend = (
        rope.original_max_position_embeddings / wavelengths - np.float32(rope.low_freq_factor)
    ) / np.float32(span)
    blended = (1 - blend) * scaled / np.float32(rope.factor) + blend * scaled
    medium = (wavelengths >= high_limit) & (wavelengths <= low_limit)
    return np.where(medium, blended, scaled).astype(np.float32)


def _yarn(rope: RopeConfig) -> F32:
    """Interpolated and original frequencies, blended by how often each dimension turns within the old
    context.
    """
    dim = rope.rotary_dim
    powers = _powers(rope.theta, dim).astype(np.float32)
    original = (1.0 / powers).astype(np.float32)
    interpolated = (1.0 / (np.float32(rope.factor) * powers)).astype(np.float32)
    low, high = (
        dim
        * math.log(rope.original_max_position_embeddings / (turns * 2 * math.pi))
        / (2 * math.log(rope.theta))
        for turns in (rope.beta_fast, rope.beta_slow)
    )
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2, dtype=np.float32) - np.float32(low)) / np.float32(high - low), 0, 1)
    keep = 1 - ramp
    blended: F32 = (interpolated * (1 - keep) + original * keep).astype(np.float32)
    return blended


def _yarn_attention_factor(rope: RopeConfig) -> float:
    def mscale(weight: float) -> float:
        return 1.0 if rope.factor <= 1 else 0.1 * weight * math.log(rope.factor) + 1.0

    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return mscale(rope.mscale) / mscale(rope.mscale_all_dim)
    return mscale(1.0)


def _longrope(rope: RopeConfig, max_model_len: int) -> tuple[F32, float]:
    original = rope.original_max_position_embeddings
    factors = np.array(rope.long_factor if max_model_len > original else rope.short_factor, np.float32)
    powers = _powers(rope.theta, rope.rotary_dim).astype(np.float32)
    attention_factor = rope.attention_factor
    if attention_factor is None:
        grown = rope.factor > 1.0
        attention_factor = math.sqrt(1 + math.log(rope.factor) / math.log(original)) if grown else 1.0
    return (1.0 / (factors * powers)).astype(np.float32), attention_factor
