"""The same HTTP tests against the real engine and the mock: it makes no difference who answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from .serving import Server, sse_events

pytestmark = pytest.mark.covers("ENG-26")
BODY: dict[str, Any] = {"model": "smollm2", "prompt": "One two three", "max_tokens": 6, "ignore_eos": True}
CHAT = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def mock_server(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The same server program over the mock engine."""
    log = tmp_path_factory.mktemp("mock") / "server.log"
    flags = ["--mock", "--mock-vocab-size=49152", "--served-model-name", "smollm2", "alias"]
    with Server(vllm_rs_binary, *flags, log=log) as running:
        yield running


@pytest.fixture(params=["server", "mock_server"])
def any_server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def test_streams_end_with_done_after_all_tokens(any_server: Server) -> None:
    body = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
    with httpx.stream("POST", any_server.url + "/v1/completions", json=body, timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(sse_events(response))
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]][-1] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] == 6


def test_chat_by_the_sdk(any_server: Server) -> None:
    client = openai.OpenAI(base_url=any_server.url + "/v1", api_key="EMPTY", max_retries=0)
    answer = client.chat.completions.create(model="alias", messages=CHAT, max_tokens=5, n=3, seed=1)  # type: ignore[arg-type]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    with pytest.raises(openai.NotFoundError, match="nonsense"):
        client.chat.completions.create(model="nonsense", messages=CHAT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"temperature": 9}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"stop": [""]}, "stop"),
    ],
)
def test_faults_are_400_and_name_the_field(any_server: Server, change: dict[str, Any], named: str) -> None:
    answer = httpx.post(any_server.url + "/v1/completions", json={**BODY, **change}, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == named


def test_probes_tokens_and_metrics(any_server: Server) -> None:
    assert {any_server.status(path) for path in ("/health", "/live", "/ready", "/version")} == {200}
    ids = httpx.post(any_server.url + "/tokenize", json={"model": "smollm2", "prompt": "Hi there"}).json()
    back = httpx.post(any_server.url + "/detokenize", json={"model": "smollm2", "tokens": ids["tokens"]})
    assert back.json()["prompt"] == "Hi there"
    before = any_server.metric("vllm:request_success_total")
    assert httpx.post(any_server.url + "/v1/completions", json=BODY, timeout=60).status_code == 200
    assert any_server.metric("vllm:request_success_total") == before + 1
