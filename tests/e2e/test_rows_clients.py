"""What the README promises to clients, run word for word; the shape of chunks; authentication."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest

from .serving import Server, sse_events
from .test_chat import ANSWER, QUESTION

README_URL = "http://127.0.0.1:8000"


def readme_blocks(repo_root: Path) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```$", (repo_root / "README.md").read_text(), re.M | re.S)


@pytest.mark.covers("API-01")
def test_the_readme_runs_word_for_word(server: Server, repo_root: Path) -> None:
    assert int(openai.__version__.split(".")[0]) >= 1
    blocks = [block.replace(README_URL, server.url) for block in readme_blocks(repo_root)]
    commands = [
        command
        for block in blocks
        if block.startswith("curl ")
        for command in re.findall(r"^curl .*?(?=^curl |\Z)", block, re.M | re.S)
    ]
    assert len(commands) == 3
    answers = []
    for command in commands:
        done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60)
        answers.append(json.loads(done.stdout))
    chat, completion, models = answers
    assert chat["choices"][0]["message"]["content"] == ANSWER
    assert completion["usage"]["completion_tokens"] == 32
    assert models["data"][0]["id"] == "smollm2"

    example = next(block for block in blocks if "from openai import OpenAI" in block)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ANSWER


def shape(value: object) -> object:
    """The keys and types of a JSON value."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


def chunk_shape(choices: list[object], **more: object) -> dict[str, object]:
    return {
        "id": "str",
        "object": "str",
        "created": "int",
        "model": "str",
        "choices": choices,
        **more,
    }


def choice_shape(delta: dict[str, str], finish_reason: str = "NoneType") -> dict[str, object]:
    return {"index": "int", "delta": delta, "logprobs": "NoneType", "finish_reason": finish_reason}


@pytest.mark.covers("API-02")
def test_chunks_have_exactly_this_shape(server: Server) -> None:
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="EMPTY", max_retries=0)
    asked = {"model": "smollm2", "messages": QUESTION, "temperature": 0, "stream": True}
    chunks = list(client.chat.completions.create(**asked, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert chunks[-2].choices[0].finish_reason == "stop"

    with httpx.stream("POST", server.url + "/v1/chat/completions", json=asked, timeout=60) as response:
        assert response.headers["content-type"].split(";")[0] == "text/event-stream"
        *events, end = sse_events(response)
    assert end == "[DONE]"
    shapes = [shape(json.loads(event)) for event in events]
    assert shapes[0] == chunk_shape([choice_shape({"role": "str", "content": "str"})])
    for middle in shapes[1:-1]:
        assert middle == chunk_shape([choice_shape({"content": "str"})])
    last = json.loads(events[-1])["choices"][0]
    assert last["finish_reason"] == "stop"
    assert set(last["delta"]) <= {"content"}


@pytest.mark.covers("API-13")
def test_keys_guard_every_route_but_probes(vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path) -> None:
    def get(server: Server, path: str, key: str | None = None) -> int:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.get(server.url + path, headers=headers, timeout=10).status_code

    def chat(server: Server, key: str) -> str | None:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
        made = client.chat.completions.create(model="smollm2", messages=QUESTION, max_tokens=2)
        return made.choices[0].finish_reason

    with Server(vllm_rs_binary, "--mock", log=tmp_path / "open.log") as server:
        assert chat(server, "EMPTY") == chat(server, "whatever") == "length"
    keyed = ["--mock", "--api-key", "first", "--api-key", "second", "--host", "0.0.0.0"]
    with Server(vllm_rs_binary, *keyed, log=tmp_path / "keyed.log") as server:
        with pytest.raises(openai.AuthenticationError):
            chat(server, "EMPTY")
        assert chat(server, "first") == chat(server, "second") == "length"
        for path in ("/health", "/live", "/ready"):
            assert get(server, path) == 200
        for path in ("/v1/models", "/metrics", "/version"):
            assert (get(server, path), get(server, path, "wrong"), get(server, path, "first")) == (
                401,
                401,
                200,
            )
        for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"):
            assert httpx.post(server.url + path, json={}, timeout=10).status_code == 401

    beyond = [vllm_rs_binary, "serve", "smollm2", "--mock", "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(beyond, capture_output=True, text=True, timeout=30)
    assert refused.returncode != 0
    assert "--api-key" in refused.stderr
    assert "--allow-unauthenticated" in refused.stderr
    allowed = Server(
        vllm_rs_binary, "--mock", "--host", "0.0.0.0", "--allow-unauthenticated", log=tmp_path / "allowed.log"
    )
    with allowed as server:
        assert chat(server, "EMPTY") == "length"
    assert " WARN " in allowed.log.read_text()
