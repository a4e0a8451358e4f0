"""The official Python client against the real binary."""

import openai
import pytest

from .serving import MockServer

MESSAGES = [{"role": "user", "content": "The capital of France is Paris. ✓"}]
# The mock repeats the rendered prompt, whose first end token ends the answer.
ANSWER = "user\nThe capital of France is Paris. ✓"


@pytest.mark.covers("API-03")
def test_completions_take_text_lists_and_ids(client: openai.OpenAI) -> None:
    for prompt, texts in [
        ("abc", ["abcabc"]),
        (["ab", "c"], ["ababab", "cccccc"]),
        ([97, 98], ["ababab"]),
        ([[97], [98]], ["aaaaaa", "bbbbbb"]),
    ]:
        answer = client.completions.create(model="tiny", prompt=prompt, max_tokens=6)
        assert [choice.text for choice in answer.choices] == texts
        assert answer.usage and answer.usage.completion_tokens == 6 * len(texts)


def test_chat_whole_and_streamed_give_the_same_text(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="tiny", messages=MESSAGES)
    assert whole.choices[0].message.content == ANSWER
    assert whole.choices[0].finish_reason == "stop"
    stream = client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


async def _async_chat(url: str) -> tuple[str | None, str]:
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="EMPTY", max_retries=0) as client:
        whole = await client.chat.completions.create(model="tiny", messages=MESSAGES)
        stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    return whole.choices[0].message.content, text


def test_async_chat(server: MockServer) -> None:
    import asyncio

    assert asyncio.run(_async_chat(server.url)) == (ANSWER, ANSWER)


@pytest.mark.covers("API-14")
def test_extra_body_fields_are_taken(client: openai.OpenAI) -> None:
    extra = {
        "repetition_penalty": 1.1,
        "top_k": 5,
        "min_p": 0.05,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    answer = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=60, extra_body=extra)
    assert answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].model_extra["token_ids"]) == 60
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="tiny", messages=MESSAGES, extra_body={"top_k": -5})
    assert error.value.param == "top_k"


def test_stop_strings_n_and_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=MESSAGES, stop=[" is Pa"], n=3)
    assert [choice.message.content for choice in answer.choices] == ["user\nThe capital of France"] * 3
    scored = client.chat.completions.create(
        model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=2, max_tokens=3
    )
    assert scored.choices[0].logprobs and scored.choices[0].logprobs.content
    assert [entry.token for entry in scored.choices[0].logprobs.content] == ["<|im_start|>", "u", "s"]
    assert all(len(entry.top_logprobs) == 2 for entry in scored.choices[0].logprobs.content)


@pytest.mark.covers("API-17")
def test_answers_hold_every_field_the_client_requires(client: openai.OpenAI) -> None:
    from openai.types import Completion, Model
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    chat = client.chat.completions.with_raw_response.create(model="tiny", messages=MESSAGES, logprobs=True)
    ChatCompletion.model_validate_json(chat.text)
    chunks = client.chat.completions.with_raw_response.create(model="tiny", messages=MESSAGES, stream=True)
    lines = [line.removeprefix("data: ") for line in chunks.http_response.iter_lines() if line]
    for line in lines[:-1]:
        ChatCompletionChunk.model_validate_json(line)
    completion = client.completions.with_raw_response.create(model="tiny", prompt="a", logprobs=1)
    Completion.model_validate_json(completion.text)
    listed = client.models.with_raw_response.list()
    Model.model_validate(listed.http_response.json()["data"][0])
    assert {line["id"] for line in map(_json, lines[:-1])} == {_json(lines[0])["id"]}


def _json(line: str) -> dict[str, object]:
    import json

    return json.loads(line)  # type: ignore[no-any-return]


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_errors_become_the_client_s_classes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="4096"):
        client.completions.create(model="tiny", prompt="a" * 5000)
    with pytest.raises(openai.BadRequestError, match="tools is not supported yet"):
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        client.chat.completions.create(model="tiny", messages=MESSAGES, tools=[tool])
