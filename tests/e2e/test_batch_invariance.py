"""The same request gives the same tokens and log-probabilities, bit for bit, whatever is around it."""

import functools

import pytest

from vllm_rs import LLM, SamplingParams
from vllm_rs.offline.outputs import CompletionOutput

PROMPT = "The history of the lighthouse begins with fires on hills, which guided the ships home. " * 4
NEIGHBOURS = [
    f"Neighbour number {number} talks about " + "something else " * (number * 3 % 17) for number in range(31)
]
DTYPES = ("float32", "bfloat16")


def asked(max_tokens: int = 24) -> SamplingParams:
    """Sampled, so that probabilities matter to the last bit, with log-probabilities to compare."""
    return SamplingParams(temperature=0.8, seed=42, max_tokens=max_tokens, ignore_eos=True, logprobs=3)


def exact(output: CompletionOutput) -> tuple[object, ...]:
    """Tokens and every log-probability as exact hexadecimal floats."""
    assert output.logprobs is not None
    logprobs = tuple(
        tuple(sorted((token, one.logprob.hex()) for token, one in position.items()))
        for position in output.logprobs
    )
    return tuple(output.token_ids), logprobs


def run(dtype: str, *, among: bool = False, warm: bool = False, **keywords: object) -> tuple[object, ...]:
    """The request's exact result in an engine of its own."""
    with LLM("smollm2", dtype=dtype, max_num_seqs=32, max_model_len=2048, **keywords) as llm:
        if warm:
            llm.generate(PROMPT, SamplingParams(max_tokens=1))
        prompts = [*NEIGHBOURS[:16], PROMPT, *NEIGHBOURS[16:]] if among else [PROMPT]
        results = llm.generate(prompts, [asked() for _ in prompts])
        found = next(result for result in results if result.prompt == PROMPT)
        if warm:
            assert found.num_cached_tokens, "the prefix must come from the cache for this to mean anything"
        return exact(found.outputs[0])


@functools.cache
def alone(dtype: str) -> tuple[object, ...]:
    """The result to compare with: alone, prompt in one chunk."""
    return run(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "around",
    [
        {"among": True},
        {"max_num_batched_tokens": 32, "long_prefill_token_threshold": 16},
        {"block_size": 8},
        {"block_size": 32},
        {"warm": True},
        {"cpu_threads": 1},
        {"enforce_eager": True},
        {"among": True, "cpu_threads": 1, "max_num_batched_tokens": 64, "block_size": 8},
    ],
    ids=lambda around: "-".join(f"{key}={value}" for key, value in around.items()),
)
def test_bit_equal(dtype: str, around: dict[str, object]) -> None:
    assert run(dtype, **around) == alone(dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.covers("SCHED-13")
def test_bit_equal_after_preemption(dtype: str) -> None:
    block_bytes = 16 * 3 * 64 * 2 * 30 * (4 if dtype == "float32" else 2)
    params = [asked(120) for _ in range(6)]
    prompts = [PROMPT, *[PROMPT[number:] for number in range(1, 6)]]
    ample = [exact(one.outputs[0]) for one in _generate(dtype, prompts, params)]
    with LLM(
        "smollm2", dtype=dtype, max_num_seqs=6, max_model_len=512, kv_cache_memory_bytes=40 * block_bytes
    ) as llm:
        results = llm.generate(prompts, params)
        counters = llm.llm_engine._core._core.scheduler.counters  # type: ignore[attr-defined]
        assert counters.num_preemptions > 0, "the pool must be too small for this to mean anything"
    assert [exact(one.outputs[0]) for one in results] == ample


def _generate(dtype: str, prompts: list[str], params: list[SamplingParams]) -> list[object]:
    with LLM("smollm2", dtype=dtype, max_num_seqs=6, max_model_len=512) as llm:
        return list(llm.generate(prompts, params))
