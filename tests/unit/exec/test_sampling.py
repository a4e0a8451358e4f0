"""Sampling by its contract, on the reference and on the native sampler, and the two against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_rs.exec.sampler_ref import ReferenceSampler, adjust_logits, candidate_weights, philox_uniform

VOCAB = 97
OFF = dict(
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    seed=0,
    min_tokens=0,
    stop_token_ids=np.array([], np.int32),
    logit_bias_ids=np.array([], np.int32),
    logit_bias_values=np.array([], np.float32),
    allowed_token_ids=None,
    bad_words=[],
    num_logprobs=None,
    prompt_token_ids=np.array([], np.int32),
    output_token_ids=np.array([], np.int32),
)


def ids(*values):
    return np.array(values, np.int32)


@pytest.fixture(params=["reference", "native"])
def sampler(request):
    return make_sampler(request.param)


def make_sampler(kind):
    if kind == "reference":
        return ReferenceSampler(8, VOCAB)
    cpu = pytest.importorskip("vllm_rs._cpu")
    return cpu.Sampler(cpu.ThreadPool(1), 8, VOCAB)


def logits_of(seed=0, rows=1):
    return (3 * np.random.default_rng(seed).standard_normal((rows, VOCAB))).astype(np.float32)


def draw(sampler, logits, positions=None, **params):
    sampler.set_slot(0, **{**OFF, **params})
    rows = len(logits)
    positions = np.arange(rows, dtype=np.int32) if positions is None else positions
    return sampler.sample_logits(logits, np.zeros(rows, np.int32), positions)


def draws(sampler, logits, count, **params):
    """Draws at `count` positions from the same logits."""
    repeated = np.ascontiguousarray(np.broadcast_to(logits, (count, VOCAB)))
    return draw(sampler, repeated, **params).token_ids


@pytest.mark.parametrize(
    ("seed", "position", "stream"), [(0, 0, 0), (-1, 5, 0), (2**64 - 1, 5, 0), (1 << 40, 2**31 - 1, 3)]
)
def test_philox_uniform_is_the_native_one(seed, position, stream):
    cpu = pytest.importorskip("vllm_rs._cpu")
    assert cpu.philox_uniform(seed, position, stream) == philox_uniform(seed, position, stream)


def test_philox_known_answer():
    # Random123's kat_vectors: philox4x32 10, counter and key zero, gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
    assert philox_uniform(0, 0, 0) == ((0x6627E8D5 << 21) | (0xE169C58D >> 11)) * 2.0**-53


def test_zero_temperature_is_argmax_and_ties_go_to_the_lower_id(sampler):
    logits = logits_of()
    logits[0, [40, 7]] = 50.0
    assert draw(sampler, logits, temperature=0.0).token_ids.tolist() == [7]


@pytest.mark.covers("SAMP-02")
@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.1}, {"top_k": 9, "top_p": 0.8, "min_p": 0.02}]
)
def test_fixed_logits_are_drawn_with_the_probabilities_the_filters_leave(sampler, filters):
    logits = logits_of(3)
    count = 20_000
    drawn = np.bincount(draws(sampler, logits, count, temperature=0.8, **filters), minlength=VOCAB)
    spec = {"min_p": 0.0, "top_k": 0, "top_p": 1.0, **filters}
    weights = candidate_weights(logits[0], 0.8, **spec)
    expected = weights / weights.sum() * count
    assert (drawn[expected == 0] == 0).all()
    likely = expected > 5
    chi_square = (((drawn - expected) ** 2)[likely] / expected[likely]).sum()
    degrees = likely.sum() - 1
    assert chi_square < degrees + 6 * np.sqrt(2 * degrees) + 6


def test_filters_keep_what_their_definitions_say():
    probabilities = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625], np.float64)
    logits = np.log(probabilities).astype(np.float32)

    def kept(min_p=0.0, top_k=0, top_p=1.0):
        return np.flatnonzero(candidate_weights(logits, 1.0, min_p, top_k, top_p)).tolist()

    assert kept() == [0, 1, 2, 3, 4]
    assert kept(top_k=2) == [0, 1]
    assert kept(top_k=4) == [0, 1, 2, 3]  # of two equals, the lower id stays
    assert kept(top_p=0.7) == [0, 1]
    assert kept(top_p=0.8) == [0, 1, 2]
    assert kept(top_p=0.01) == [0]
    assert kept(min_p=0.2) == [0, 1, 2]
    assert kept(top_k=3, top_p=0.5) == [0]  # top_p counts within what top_k left: 0.5 / 0.875


@pytest.mark.covers("SAMP-02")
def test_top_k_one_is_greedy(sampler):
    logits = logits_of(5, rows=50)
    drawn = draw(sampler, logits, temperature=2.0, top_k=1).token_ids
    assert drawn.tolist() == logits.argmax(axis=1).tolist()


@pytest.mark.covers("SAMP-01")
def test_zero_temperature_repeats_and_entropy_rises_with_temperature(sampler):
    logits = logits_of(6)
    greedy = [draws(sampler, logits, 100, temperature=0.0, seed=seed).tolist() for seed in range(3)]
    assert greedy == [[int(logits.argmax())] * 100] * 3

    def entropy(temperature):
        shares = np.bincount(draws(sampler, logits, 4000, temperature=temperature)) / 4000
        return -(shares[shares > 0] * np.log(shares[shares > 0])).sum()

    assert entropy(0.2) < entropy(1.0) < entropy(2.0)


@pytest.mark.covers("SAMP-10")
def test_seeds_reproduce_whatever_the_neighbours(sampler):
    logits = logits_of(7, rows=20)
    alone = draw(sampler, logits, seed=42).token_ids.tolist()
    assert draw(sampler, logits, seed=42).token_ids.tolist() == alone
    assert draw(sampler, logits, seed=43).token_ids.tolist() != alone
    sampler.set_slot(3, **{**OFF, "seed": 42})
    sampler.set_slot(5, **{**OFF, "seed": 7, "temperature": 0.3})
    crowd = np.concatenate([logits_of(8, rows=20), logits])
    slots = np.repeat(ids(5, 3), 20)
    positions = np.tile(np.arange(20, dtype=np.int32), 2)
    assert sampler.sample_logits(crowd, slots, positions).token_ids[20:].tolist() == alone


@pytest.mark.covers("SAMP-03")
def test_penalties_do_the_arithmetic_of_their_definitions(sampler):
    """One logit is swept past the penalised one: where the argmax turns is the penalised value."""
    logits = np.full((1, VOCAB), -100.0, np.float32)
    logits[0, 1], logits[0, 2] = 4.0, -6.0
    history = dict(prompt_token_ids=ids(1, 2), output_token_ids=ids(1, 1, 1))
    cases = [
        ({"repetition_penalty": 2.0}, 1, 2.0),
        ({"frequency_penalty": 0.5}, 1, 4.0 - 1.5),
        ({"presence_penalty": 0.5}, 1, 4.0 - 0.5),
        (
            {"repetition_penalty": 2.0, "frequency_penalty": 0.25, "presence_penalty": 0.5},
            1,
            2.0 - 0.75 - 0.5,
        ),
        ({"repetition_penalty": 0.5}, 1, 8.0),
    ]
    for params, token, expected in cases:
        for offset, winner in ((-0.01, token), (0.01, 50)):
            swept = logits.copy()
            swept[0, 50] = expected + offset
            result = draw(sampler, swept, temperature=0.0, **history, **params)
            assert result.token_ids.tolist() == [winner], (params, offset)
    negative = np.full((1, VOCAB), -100.0, np.float32)  # repetition multiplies a negative logit
    negative[0, 2], negative[0, 50] = -6.0, -11.0
    assert draw(sampler, negative, temperature=0.0, repetition_penalty=2.0, **history).token_ids.tolist() == [
        50
    ]


def test_masks_bias_and_minimum_length(sampler):
    logits = logits_of(9)
    best, second, third = np.argsort(-logits[0])[:3].tolist()
    greedy = dict(temperature=0.0)
    assert draw(sampler, logits, allowed_token_ids=ids(second, third), **greedy).token_ids.tolist() == [
        second
    ]
    bias = dict(logit_bias_ids=ids(third), logit_bias_values=np.array([100.0], np.float32))
    assert draw(sampler, logits, **bias, **greedy).token_ids.tolist() == [third]
    stop = dict(min_tokens=2, stop_token_ids=ids(best))
    assert draw(sampler, logits, **stop, **greedy).token_ids.tolist() == [second]
    sampler.append(0, ids(4))
    slots, positions = ids(0), ids(1)
    assert sampler.sample_logits(logits, slots, positions).token_ids.tolist() == [second]
    sampler.append(0, ids(4))
    assert sampler.sample_logits(logits, slots, positions).token_ids.tolist() == [best]


def test_bad_words_of_one_and_of_several_tokens(sampler):
    logits = logits_of(10)
    best, second = np.argsort(-logits[0])[:2].tolist()
    assert draw(sampler, logits, temperature=0.0, bad_words=[[best]]).token_ids.tolist() == [second]
    words = [[3, 4, best]]
    assert draw(sampler, logits, temperature=0.0, bad_words=words).token_ids.tolist() == [best]
    sampler.append(0, ids(3, 4))
    assert sampler.sample_logits(logits, ids(0), ids(2)).token_ids.tolist() == [second]


def test_logprobs_are_those_of_the_raw_distribution(sampler):
    logits = logits_of(11)
    exact = logits[0].astype(np.float64)
    exact -= np.log(np.exp(exact).sum())
    order = np.argsort(-exact, kind="stable")
    bias = dict(logit_bias_ids=ids(order[4]), logit_bias_values=np.array([100.0], np.float32))
    result = draw(sampler, logits, temperature=0.5, num_logprobs=3, **bias)
    tokens, values, rank = result.logprobs[0]
    assert tokens.tolist() == [order[4], *order[:3]]
    assert rank == 5
    np.testing.assert_allclose(values, exact[tokens], atol=1e-5)
    tokens, values, _ = draw(sampler, logits, num_logprobs=-1).logprobs[0]
    assert sorted(tokens[1:].tolist()) == list(range(VOCAB))
    assert draw(sampler, logits, num_logprobs=0).logprobs[0][0].shape == (1,)
    assert draw(sampler, logits).logprobs == [None]


def test_the_rank_counts_the_tokens_that_are_at_least_as_likely(sampler):
    logits = np.full((1, VOCAB), -1.0, np.float32)
    logits[0, [4, 9, 20]] = 3.0
    logits[0, 50] = 7.0
    for token, expected in ((50, 1), (4, 4), (20, 4), (0, VOCAB)):
        result = draw(sampler, logits, temperature=0.0, num_logprobs=1, allowed_token_ids=ids(token))
        assert (result.token_ids.tolist(), result.logprobs[0][2]) == ([token], expected)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_row_without_any_token_left_says_so(sampler, temperature):
    common = dict(temperature=temperature, num_logprobs=1)
    logits = logits_of(13, rows=2)
    forbidden = draw(sampler, logits, allowed_token_ids=ids(3), bad_words=[[3]], **common)
    assert forbidden.exhausted.tolist() == [True, True]
    assert forbidden.logprobs == [None, None]
    assert draw(sampler, logits, **common).exhausted.tolist() == [False, False]


def test_a_penalty_may_make_a_logit_infinite(sampler):
    logits = np.full((1, VOCAB), -1.0, np.float32)
    logits[0, 5] = 3.0
    history = dict(prompt_token_ids=ids(5), repetition_penalty=1e-38)
    for temperature in (0.0, 1.0):
        result = draw(sampler, logits, temperature=temperature, **history)
        assert (result.token_ids.tolist(), result.exhausted.tolist()) == ([5], [False])


def test_nonfinite_logits_are_counted_per_row(sampler):
    logits = logits_of(12, rows=3)
    logits[1, [2, 3]] = np.nan, np.inf
    assert draw(sampler, logits).num_nonfinite.tolist() == [0, 2, 0]


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(-(2**63), 2**64 - 1),
    temperature=st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 10, VOCAB]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.1, 0.7]),
    presence_penalty=st.sampled_from([0.0, 0.6, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.3]),
    history=st.lists(st.integers(0, VOCAB - 1), max_size=12),
    logits_seed=st.integers(0, 10_000),
)
def test_native_draws_equal_the_reference(logits_seed, history, **params):
    native, reference = make_sampler("native"), make_sampler("reference")
    logits = logits_of(logits_seed, rows=8)
    half = len(history) // 2
    params |= dict(
        prompt_token_ids=ids(*history[:half]), output_token_ids=ids(*history[half:]), num_logprobs=4
    )
    ours, theirs = draw(native, logits, **params), draw(reference, logits, **params)
    pairs = zip(ours.token_ids.tolist(), theirs.token_ids.tolist(), strict=True)
    for position, (token, expected) in enumerate(pairs):
        assert token == expected or on_the_edge(reference, logits[position], position, token)
    for (tokens, values, rank), (their_tokens, their_values, their_rank) in zip(
        ours.logprobs, theirs.logprobs, strict=True
    ):
        if tokens[0] == their_tokens[0]:
            assert (tokens.tolist(), rank) == (their_tokens.tolist(), their_rank)
            np.testing.assert_allclose(values, their_values, atol=1e-5)


def on_the_edge(reference, logits, position, token):
    """Whether the uniform number falls so near the token's interval that float32 weights may choose it."""
    state = reference._slots[0]
    if state.temperature == 0.0:
        return False
    filters = (state.min_p, state.top_k, state.top_p)
    weights = candidate_weights(adjust_logits(logits, state), state.temperature, *filters)
    cumulative = np.cumsum(weights)
    target = philox_uniform(state.seed, position, 0) * cumulative[-1]
    slack = 1e-5 * cumulative[-1]
    return cumulative[token] - weights[token] - slack <= target <= cumulative[token] + slack
