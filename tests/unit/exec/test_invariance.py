"""The same request gives bit-equal tokens and logprobs whatever surrounds it, in every dtype."""

import numpy as np
import pytest

from vllm_rs.models.memory_source import random_source
from vllm_rs.wire import SamplingParams

pytest.importorskip("vllm_rs._cpu")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 192,
    "intermediate_size": 320,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1031,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}
PROMPT = np.random.default_rng(5).integers(0, 1031, 75).tolist()
GREEDY = SamplingParams(temperature=0.0, logprobs=4)
SAMPLED = SamplingParams(temperature=1.0, top_k=50, top_p=0.95, logprobs=4, repetition_penalty=1.1)


@pytest.fixture(scope="module")
def source():
    return random_source(CONFIG, seed=3)


def outcome(request):
    return request.output, [(entry.token_ids, entry.logprobs, entry.rank) for entry in request.logprobs]


def others(exec_driver, count):
    random = np.random.default_rng(9)
    lengths = random.integers(1, 120, count)
    return [
        exec_driver.Request(
            random.integers(0, 1031, length).tolist(),
            SAMPLED,
            seed=index,
            num_tokens=int(random.integers(2, 30)),
        )
        for index, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_bit_equal_alone_and_in_every_company(source, exec_driver, dtype, params):
    def run(company=0, chunk=None, budget=None, prefix=False, previous_tokens=False, **driver_settings):
        driver = exec_driver.Driver(source, "cpu", dtype, **driver_settings)
        request = exec_driver.Request(PROMPT, params, seed=77, num_tokens=24)
        if prefix:
            first = exec_driver.Request(PROMPT, GREEDY, num_tokens=1)
            driver.generate([first], release=False)
            request.prefix_blocks = first.blocks[: len(PROMPT) // driver.block_size]
        crowd = others(exec_driver, company)
        driver.generate(
            [*crowd[: company // 2], request, *crowd[company // 2 :]], chunk, budget, True, previous_tokens
        )
        return outcome(request)

    alone = run()
    assert len(set(alone[0])) > 3
    variants = {
        "among 31 others": dict(company=31),
        "16-token chunks": dict(chunk=16),
        "1-token chunks": dict(chunk=1),
        "budget of 40 among 31 others": dict(company=31, budget=40),
        "block size 8": dict(block_size=8),
        "block size 32": dict(block_size=32),
        "other physical blocks": dict(shuffle=99),
        "2 threads": dict(threads=2),
        "2 threads among 31 others": dict(threads=2, company=31, budget=64),
        "prefix hit": dict(prefix=True),
        "prefix hit among others, block size 8": dict(prefix=True, block_size=8, company=9),
        "call by call": dict(eager=True),
        "tokens taken from the previous step": dict(previous_tokens=True),
    }
    for name, settings in variants.items():
        assert run(**settings) == alone, name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bit_equal_after_a_preemption(source, exec_driver, dtype):
    whole = exec_driver.Request(PROMPT, SAMPLED, seed=77, num_tokens=24)
    exec_driver.Driver(source, "cpu", dtype).generate([whole])
    cut = exec_driver.Request(PROMPT, SAMPLED, seed=77, num_tokens=10)
    driver = exec_driver.Driver(source, "cpu", dtype)
    driver.generate([cut])  # preempted here: slot and blocks are lost, then everything is computed again
    cut.num_computed, cut.blocks, cut.num_tokens = 0, [], 24
    driver.generate([cut])
    assert outcome(cut) == outcome(whole)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bit_equal_across_attention_partial_boundaries(source, exec_driver, dtype):
    """Texts beyond the kernels' fixed key boundaries, cut at lengths that straddle them."""
    tokens = np.random.default_rng(1).integers(0, 1031, 1100).tolist()
    settings = dict(num_blocks=256, max_tokens=600)
    whole = exec_driver.Driver(source, "cpu", dtype, **settings).logits(tokens)
    for chunk, threads, block_size in ((512, 1, 16), (97, 2, 8), (600, 2, 32)):
        driver = exec_driver.Driver(source, "cpu", dtype, threads=threads, block_size=block_size, **settings)
        assert np.array_equal(driver.logits(tokens, chunk), whole), (chunk, threads, block_size)


@pytest.mark.covers("ATTN-04")
def test_shuffled_block_tables_are_bit_equal(source, exec_driver):
    results = [
        exec_driver.Driver(source, "cpu", "float32", shuffle=seed, num_blocks=64).logits(PROMPT, 16)
        for seed in (0, 1, 2)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.fixture
def isa_restored():
    cpu = pytest.importorskip("vllm_rs._cpu")
    selected = cpu.selected_isa()
    yield cpu
    cpu.set_isa(selected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_kernel_set_is_invariant_and_near_the_others(source, exec_driver, isa_restored, dtype):
    results = {}
    for isa in isa_restored.available_isas():
        driver = exec_driver.Driver(source, "cpu", dtype, isa=isa)
        results[isa] = driver.logits(PROMPT)
        threaded = exec_driver.Driver(source, "cpu", dtype, isa=isa, threads=2, block_size=8)
        for chunk in (16, 1):
            assert np.array_equal(threaded.logits(PROMPT, chunk), results[isa]), (isa, chunk)
    tolerance = 1e-4 if dtype == "float32" else 0.1
    for isa, logits in results.items():
        assert np.abs(logits - results["scalar"]).max() <= tolerance * logits.std(), isa
