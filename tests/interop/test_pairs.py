"""What a client sees of our frontend over vLLM's engine, and of vLLM's frontend over ours, is the same."""

import re

import httpx
import openai
import pytest

from .processes import NAME, wait_until

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."

# Starting vLLM takes minutes, and the first test of a pair pays for it.
pytestmark = pytest.mark.timeout(600)


@pytest.mark.covers("ENG-08")
def test_streamed_chat_with_usage(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=NAME,
            messages=QUESTION,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(parts) == ANSWER
    assert len([part for part in parts if part]) > 1
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    whole = client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0)
    assert whole.choices[0].message.content == ANSWER
    assert whole.usage is not None
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(usage, field) == getattr(whole.usage, field)


def test_logprobs_of_output_and_prompt(client: openai.OpenAI) -> None:
    chunks = client.chat.completions.create(
        model=NAME, messages=QUESTION, temperature=0, logprobs=True, top_logprobs=3, stream=True
    )
    tokens = [
        entry
        for chunk in chunks
        if chunk.choices and chunk.choices[0].logprobs
        for entry in chunk.choices[0].logprobs.content or []
    ]
    assert "".join(entry.token for entry in tokens).startswith(ANSWER)
    for entry in tokens:
        # At temperature 0 the token chosen is the likeliest.
        assert entry.logprob <= 0
        assert entry.top_logprobs[0].logprob == pytest.approx(entry.logprob, abs=1e-4)
        likelihoods = [other.logprob for other in entry.top_logprobs]
        assert likelihoods == sorted(likelihoods, reverse=True)

    choice = client.completions.create(
        model=NAME, prompt="Paris is the capital of", max_tokens=2, temperature=0, logprobs=2, echo=True
    ).choices[0]
    assert choice.logprobs is not None
    scores = choice.logprobs.token_logprobs
    assert scores is not None
    assert scores[0] is None
    assert len(scores) > 4
    assert all(score is not None and score <= 0 for score in scores[1:])


def test_seed_choices_and_stop_strings(client: openai.OpenAI) -> None:
    asked = {"model": NAME, "prompt": "Once upon a time", "n": 2, "max_tokens": 12, "seed": 11}
    first, second = (client.completions.create(**asked) for _ in range(2))
    assert [choice.text for choice in first.choices] == [choice.text for choice in second.choices]
    assert first.choices[0].text != first.choices[1].text
    stopped = client.completions.create(
        model=NAME, prompt="1, 2, 3,", max_tokens=32, temperature=0, stop=["6"]
    ).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.text == " 4, 5, "


def test_disconnect_aborts_in_the_engine(client: openai.OpenAI, url: str) -> None:
    body = {"model": NAME, "prompt": "The sea", "max_tokens": 3500, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", url + "/v1/completions", json=body, timeout=120) as response:
        next(line for line in response.iter_lines() if line.startswith("data: "))

    def nothing_runs() -> bool:
        # Statistics travel with outputs, so a further request is what brings the news.
        client.completions.create(model=NAME, prompt="Hi", max_tokens=2)
        text = httpx.get(url + "/metrics", timeout=10).text
        gauges = re.findall(r"^vllm:num_requests_running(?:\{.*\})? (\S+)$", text, re.M)
        assert gauges
        return sum(map(float, gauges)) == 0

    wait_until(nothing_runs, 20, "the engine dropped the request")


def test_too_long_a_prompt_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=NAME, prompt=[5] * 5000, max_tokens=1)
    assert client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0).choices
