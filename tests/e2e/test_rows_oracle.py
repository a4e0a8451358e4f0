"""Log-probabilities over HTTP against `transformers`, both in float32."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest

from .serving import Server, sse_events

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PROMPTS = ["abc", "The quick brown fox", "1 + 1 = 2; 2 + 2 =", "ähnlich wie „hier“ 🙂"]
NUM_OUTPUT_TOKENS = 24
TOP = 5
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def float32_server(
    vllm_rs_binary: Path, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("float32") / "log"
    flags = ["--dtype", "float32", "--served-model-name", "tiny"]
    with Server(vllm_rs_binary, *flags, log=log, model=str(tiny_llama)) as server:
        yield server


@pytest.fixture(scope="module")
def oracle(tiny_llama: Path) -> torch.nn.Module:
    return transformers.LlamaForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32).eval()


@torch.no_grad()
def oracle_logprobs(model: torch.nn.Module, tokens: list[int]) -> np.ndarray:
    """Log-probability of every next token at every position, [positions, vocabulary]."""
    return torch.log_softmax(model(torch.tensor([tokens])).logits[0].double(), -1).numpy()


def token_ids(server: Server, prompt: str) -> list[int]:
    return httpx.post(server.url + "/tokenize", json={"model": "tiny", "prompt": prompt}).json()["tokens"]


@pytest.mark.covers("SAMP-06")
@pytest.mark.parametrize("prompt", PROMPTS)
def test_logprobs_of_prompt_and_output_equal_the_oracle(
    float32_server: Server, oracle: torch.nn.Module, prompt: str
) -> None:
    asked = {"model": "tiny", "prompt": prompt, "max_tokens": NUM_OUTPUT_TOKENS, "ignore_eos": True}
    plain = httpx.post(float32_server.url + "/v1/completions", json=asked, timeout=60).json()
    assert len(plain["choices"]) == 1
    assert plain["choices"][0]["logprobs"] is None

    asked |= {"temperature": 0, "logprobs": TOP, "echo": True, "return_token_ids": True}
    choice = httpx.post(float32_server.url + "/v1/completions", json=asked, timeout=60).json()["choices"][0]
    tokens = token_ids(float32_server, prompt) + choice["token_ids"]
    theirs = oracle_logprobs(oracle, tokens)
    scores = choice["logprobs"]["token_logprobs"]
    assert len(scores) == len(tokens)
    assert scores[0] is None
    for position, score in enumerate(scores[1:]):
        assert abs(score - theirs[position, tokens[position + 1]]) <= TOLERANCE
    for position, top in enumerate(choice["logprobs"]["top_logprobs"][1:]):
        # Keyed by text, as in OpenAI's format: tokens that are not whole characters look alike.
        expected = [*np.sort(theirs[position])[-TOP:], theirs[position, tokens[position + 1]]]
        for score in top.values():
            assert np.abs(score - np.array(expected)).min() <= TOLERANCE
        assert max(top.values()) == pytest.approx(expected[TOP - 1], abs=TOLERANCE)

    body = {**asked, "stream": True}
    with httpx.stream("POST", float32_server.url + "/v1/completions", json=body, timeout=60) as response:
        *events, _ = sse_events(response)
    streamed = [part for text in events for part in json.loads(text)["choices"]]
    assert "".join(part["text"] for part in streamed) == choice["text"]


@pytest.mark.covers("SAMP-06")
def test_sampled_logprobs_stream_as_they_come_whole(float32_server: Server, oracle: torch.nn.Module) -> None:
    client = openai.OpenAI(base_url=float32_server.url + "/v1", api_key="EMPTY", max_retries=0)
    asked = {
        "model": "tiny",
        "prompt": "Say it",
        "max_tokens": NUM_OUTPUT_TOKENS,
        "temperature": 1.0,
        "seed": 4,
        "logprobs": 1,
    }
    whole = client.completions.create(**asked).choices[0]
    parts = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True) if chunk.choices]
    assert "".join(part.text for part in parts) == whole.text
    assert whole.logprobs is not None
    scores = [score for part in parts if part.logprobs for score in part.logprobs.token_logprobs or []]
    assert scores == whole.logprobs.token_logprobs
