"""The native sampler against a plain numpy version of the same rules, and its distributions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_program import i32

from vllm_rs import _cpu

POOL = _cpu.ThreadPool(2)
DEFAULTS: dict[str, Any] = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "seed": 0,
    "min_tokens": 0,
    "stop_token_ids": i32([]),
    "logit_bias_ids": i32([]),
    "logit_bias_values": np.zeros(0, np.float32),
    "allowed_token_ids": None,
    "bad_words": [],
    "num_logprobs": None,
    "prompt_token_ids": i32([]),
    "output_token_ids": i32([]),
}


def sampler_with(vocab, **params):
    sampler = _cpu.Sampler(POOL, 4, vocab)
    sampler.set_slot(0, **{**DEFAULTS, **params})
    return sampler


def draw_one(sampler, logits, position=0, stream=0):
    return sampler.sample_logits(logits[None], i32([0]), i32([position]), stream)


def draw_many(logits, count, **params):
    """`count` independent draws from one row of logits."""
    sampler = sampler_with(logits.size, **params)
    rows = np.ascontiguousarray(np.broadcast_to(logits, (count, logits.size)))
    return sampler.sample_logits(rows, i32(np.zeros(count)), i32(np.arange(count))).token_ids


def constrained(logits, p):
    """Masks, bias and penalties, in the order of the contract."""
    x = logits.astype(np.float64).copy()
    output = list(p["output_token_ids"])
    if p["allowed_token_ids"] is not None:
        x[np.setdiff1d(np.arange(x.size), p["allowed_token_ids"])] = -np.inf
    for *prefix, last in p["bad_words"]:
        if len(prefix) <= len(output) and output[len(output) - len(prefix) :] == prefix:
            x[last] = -np.inf
    if len(output) < p["min_tokens"]:
        x[p["stop_token_ids"]] = -np.inf
    np.add.at(x, p["logit_bias_ids"], p["logit_bias_values"])
    seen = np.unique([*p["prompt_token_ids"], *output]).astype(int)
    x[seen] = np.where(x[seen] > 0, x[seen] / p["repetition_penalty"], x[seen] * p["repetition_penalty"])
    counts = np.bincount(np.asarray(output, int), minlength=x.size)
    return x - p["frequency_penalty"] * counts - p["presence_penalty"] * (counts > 0)


def filtered_weights(x, p):
    """Unnormalised weights after temperature, min_p, top_k, top_p."""
    weights = np.exp((x - x.max()) / p["temperature"])
    weights[weights < p["min_p"]] = 0
    best_first = np.lexsort((np.arange(x.size), -x))
    if p["top_k"] > 0:
        weights[best_first[p["top_k"] :]] = 0
    if p["top_p"] < 1:
        cumulative = np.cumsum(weights[best_first])
        needed = np.searchsorted(cumulative, p["top_p"] * cumulative[-1]) + 1
        weights[best_first[needed:]] = 0
    return weights


def expected_token(logits, p, position=0):
    x = constrained(logits, p)
    if p["temperature"] == 0:
        return int(np.argmax(x))
    cumulative = np.cumsum(filtered_weights(x, p))
    u = _cpu.philox_uniform(p["seed"], position, 0)
    return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))


def normal_logits(vocab, seed=0, scale=3.0):
    return (np.random.default_rng(seed).standard_normal(vocab) * scale).astype(np.float32)


def chi_squared(tokens, weights):
    """Statistic and degrees of freedom; rare tokens are put together."""
    expected = weights / weights.sum() * tokens.size
    observed = np.bincount(tokens, minlength=weights.size)
    assert not observed[weights == 0].any()
    common = expected >= 10
    rare_expected, rare_observed = expected[~common].sum(), observed[~common].sum()
    statistic = ((observed - expected)[common] ** 2 / expected[common]).sum()
    if rare_expected > 0:
        statistic += (rare_observed - rare_expected) ** 2 / max(rare_expected, 1.0)
    return statistic, common.sum()


def assert_follows(tokens, weights):
    statistic, freedom = chi_squared(tokens, weights)
    assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 10


def test_greedy_takes_the_lowest_of_equal_maxima(isa):
    for vocab in (1, 15, 16, 17, 63, 64, 65, 1000, 49152):
        logits = normal_logits(vocab, vocab)
        for winner in {0, vocab // 2, vocab - 1}:
            row = logits.copy()
            row[winner:] = np.where(row[winner:] == row[winner:].max(), 99, row[winner:])
            row[winner] = 99
            result = draw_one(sampler_with(vocab, temperature=0.0), row)
            assert (result.token_ids[0], result.num_nonfinite[0]) == (winner, 0)


def test_nonfinite_logits_are_counted_and_never_win(isa):
    row = normal_logits(100)
    row[[3, 50, 99]] = np.nan
    row[7] = -np.inf
    for temperature in (0.0, 1.0):
        result = draw_one(sampler_with(100, temperature=temperature), row)
        assert result.num_nonfinite[0] == 4 and np.isfinite(row[result.token_ids[0]])
    hopeless = np.full(100, np.nan, np.float32)
    assert 0 <= draw_one(sampler_with(100), hopeless).token_ids[0] < 100


@pytest.mark.covers("SAMP-10")
@settings(max_examples=300)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 5, 33, 300, 2000]),
    st.sampled_from([0.0, 0.2, 1.0, 2.0]),
    st.sampled_from([-1, 0, 1, 3, 40, 5000]),
    st.sampled_from([1.0, 0.95, 0.5, 0.01]),
    st.sampled_from([0.0, 0.1, 0.9]),
)
def test_draws_equal_the_reference(seed, vocab, temperature, top_k, top_p, min_p):
    params = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    p = {**DEFAULTS, **params}
    logits = normal_logits(vocab, seed % 1000)
    sampler = sampler_with(vocab, **params)
    for position in range(8):
        weights = filtered_weights(constrained(logits, p), p) if temperature else None
        got = int(draw_one(sampler, logits, position).token_ids[0])
        if got == expected_token(logits, p, position):
            continue
        # Float32 weights may move a boundary by their own rounding, no further.
        assert weights is not None and weights[got] > 0
        cumulative = np.cumsum(weights) / weights.sum()
        u = _cpu.philox_uniform(seed, position, 0)
        assert cumulative[got] - weights[got] / weights.sum() - 1e-6 <= u <= cumulative[got] + 1e-6


@pytest.mark.covers("SAMP-02")
@pytest.mark.parametrize(
    "params",
    [{}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.05}, {"top_k": 20, "top_p": 0.9}, {"temperature": 2.0}],
)
def test_fixed_logits_give_the_reference_distribution(isa, params):
    logits = normal_logits(60, 5, scale=1.5)
    weights = filtered_weights(logits.astype(np.float64), {**DEFAULTS, **params})
    assert_follows(draw_many(logits, 20_000, seed=11, **params), weights)
    greedy = draw_many(logits, 50, temperature=0.0)
    np.testing.assert_array_equal(draw_many(logits, 50, **{**params, "top_k": 1}), greedy)


def test_temperature_moves_entropy():
    logits = normal_logits(200, 1, scale=1.0)

    def entropy(temperature):
        counts = np.bincount(draw_many(logits, 5000, temperature=temperature), minlength=200) / 5000
        return -(counts[counts > 0] * np.log(counts[counts > 0])).sum()

    assert entropy(0.2) < entropy(1.0) < entropy(2.0)


def test_large_vocabularies_and_flat_distributions(isa):
    vocab = 49152 if isa not in ("scalar", "amx_emulated") else 5000
    for scale in (3.0, 0.01):
        logits = normal_logits(vocab, 2, scale)
        for params in ({"top_p": 0.9}, {"top_k": 300}, {"top_k": vocab // 3, "top_p": 0.99}, {}):
            p = {**DEFAULTS, **params, "seed": 5}
            weights = filtered_weights(logits.astype(np.float64), p)
            tokens = draw_many(logits, 20, seed=5, **params)
            assert (weights[tokens] > 0).all()
            cumulative = np.cumsum(weights) / weights.sum()
            uniforms = [_cpu.philox_uniform(5, position, 0) for position in range(20)]
            np.testing.assert_allclose(
                cumulative[tokens], uniforms, atol=1e-3 + weights.max() / weights.sum()
            )


@pytest.mark.covers("SAMP-03")
@settings(max_examples=300)
@given(
    st.integers(0, 1000),
    st.sampled_from([1.0, 1.1, 0.5]),
    st.sampled_from([0.0, 0.7, -1.5]),
    st.sampled_from([0.0, 0.3, -0.2]),
    st.lists(st.integers(0, 49), max_size=12),
    st.lists(st.integers(0, 49), max_size=12),
)
def test_penalties_follow_the_reference_arithmetic(seed, repetition, presence, frequency, prompt, output):
    params = {
        "temperature": 0.0,
        "repetition_penalty": repetition,
        "presence_penalty": presence,
        "frequency_penalty": frequency,
        "prompt_token_ids": i32(prompt),
    }
    logits = normal_logits(50, seed)
    x = constrained(logits, {**DEFAULTS, **params, "output_token_ids": i32(output)})
    grown = sampler_with(50, **params)
    grown.append(0, i32(output))
    for sampler in (sampler_with(50, **params, output_token_ids=i32(output)), grown):
        got = int(draw_one(sampler, logits).token_ids[0])
        assert x[got] >= x.max() - 1e-5


def test_masks_and_bias():
    logits = normal_logits(20)
    best = [int(t) for t in np.argsort(-logits)]

    def first(**params):
        return int(draw_one(sampler_with(20, temperature=0.0, **params), logits).token_ids[0])

    assert first() == best[0]
    assert first(allowed_token_ids=i32([best[4], best[9]])) == best[4]
    assert first(bad_words=[[best[0]], [best[1]]]) == best[2]
    assert first(bad_words=[[3, 4, best[0]]], output_token_ids=i32([9, 3, 4])) == best[1]
    assert first(bad_words=[[3, 4, best[0]]], output_token_ids=i32([3, 4, 9])) == best[0]
    assert first(bad_words=[[3, 4, best[0]]], output_token_ids=i32([4])) == best[0]
    bias = {"logit_bias_ids": i32([best[7]]), "logit_bias_values": np.array([100], np.float32)}
    assert first(**bias) == best[7]
    assert first(**bias, allowed_token_ids=i32([best[3]])) == best[3]
    stops = {"min_tokens": 2, "stop_token_ids": i32(best[:2])}
    assert first(**stops) == best[2]
    sampler = sampler_with(20, temperature=0.0, **stops)
    sampler.append(0, i32([1]))
    assert draw_one(sampler, logits).token_ids[0] == best[2]
    sampler.append(0, i32([1]))
    assert draw_one(sampler, logits).token_ids[0] == best[0]


def test_logprobs_are_of_the_raw_logits(isa):
    logits = normal_logits(500, 9)
    wide = logits.astype(np.float64)
    exact = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    order = np.lexsort((np.arange(500), -logits))
    for k in (0, 1, 5, 499, 500, -1):
        params = {"num_logprobs": k, "temperature": 0.7, "logit_bias_ids": i32([order[20]])}
        sampler = sampler_with(500, **params, logit_bias_values=np.array([50], np.float32))
        token, (result,) = order[20], draw_one(sampler, logits).logprobs
        ids, values, rank = result
        assert (ids[0], rank) == (token, 21)
        np.testing.assert_array_equal(ids[1:], order[: 500 if k < 0 else k])
        np.testing.assert_allclose(values, exact[ids], atol=1e-5)


def test_equal_logits_share_the_last_of_their_ranks():
    logits = np.array([1, 3, 3, 3, 0], np.float32)
    sampler = sampler_with(5, temperature=0.0, num_logprobs=3, allowed_token_ids=i32([2]))
    ids, _, rank = draw_one(sampler, logits).logprobs[0]
    assert rank == 3
    np.testing.assert_array_equal(ids, [2, 1, 2, 3])


def test_a_row_without_any_token_left_says_so(isa):
    logits = normal_logits(70)
    nothing = {"allowed_token_ids": i32([3]), "bad_words": [[3]], "num_logprobs": 2}
    for temperature in (0.0, 1.0):
        result = draw_one(sampler_with(70, temperature=temperature, **nothing), logits)
        assert (result.exhausted.tolist(), result.logprobs) == ([True], [None])
        assert not draw_one(sampler_with(70, temperature=temperature), logits).exhausted[0]


def test_a_row_depends_on_itself_only():
    """Neighbours, their parameters, the row's place and the thread count change nothing."""
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((4, 3000)) * 2).astype(np.float32)
    settings_of = [{"top_p": 0.9}, {"temperature": 0.0}, {"top_k": 50, "num_logprobs": 4}, {}]
    results = []
    for threads in (1, 2, 3):
        sampler = _cpu.Sampler(_cpu.ThreadPool(threads), 4, 3000)
        for slot, params in enumerate(settings_of):
            sampler.set_slot(slot, **{**DEFAULTS, **params, "seed": slot})
        for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2]):
            slots, positions = i32(order), i32([10 + slot for slot in order])
            got = sampler.sample_logits(np.ascontiguousarray(logits[order]), slots, positions).token_ids
            results += [(slot, int(token)) for slot, token in zip(order, got, strict=True)]
    assert len(set(results)) == 4


