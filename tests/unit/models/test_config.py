"""config.json: what it means, and every bad value named at once."""

import pytest

from vllm_rs.errors import ModelError
from vllm_rs.models.config import LlamaConfig

GOOD = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 131,
}


def test_defaults_are_those_of_the_format():
    config = LlamaConfig.parse(GOOD)
    assert (config.num_kv_heads, config.head_dim, config.max_position_embeddings) == (4, 16, 2048)
    assert (config.rms_norm_eps, config.rope.theta, config.rope.kind) == (1e-6, 10000.0, "default")
    assert not (
        config.tie_word_embeddings or config.attention_bias or config.mlp_bias or config.sliding_window
    )


def test_every_bad_value_is_named_at_once():
    bad = {
        **GOOD,
        "hidden_size": -1,
        "num_hidden_layers": "two",
        "rms_norm_eps": float("nan"),
        "tie_word_embeddings": "yes",
        "hidden_act": "gelu",
        "rope_scaling": {"rope_type": "llama3", "factor": -8, "low_freq_factor": 1.0},
    }
    del bad["vocab_size"]
    with pytest.raises(ModelError) as caught:
        LlamaConfig.parse(bad)
    message = str(caught.value)
    for part in (
        "hidden_size must be a whole number from 1 to",
        "got -1",
        "num_hidden_layers",
        "'two'",
        "rms_norm_eps must be a finite number above 0.0, got nan",
        "tie_word_embeddings must be true or false, got 'yes'",
        "hidden_act must be one of silu, swish, got 'gelu'",
        "vocab_size must be a whole number from 1 to 16777216, it is missing",
        "rope_scaling.factor must be a finite number above 0.0, got -8",
        "rope_scaling.high_freq_factor",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_key_value_heads": 3}, "multiple of num_key_value_heads, got 4 and 3"),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"hidden_size": 66}, "hidden_size must be a multiple of num_attention_heads, got 66 and 4"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be a whole number from 1 to 4096"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"rope_scaling": {"type": "warp"}}, "rope_type must be one of default, linear.*got 'warp'"),
        ({"rope_scaling": "linear"}, "rope_scaling must be an object"),
        (
            {"rope_scaling": {"type": "linear"}},
            "rope_scaling.factor must be a finite number above 0.0, it is missing",
        ),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor must be 1.0"),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0] * 8}},
            "rope_scaling.short_factor must be a list of 8 positive numbers",
        ),
    ],
)
def test_contradictions_are_refused(change, message):
    with pytest.raises(ModelError, match=message):
        LlamaConfig.parse({**GOOD, **change})


def test_old_and_new_rope_spellings_mean_the_same():
    scaling = {"factor": 4.0, "original_max_position_embeddings": 512}
    old = LlamaConfig.parse({**GOOD, "rope_theta": 5e5, "rope_scaling": {"type": "yarn", **scaling}})
    new = LlamaConfig.parse({**GOOD, "rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, **scaling}})
    assert old.rope == new.rope


def test_sliding_window_absent_null_and_given():
    assert LlamaConfig.parse(GOOD, default_sliding_window=4096).sliding_window == 4096
    assert (
        LlamaConfig.parse({**GOOD, "sliding_window": None}, default_sliding_window=4096).sliding_window == 0
    )
    assert (
        LlamaConfig.parse({**GOOD, "sliding_window": 100}, default_sliding_window=4096).sliding_window == 100
    )
