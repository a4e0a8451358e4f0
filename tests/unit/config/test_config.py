"""The engine's configuration: what is decoded, what is refused, and how the refusal reads."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.config_sections import INTERNAL_FIELDS, REFUSED_KEYWORDS, SECTION_OF_FIELD


def test_json_round_trip_keeps_every_field():
    config = EngineConfig.from_keywords(model="org/m", block_size=32, kv_cache_memory_bytes=1 << 30, seed=7)
    assert EngineConfig.from_json(config.to_json()) == config


def test_an_empty_object_is_all_defaults():
    config = EngineConfig.from_json("{}")
    assert config == EngineConfig()
    assert (config.cache.block_size, config.scheduler.scheduling_policy) == (16, "fcfs")


def test_sections_are_frozen():
    config = EngineConfig()
    for section in ("model", "cache", "scheduler", "execution", "observability", "link"):
        with pytest.raises(AttributeError):
            setattr(getattr(config, section), "seed", 1)  # noqa: B010 (the name is a variable)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"block_size": 17}, ["--block-size", "8, 16, 32", "17"]),
        ({"max_num_seqs": 0}, ["--max-num-seqs", "1 to", "got 0"]),
        ({"max_num_seqs": "many"}, ["--max-num-seqs", "'many'"]),
        ({"gpu_memory_utilization": 1.5}, ["--gpu-memory-utilization", "at most 1", "1.5"]),
        ({"dtype": "int3"}, ["--dtype", "bfloat16", "'int3'"]),
        ({"dtype": "half"}, ["--dtype float16", "CPU"]),
        ({"served_model_name": [3]}, ["--served-model-name", "[3]"]),
        ({"max_num_seqs": 1000}, ["--max-num-batched-tokens 512", "--max-num-seqs 1000"]),
        ({"trust_remote_code": True}, ["--trust-remote-code", "never run"]),
        ({"block_sise": 16}, ["block_sise", "did you mean block_size?"]),
        ({"handshake_address": "ipc://x"}, ["unknown keyword handshake_address"]),
        ({"tensor_parallel_size": 2}, ["tensor_parallel_size=2", "one device"]),
        ({"quantization": "awq"}, ["quantization='awq'", ".gguf"]),
    ],
)
def test_a_refusal_names_the_flag_what_is_allowed_and_what_was_given(keywords: dict, words: list[str]):
    with pytest.raises(ConfigError) as caught:
        EngineConfig.from_keywords(**keywords)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_keywords_that_ask_for_what_happens_anyway_are_taken():
    config = EngineConfig.from_keywords(
        tensor_parallel_size=1, swap_space=4, enable_lora=False, quantization=None
    )
    assert config == EngineConfig()


def test_every_refused_keyword_is_refused_by_its_own_name():
    for name in REFUSED_KEYWORDS:
        with pytest.raises(ConfigError, match=name):
            EngineConfig.from_keywords(**{name: "something else"})


def test_other_spellings_of_a_choice_are_understood():
    assert EngineConfig.from_keywords(dtype="float").model.dtype == "float32"
    assert EngineConfig.from_keywords(dtype="half", device="torch").model.dtype == "float16"
    assert EngineConfig.from_keywords(served_model_name="one").model.served_model_name == ["one"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "Expected `object`"),
        ('{"nonsense": 1}', "unknown field nonsense"),
        ('{"model": {"nonsense": 1}}', "unknown field model.nonsense"),
        ('{"model": 3}', "section model"),
        ('{"cache": {"block_size": null}}', "--block-size"),
    ],
)
def test_malformed_json_is_refused_in_one_line(text: str, words: str):
    with pytest.raises(ConfigError) as caught:
        EngineConfig.from_json(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted(SECTION_OF_FIELD)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_json_is_decoded_or_refused(fields: dict):
    sections: dict[str, dict] = {}
    for name, value in fields.items():
        sections.setdefault(SECTION_OF_FIELD[name], {})[name] = value
    try:
        config = EngineConfig.from_json(json.dumps(sections))
    except ConfigError:
        return
    for name, value in fields.items():
        assert msgspec.to_builtins(config)[SECTION_OF_FIELD[name]][name] == value


def test_internal_fields_are_filled_by_the_launcher_only():
    assert EngineConfig().with_model_path("/models/m").model.model_path == "/models/m"
    assert {"model_path", "handshake_address", "engine_index"} == INTERNAL_FIELDS
