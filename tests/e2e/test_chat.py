"""The first request a user makes, by every client the README names."""

import asyncio
import json
import subprocess

import httpx
import openai
import pytest

from .serving import Server, sse_events

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."


@pytest.fixture
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="EMPTY", max_retries=0)


@pytest.mark.covers("CLI-01")
def test_curl(server: Server) -> None:
    body = json.dumps({"model": "smollm2", "messages": QUESTION, "temperature": 0})
    printed = subprocess.run(
        [
            "curl",
            "-sS",
            server.url + "/v1/chat/completions",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
        ],
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    answer = json.loads(printed)
    assert answer["choices"][0]["message"]["content"] == ANSWER
    assert answer["choices"][0]["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.covers("API-13")
def test_openai_sdk(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0)
    assert answer.choices[0].message.content == ANSWER
    assert answer.object == "chat.completion"


@pytest.mark.covers("API-02")
def test_openai_sdk_streaming(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="smollm2",
        messages=QUESTION,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ANSWER
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert not chunks[-1].choices
    assert len({chunk.id for chunk in chunks}) == 1


def test_openai_sdk_async(server: Server) -> None:
    async def ask() -> list[str | None]:
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="EMPTY", max_retries=0)
        answers = await asyncio.gather(
            *[
                client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0)
                for _ in range(4)
            ]
        )
        return [answer.choices[0].message.content for answer in answers]

    assert asyncio.run(ask()) == [ANSWER] * 4


def test_event_stream_ends_with_done(server: Server) -> None:
    body = {"model": "smollm2", "messages": QUESTION, "temperature": 0, "stream": True}
    with httpx.stream("POST", server.url + "/v1/chat/completions", json=body, timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(sse_events(response))
    assert events[-1] == "[DONE]"
    assert all(json.loads(event)["object"] == "chat.completion.chunk" for event in events[:-1])


@pytest.mark.covers("API-15")
def test_alias_answers_and_unknown_model_is_404(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="alias", messages=QUESTION, temperature=0)
    assert answer.choices[0].message.content == ANSWER
    with pytest.raises(openai.NotFoundError, match="nonsense"):
        client.chat.completions.create(model="nonsense", messages=QUESTION)
    assert {model.id for model in client.models.list()} == {"smollm2", "alias"}


@pytest.mark.covers("API-14")
def test_extra_body_fields(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="smollm2",
        messages=QUESTION,
        temperature=2,
        extra_body={"top_k": 1, "min_p": 0.01, "repetition_penalty": 1.0},
    )
    assert answer.choices[0].message.content == ANSWER


def test_n_choices_share_a_prompt_and_differ(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="smollm2", prompt="Once upon a time", n=4, max_tokens=24, temperature=1, seed=7
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert len({choice.text for choice in answer.choices}) == 4
    again = client.completions.create(
        model="smollm2", prompt="Once upon a time", n=4, max_tokens=24, temperature=1, seed=7
    )
    assert [choice.text for choice in again.choices] == [choice.text for choice in answer.choices]


@pytest.mark.covers("API-03")
def test_prompt_as_string_list_and_ids(client: openai.OpenAI, server: Server) -> None:
    text = "The three primary colours are"
    ids = httpx.post(server.url + "/tokenize", json={"model": "smollm2", "prompt": text}).json()["tokens"]
    expected = client.completions.create(model="smollm2", prompt=text, max_tokens=8, temperature=0)
    for prompt, count in ((text, 1), ([text, text], 2), (ids, 1), ([ids, ids], 2)):
        answer = client.completions.create(model="smollm2", prompt=prompt, max_tokens=8, temperature=0)
        assert [choice.text for choice in answer.choices] == [expected.choices[0].text] * count
    back = httpx.post(server.url + "/detokenize", json={"model": "smollm2", "tokens": ids}).json()
    assert back["prompt"] == text


@pytest.mark.covers("SAMP-04")
def test_max_tokens_ends_with_length(client: openai.OpenAI) -> None:
    for limit in (1, 2, 17):
        answer = client.completions.create(
            model="smollm2",
            prompt="Counting:",
            max_tokens=limit,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == limit


@pytest.mark.covers("SAMP-05")
def test_stop_string_split_over_tokens(client: openai.OpenAI) -> None:
    whole = (
        client.completions.create(model="smollm2", prompt="1, 2, 3,", max_tokens=24, temperature=0)
        .choices[0]
        .text
    )
    stop = whole[5:9]
    expected = whole[: whole.index(stop)]
    answer = client.completions.create(
        model="smollm2", prompt="1, 2, 3,", max_tokens=24, temperature=0, stop=[stop]
    )
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (expected, "stop")
    stream = client.completions.create(
        model="smollm2", prompt="1, 2, 3,", max_tokens=24, temperature=0, stop=[stop], stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == expected


@pytest.mark.covers("ENG-18")
def test_streamed_and_whole_answers_are_equal(client: openai.OpenAI) -> None:
    asked = {
        "model": "smollm2",
        "prompt": "The sea is",
        "max_tokens": 20,
        "seed": 3,
        "logprobs": 2,
        "echo": True,
    }
    whole = client.completions.create(**asked).choices[0]
    chunks = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True) if chunk.choices]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert chunks[-1].finish_reason == whole.finish_reason
    streamed = [chunk.logprobs for chunk in chunks if chunk.logprobs]
    assert whole.logprobs is not None
    for field in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
        joined = [item for part in streamed for item in getattr(part, field)]
        assert joined == getattr(whole.logprobs, field), field


@pytest.mark.covers("CLI-05")
def test_too_long_a_prompt_names_both_numbers(client: openai.OpenAI) -> None:
    limit = client.models.list().data[0].model_dump()["max_model_len"]
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="smollm2", prompt=[1] * (limit + 5), max_tokens=1)
    assert str(limit) in str(error.value)
    assert str(limit + 5) in str(error.value) or str(limit + 6) in str(error.value)


@pytest.mark.covers("KV-15", "KV-16")
def test_second_chat_with_the_same_system_prompt_hits_the_cache(
    client: openai.OpenAI, server: Server
) -> None:
    system = "You are a careful librarian of rare maps. " * 12
    before = server.metric("vllm:prefix_cache_hits_total")

    def ask(question: str) -> None:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        client.chat.completions.create(model="smollm2", messages=messages, max_tokens=4)

    ask("Where is Ithaca?")
    ask("Where is Troy?")
    shared = client.completions.create(model="smollm2", prompt=system, max_tokens=1).usage
    assert shared is not None
    hits = server.metric("vllm:prefix_cache_hits_total") - before
    assert hits >= (shared.prompt_tokens - 16) // 16 * 16