def test_streams_and_positions_draw_anew():
    logits = np.zeros(1000, np.float32)
    sampler = sampler_with(1000, seed=-5)
    draws = {
        int(draw_one(sampler, logits, position, stream).token_ids[0])
        for position in range(20)
        for stream in range(3)
    }
    assert len(draws) > 50


BAD = [
    ("temperature", -0.1),
    ("temperature", float("nan")),
    ("top_k", -2),
    ("top_p", 0.0),
    ("top_p", 1.5),
    ("min_p", 2.0),
    ("repetition_penalty", 0.0),
    ("presence_penalty", float("inf")),
    ("min_tokens", -1),
    ("stop_token_ids", i32([10])),
    ("logit_bias_ids", i32([1])),
    ("allowed_token_ids", i32([])),
    ("allowed_token_ids", i32([-1])),
    ("bad_words", [[]]),
    ("bad_words", [[99]]),
    ("num_logprobs", -2),
    ("prompt_token_ids", i32([10])),
    ("output_token_ids", np.zeros(2, np.int64)),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=name.split("_ids")[0]):
        sampler_with(10, **{name: value})


def test_bad_calls_are_refused():
    sampler = sampler_with(10)
    row = np.zeros((1, 10), np.float32)
    cases = [
        (lambda: sampler.sample_logits(row, i32([1]), i32([0])), "slot: expected a slot that was set, got 1"),
        (lambda: sampler.sample_logits(row, i32([9]), i32([0])), "slot"),
        (lambda: sampler.sample_logits(row[:, :9].copy(), i32([0]), i32([0])), "logits"),
        (lambda: sampler.sample_logits(row, i32([0, 0]), i32([0])), "slots"),
        (lambda: sampler.sample_logits(row, i32([0]), i32([])), "positions"),
        (lambda: sampler.sample_logits(row, i32([0]), i32([-1])), "positions"),
        (lambda: sampler.append(0, i32([10])), "token_ids"),
        (lambda: sampler.set_slot(4, **DEFAULTS), "slot"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    sampler.clear_slot(0)
    with pytest.raises(ValueError, match="slot"):
        sampler.sample_logits(row, i32([0]), i32([0]))


def test_sampling_and_scoring_a_program_s_logits():
    table = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    packed = _cpu.PackedLinear.pack(POOL, table, "float32")
    program = _cpu.Program(POOL, 4, 4, 1)
    hidden, last = program.buffer("tokens", 8, "float32"), program.buffer("logit_rows", 8, "float32")
    program.embedding(hidden, packed)
    program.gather_rows(last, hidden)
    program.logits(last, packed)
    program.finalize()
    rows = i32([0, 2, 3])
    program.run(None, i32([5, 6, 7, 8]), i32([0, 1, 2, 3]), i32([0, 4]), i32(np.zeros((1, 0))), rows)
    logits = program.logits_view().copy()
    sampler = sampler_with(40, temperature=0.0)
    got = sampler.sample(program, i32([2, 0]), i32([0, 0]), i32([4, 1])).token_ids
    np.testing.assert_array_equal(got, logits[[2, 0]].argmax(1))
    ids, values, ranks = sampler.score(program, i32([0, 1, 2]), i32([6, 8, 0]), 2)
    exact = logits - np.log(np.exp(logits.astype(np.float64)).sum(1, keepdims=True))
    np.testing.assert_array_equal(ids[:, 0], [6, 8, 0])
    np.testing.assert_array_equal(ids[:, 1:], np.argsort(-logits, axis=1, kind="stable")[:, :2])
    np.testing.assert_allclose(values, np.take_along_axis(exact, ids, 1), atol=1e-5)
    np.testing.assert_array_equal(
        ranks, [(row >= row[t]).sum() for row, t in zip(logits, ids[:, 0], strict=True)]
    )
    with pytest.raises(ValueError, match="logit_indices"):
        sampler.sample(program, i32([3]), i32([0]), i32([0]))
    with pytest.raises(ValueError, match="target_ids"):
        sampler.score(program, i32([0]), i32([40]), 0)
