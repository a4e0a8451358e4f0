"""config.json of a Llama-shaped model as a typed, validated value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_rs.errors import ModelError
from vllm_rs.models.fields import FieldReader
from vllm_rs.models.rope import RopeConfig, parse_rope

_LARGEST_WIDTH = 1 << 20
_LARGEST_COUNT = 1 << 12


@dataclass(frozen=True)
class LlamaConfig:
    """Shapes and switches of a Llama-family decoder. Head counts are those of the whole model, not of a
    shard.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope: RopeConfig
    tie_word_embeddings: bool
    attention_bias: bool
    mlp_bias: bool
    sliding_window: int
    """Keys a token sees, itself included; 0 = all before it."""

    @staticmethod
    def parse(config: Mapping[str, Any], *, default_sliding_window: int = 0) -> "LlamaConfig":
        """From a Hugging Face config; raises ModelError naming every bad value at once."""
        problems: list[str] = []
        read = FieldReader(config, problems)
        hidden_size = read.integer("hidden_size", at_most=_LARGEST_WIDTH)
        num_heads = read.integer("num_attention_heads", at_most=_LARGEST_COUNT)
        num_kv_heads = read.integer("num_key_value_heads", default=num_heads, at_most=_LARGEST_COUNT)
        head_dim = read.integer("head_dim", default=max(1, hidden_size // num_heads), at_most=_LARGEST_COUNT)
        max_position_embeddings = read.integer("max_position_embeddings", default=2048)
        read.choice("hidden_act", ("silu", "swish"), "silu")
        if num_heads % num_kv_heads:
            problems.append(
                f"num_attention_heads must be a multiple of num_key_value_heads, "
                f"got {num_heads} and {num_kv_heads}"
            )
        if head_dim % 2:
            problems.append(f"head_dim must be even for rotary positions, got {head_dim}")
        if config.get("head_dim") is None and hidden_size % num_heads:
            problems.append(
                f"hidden_size must be a multiple of num_attention_heads, got {hidden_size} and {num_heads}"
            )
        parsed = LlamaConfig(
            hidden_size=hidden_size,
            intermediate_size=read.integer("intermediate_size", at_most=_LARGEST_WIDTH),
            num_layers=read.integer("num_hidden_layers", at_most=_LARGEST_COUNT),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            vocab_size=read.integer("vocab_size", at_most=1 << 24),
            max_position_embeddings=max_position_embeddings,
            rms_norm_eps=read.number("rms_norm_eps", default=1e-6, above=0.0),
            rope=parse_rope(config, head_dim, max_position_embeddings, problems),
            tie_word_embeddings=read.flag("tie_word_embeddings", default=False),
            attention_bias=read.flag("attention_bias", default=False),
            mlp_bias=read.flag("mlp_bias", default=False),
            sliding_window=_sliding_window(config, read, default_sliding_window),
        )
        if problems:
            raise ModelError("config.json: " + "; ".join(problems), hint="check the model's config.json")
        return parsed


def _sliding_window(config: Mapping[str, Any], read: FieldReader, default: int) -> int:
    """A null in the file means no window; an absent key means the architecture's default."""
    if "sliding_window" in config and config["sliding_window"] is None:
        return 0
    return read.integer("sliding_window", default=default, at_least=1)
