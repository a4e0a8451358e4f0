"""The default model against transformers float32: greedy tokens in float32, and distance of the serving
dtype.
"""

import os
from pathlib import Path

import numpy as np
import pytest

FIXTURES = Path(__file__).parent / "fixtures"
NUM_OUTPUT_TOKENS = 64
SMALLEST_GAP = 1e-3
"""Below it the oracle's own choice is a coin toss between float32 summation orders."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source():
    rust = pytest.importorskip("vllm_rs._rust")
    path = os.environ.get("VLLM_RS_TEST_SMOLLM2")
    if path is None:
        try:
            path = rust.resolve_model("smollm2")
        except Exception as error:
            pytest.skip(f"smollm2 is not cached and cannot be fetched: {error}")
    return rust.ModelFiles.open(path)


@pytest.fixture(scope="module")
def greedy():
    with np.load(FIXTURES / "greedy.npz") as stored:
        fixture = dict(stored)
    ends = np.cumsum(fixture["prompt_lens"])
    fixture["prompts"] = [ids.tolist() for ids in np.split(fixture["prompt_ids"].astype(int), ends[:-1])]
    rows = fixture["prompt_lens"] + NUM_OUTPUT_TOKENS - 1
    fixture["argmaxes"] = np.split(fixture["argmax"].astype(int), np.cumsum(rows)[:-1])
    return fixture


def test_the_fixture_is_varied(greedy):
    lengths = greedy["prompt_lens"]
    assert len(lengths) == 100
    assert lengths.min() == 1
    assert lengths.max() > 500
    assert greedy["output_ids"].shape == (100, NUM_OUTPUT_TOKENS)


def test_float32_greedy_tokens_equal_the_oracle(source, greedy, exec_driver):
    driver = exec_driver.Driver(
        source,
        "cpu",
        "float32",
        threads=2,
        num_blocks=2048,
        max_tokens=512,
        max_logit_rows=64,
        max_model_len=1024,
    )
    requests = [exec_driver.Request(prompt, num_tokens=NUM_OUTPUT_TOKENS) for prompt in greedy["prompts"]]
    driver.generate(requests)
    coin_tosses = 0
    for index, request in enumerate(requests):
        theirs = greedy["output_ids"][index].astype(int)
        differing = np.flatnonzero(np.array(request.output) != theirs)
        if len(differing):
            gap = greedy["top2_gap"][index][differing[0]]
            assert gap < SMALLEST_GAP, f"prompt {index} differs at output {differing[0]}, gap {gap}"
            coin_tosses += 1
    print(f"float32: {100 - coin_tosses} of 100 prompts equal, {coin_tosses} parted at a coin toss")
    assert coin_tosses <= 5


def test_bfloat16_stays_near_the_oracle_along_its_text(source, greedy, exec_driver):
    driver = exec_driver.Driver(
        source, "cpu", "bfloat16", threads=2, num_blocks=128, max_tokens=256, max_model_len=1024
    )
    with np.load(FIXTURES / "kl.npz") as stored:
        spread = dict(stored)
    same, total, divergences = 0, 0, []
    for index, prompt in enumerate(greedy["prompts"]):
        tokens = prompt + greedy["output_ids"][index].astype(int).tolist()[:-1]
        logits = driver.logits(tokens)
        same += int((logits.argmax(axis=1) == greedy["argmaxes"][index]).sum())
        total += len(tokens)
        for entry in np.flatnonzero(spread["prompt"] == index):
            row = logits[spread["row"][entry]].astype(np.float64)
            divergences.append(divergence(row, spread["ids"][entry], spread["logprobs"][entry]))
    agreement, mean_kl = same / total, float(np.mean(divergences))
    print(f"bfloat16: same argmax at {agreement:.4%} of {total} positions, mean KL {mean_kl:.2e}")
    assert agreement >= 0.99
    assert mean_kl <= 5e-4


def divergence(logits, ids, oracle_logprobs):
    """KL(oracle || ours) in nats over the oracle's top ids and one bucket for everything else."""
    peak = logits.max()
    ours = (logits - peak - np.log(np.exp(logits - peak).sum()))[ids.astype(int)]
    theirs = oracle_logprobs.astype(np.float64)
    p, q = np.exp(theirs), np.exp(ours)
    rest_p, rest_q = max(1.0 - p.sum(), 1e-12), max(1.0 - q.sum(), 1e-12)
    return float((p * (theirs - ours)).sum() + rest_p * np.log(rest_p / rest_q))
