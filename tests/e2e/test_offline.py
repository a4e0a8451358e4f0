"""The Python API on the default model: same text code, same engine, no server."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator

import pytest

from vllm_rs import LLM, AsyncLLM, LLMEngine, SamplingParams
from vllm_rs.config import ConfigError
from vllm_rs.errors import RequestError

PROMPTS = ["The capital of France is", "def add(a, b):", "Es war einmal", "1 2 3 4"]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM("smollm2", max_num_seqs=32) as loaded:
        yield loaded


def greedy(max_tokens: int = 24) -> SamplingParams:
    """Greedy, to the last token."""
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)


def test_chat(llm: LLM) -> None:
    question = [{"role": "user", "content": "What is the capital of France?"}]
    answer = llm.chat(question, SamplingParams(temperature=0, max_tokens=32))[0]
    assert answer.outputs[0].text == "The capital of France is Paris."
    assert answer.outputs[0].finish_reason == "stop"
    assert answer.finished


@pytest.mark.covers("LLM-04")
def test_one_parameter_set_or_one_per_prompt(llm: LLM) -> None:
    each = [greedy(n) for n in (1, 2, 3, 4)]
    lengths = [len(result.outputs[0].token_ids) for result in llm.generate(PROMPTS, each)]
    assert lengths == [1, 2, 3, 4]
    with pytest.raises(RequestError, match=r"4 prompts.*2 values"):
        llm.generate(PROMPTS, each[:2])


@pytest.mark.covers("ENG-06", "ENG-07")
def test_process_engine_equals_in_process(llm: LLM) -> None:
    here = llm.generate(PROMPTS, greedy())
    with LLM("smollm2", engine="process", max_num_seqs=32) as other:
        there = other.generate(PROMPTS, greedy())
    assert [result.outputs[0].token_ids for result in here] == [
        result.outputs[0].token_ids for result in there
    ]
    assert [result.prompt for result in there] == PROMPTS


def test_results_come_in_order_whatever_their_length(llm: LLM) -> None:
    prompts = [f"Item {number}:" for number in range(100)]
    params = [greedy(1 + number * 7 % 13) for number in range(100)]
    results = llm.generate(prompts, params)
    assert [result.prompt for result in results] == prompts
    assert [len(result.outputs[0].token_ids) for result in results] == [one.max_tokens for one in params]


@pytest.mark.covers("ENG-22")
def test_engine_steps_until_the_longest_is_done() -> None:
    engine = LLMEngine.from_engine_args(model="smollm2", max_num_seqs=8)
    lengths = {"a": 3, "b": 9, "c": 6}
    for request_id, length in lengths.items():
        engine.add_request(request_id, "Hello", greedy(length))
    steps, ended = 0, {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                ended[output.request_id] = len(output.outputs[0].token_ids)
        steps += 1
    engine.shutdown()
    assert ended == lengths
    assert steps == max(lengths.values())


@pytest.mark.covers("ENG-15")
def test_async_iterator_grows_and_ends() -> None:
    async def run() -> None:
        engine = AsyncLLM("smollm2", engine="inproc", max_num_seqs=8)
        try:

            async def collect(prompt: str) -> list[str]:
                texts = []
                async for output in engine.generate(prompt, greedy(16)):
                    texts.append(output.outputs[0].text)
                    last = output
                assert last.finished
                return texts

            for texts in await asyncio.gather(*[collect(prompt) for prompt in PROMPTS]):
                assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
            async for _ in engine.generate("leave early", greedy(500)):
                break
            again = await collect("after one that left early")
            assert again[-1]
        finally:
            engine.shutdown()

    asyncio.run(run())


def test_async_consumers_hear_of_the_end_and_a_closed_loop_harms_nobody() -> None:
    engine = AsyncLLM("smollm2", engine="inproc", max_num_seqs=8)

    async def leave_behind() -> None:
        stream = engine.generate("Hello", greedy(2000))
        await anext(stream)
        engine._left_behind = stream  # type: ignore[attr-defined]  # kept alive past its loop

    async def abort_one() -> str | None:
        stream = engine.generate("Hello", greedy(2000), request_id="mine")
        await anext(stream)
        await engine.abort("mine")
        async for output in stream:
            last = output
        return last.outputs[0].finish_reason

    async def shut_down_under_a_stream() -> None:
        stream = engine.generate("Hello", greedy(2000))
        await anext(stream)
        await asyncio.get_running_loop().run_in_executor(None, engine.shutdown)
        with pytest.raises(RuntimeError, match="shut down"):
            async for _ in stream:
                pass
        with pytest.raises(RuntimeError, match="shut down"):
            await anext(engine.generate("Hello", greedy()))

    asyncio.run(leave_behind())
    assert asyncio.run(abort_one()) == "abort"
    asyncio.run(shut_down_under_a_stream())


def test_prompts_as_mappings_and_nonsense(llm: LLM) -> None:
    ids = llm.get_tokenizer().encode(PROMPTS[0])
    texts = {
        result.outputs[0].text
        for result in llm.generate([PROMPTS[0], {"prompt": PROMPTS[0]}, {"prompt_token_ids": ids}], greedy(6))
    }
    assert len(texts) == 1
    for nonsense in ({"text": "x"}, [1.5], [None]):
        with pytest.raises(RequestError, match="prompt"):
            llm.generate([nonsense], greedy())  # type: ignore[list-item]


def test_a_refused_request_leaves_nothing_behind(llm: LLM) -> None:
    engine = llm.llm_engine
    with pytest.raises(RequestError):
        engine.add_request("refused", [10**9], greedy())
    with pytest.raises(RequestError):
        engine.add_request("refused", "Hello", SamplingParams(n=2, logit_bias={-1: 1.0}))
    assert not engine.has_unfinished_requests()


@pytest.mark.parametrize("num_tokens", [528, 544, 1024])
def test_identical_long_prompts_side_by_side(llm: LLM, num_tokens: int) -> None:
    prompt = [index % 900 + 100 for index in range(num_tokens)]
    results = llm.generate([prompt] * 3, greedy(3))
    assert len({tuple(result.outputs[0].token_ids) for result in results}) == 1


def test_one_token_prompt_has_a_prompt_logprobs_list(llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1)
    assert llm.generate([[100]], params)[0].prompt_logprobs == [None]
    scored = llm.generate([[100, 200]], params)[0].prompt_logprobs
    assert scored is not None
    assert scored[0] is None
    assert 200 in (scored[1] or {})


@pytest.mark.covers("ENG-21")
def test_n_completions_with_their_own_seeds(llm: LLM) -> None:
    params = SamplingParams(n=4, temperature=1, seed=11, max_tokens=16, ignore_eos=True)
    result = llm.generate("Once upon a time", params)[0]
    assert [choice.index for choice in result.outputs] == [0, 1, 2, 3]
    assert len({tuple(choice.token_ids) for choice in result.outputs}) == 4
    alone = [
        llm.generate(
            "Once upon a time", SamplingParams(temperature=1, seed=11 + i, max_tokens=16, ignore_eos=True)
        )
        for i in range(4)
    ]
    assert [one[0].outputs[0].token_ids for one in alone] == [choice.token_ids for choice in result.outputs]


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"dtype": "int3"}, "dtype"),
        ({"trust_remote_code": True}, "trust-remote-code"),
        ({"no_such_keyword": 1}, "no_such_keyword"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size"),
        ({"max_num_seqs": 0}, "max-num-seqs"),
    ],
)
def test_keywords_that_cannot_work_are_refused_by_name(keywords: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        LLM("smollm2", **keywords)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 0}, "n must"),
        ({"stop": [""]}, "stop"),
        ({"logit_bias": {10**6: 1}}, "logit_bias"),
    ],
)
def test_bad_sampling_parameters_are_refused_by_name(llm: LLM, params: dict[str, object], named: str) -> None:
    with pytest.raises(RequestError, match=named):
        llm.generate("Hello", SamplingParams(**params))


def test_serving_offline_never_imports_torch() -> None:
    program = (
        "import sys; from vllm_rs import LLM, SamplingParams\n"
        "llm = LLM('smollm2'); llm.generate('Hello', SamplingParams(max_tokens=2))\n"
        "print(sorted({'torch', 'transformers', 'triton'} & sys.modules.keys()))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert printed.stdout.strip().splitlines()[-1] == "[]"
