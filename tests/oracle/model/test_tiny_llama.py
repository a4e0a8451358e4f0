"""Tiny random Llamas of odd shapes: logits at every position against transformers in float32, on every
backend.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BASE = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=131,
    max_position_embeddings=256,
    rms_norm_eps=1e-5,
    tie_word_embeddings=False,
)
LLAMA3 = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
SHAPES = {
    "gqa_4_to_2": {},
    "mha": dict(num_key_value_heads=4),
    "mqa": dict(num_key_value_heads=1),
    "gqa_9_to_3": dict(num_attention_heads=9, num_key_value_heads=3, head_dim=64, hidden_size=72),
    "head_dim_32": dict(head_dim=32),
    "head_dim_80": dict(head_dim=80, hidden_size=96),
    "head_dim_128": dict(head_dim=128),
    "attention_bias": dict(attention_bias=True),
    "mlp_bias": dict(mlp_bias=True),
    "tied": dict(tie_word_embeddings=True),
    "odd_widths": dict(hidden_size=60, intermediate_size=100, head_dim=16, vocab_size=127),
    "rope_theta": dict(rope_parameters=dict(rope_type="default", rope_theta=500000.0)),
    "rope_linear": dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=10000.0)),
    "rope_llama3": dict(rope_parameters=dict(rope_theta=10000.0, **LLAMA3)),
    "rope_yarn": dict(rope_parameters=dict(rope_theta=10000.0, **YARN)),
    "rope_yarn_mscale": dict(
        rope_parameters=dict(
            rope_theta=10000.0, mscale=0.7, mscale_all_dim=1.0, beta_fast=16, truncate=False, **YARN
        )
    ),
}


def tiny(kind="Llama", **changes):
    """(transformers model, the same weights as a source)."""
    from vllm_rs.models.memory_source import MemorySource

    torch.manual_seed(0)
    config = getattr(transformers, kind + "Config")(**{**BASE, **changes})
    model = (
        getattr(transformers, kind + "ForCausalLM")._from_config(config, attn_implementation="eager").eval()
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            vector = parameter.ndim == 1
            parameter.copy_(noise * 0.1 + ("norm" in name) if vector else noise * parameter.shape[-1] ** -0.5)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    return model, MemorySource({**config.to_dict(), "architectures": [kind + "ForCausalLM"]}, state)


def tokens_of(length, vocab=127, seed=1):
    return np.random.default_rng(seed).integers(0, vocab, length).tolist()


@torch.no_grad()
def oracle_logits(model, tokens):
    return model(torch.tensor([tokens])).logits[0].numpy()


def assert_close(ours, theirs):
    """Within 1e-4 of the logits' standard deviation at every position."""
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-4 * theirs.std()


@pytest.mark.covers("MODEL-18", "ATTN-01", "SCHED-06", "MODEL-16", "ATTN-09")
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_equal_transformers_whole_and_in_chunks(exec_driver, backend, shape):
    model, source = tiny(**SHAPES[shape])
    tokens = tokens_of(150)
    theirs = oracle_logits(model, tokens)
    driver = exec_driver.Driver(source, backend, num_blocks=64)
    for chunk in (None, 16, 7):
        assert_close(driver.logits(tokens, chunk), theirs)


@pytest.mark.covers("KV-01")
def test_decode_at_a_long_context_runs_one_token_and_equals_the_oracle_without_a_cache(exec_driver, backend):
    from vllm_rs.exec.step import StepArrays

    model, source = tiny(max_position_embeddings=1280)
    tokens = tokens_of(1030)
    with torch.no_grad():
        theirs = model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()
    backend = exec_driver.Driver(source, backend, num_blocks=128, max_tokens=1000).runner.backend
    table = (np.random.default_rng(0).permutation(128)[None, :65].astype(np.int32),)
    ours = []
    for first, last in [(0, 1000), *((at, at + 1) for at in range(1000, 1030))]:
        positions = np.arange(first, last, dtype=np.int32)
        ids, ends = np.array(tokens[first:last], np.int32), np.array([0, last - first], np.int32)
        row, sequence = np.array([last - first - 1], np.int32), np.zeros(1, np.int32)
        backend.forward(StepArrays(ids, positions, ends, table, row, sequence))
        ours.append(backend.logits()[0].copy())
    assert_close(np.array(ours), theirs[999:])


def test_sliding_window_equals_transformers(exec_driver, backend):
    model, source = tiny("Mistral", sliding_window=20)
    tokens = tokens_of(90)
    driver = exec_driver.Driver(source, backend, num_blocks=64)
    for chunk in (None, 7):
        assert_close(driver.logits(tokens, chunk), oracle_logits(model, tokens))


@pytest.mark.parametrize("max_model_len", [200, 256, 500])
def test_dynamic_rope_equals_transformers_run_with_the_base_fixed_at_load(
    exec_driver, backend, max_model_len
):
    rope = dict(rope_type="dynamic", factor=2.0, rope_theta=10000.0)
    _, source = tiny(rope_parameters=rope)
    # The documented rule: the base transformers would use for a text of max(max_model_len, 256) tokens.
    stretched = 2.0 * max(max_model_len, 256) / 256 - 1.0
    theta = 10000.0 * stretched ** (16 / 14)
    model, _ = tiny(rope_parameters=dict(rope_type="default", rope_theta=theta))
    driver = exec_driver.Driver(source, backend, num_blocks=64, max_model_len=max_model_len)
    tokens = tokens_of(150)
    for chunk in (None, 7):
        assert_close(driver.logits(tokens, chunk), oracle_logits(model, tokens))


@pytest.mark.parametrize(("max_model_len", "length"), [(64, 60), (200, 60), (200, 150)])
def test_longrope_equals_transformers_on_both_sides_of_its_switch(
    exec_driver, backend, max_model_len, length
):
    half = 8
    rope = dict(
        rope_type="longrope",
        factor=4.0,
        rope_theta=10000.0,
        original_max_position_embeddings=64,
        short_factor=[1.0 + 0.1 * i for i in range(half)],
        long_factor=[2.0 + 0.3 * i for i in range(half)],
    )
    model, source = tiny(rope_parameters=rope)
    if max_model_len > 64:  # fixed at load: the oracle runs with the long factors from the first token on
        model, _ = tiny(rope_parameters={**rope, "short_factor": rope["long_factor"]})
    driver = exec_driver.Driver(source, backend, num_blocks=64, max_model_len=max_model_len)
    tokens = tokens_of(length)
    for chunk in (None, 7):
        assert_close(driver.logits(tokens, chunk), oracle_logits(model, tokens))


def test_rope_tables_equal_transformers_bit_for_bit_nearly_everywhere():
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    from vllm_rs.models.loader import build_model
    from vllm_rs.models.rope import cos_sin_table

    for shape in ("rope_theta", "rope_linear", "rope_llama3", "rope_yarn", "rope_yarn_mscale"):
        model, source = tiny(head_dim=64, **SHAPES[shape])
        ours = cos_sin_table(build_model(source, None).config.rope, 256)
        positions = torch.arange(256)[None]
        cos, sin = LlamaRotaryEmbedding(model.config)(torch.zeros(1), positions)
        theirs = np.concatenate([cos[0, :, :32].numpy(), sin[0, :, :32].numpy()], axis=1)
        assert np.abs(ours - theirs).max() <= 2e-5, shape  # one unit in the last place of an angle near 256
        assert np.mean(ours != theirs) < 0.25, shape
