"""The binary, the tiny model, and one server that most tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from .serving import MockServer, write_engine_script
from .tiny_model import VOCAB_SIZE, write_tiny_model


@pytest.fixture(scope="session")
def binary(request: pytest.FixtureRequest) -> Path:
    """The binary under test: `VLLM_RS_TEST_BINARY`, else the installed one."""
    given = os.environ.get("VLLM_RS_TEST_BINARY")
    return Path(given).resolve() if given else request.getfixturevalue("vllm_rs_binary")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def engine_script(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_engine_script(tmp_path_factory.mktemp("engine"), binary)


@pytest.fixture(scope="module")
def server(binary: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockServer]:
    """A server whose engine answers with the prompt's own tokens."""
    log = tmp_path_factory.mktemp("server") / "log"
    flags = ["--mock-echo", f"--mock-vocab-size={VOCAB_SIZE}", "--mock-max-model-len=4096"]
    with MockServer(binary, tiny_model, *flags, "--log-level=debug", log=log) as running:
        yield running


@pytest.fixture
def client(server: MockServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="EMPTY", max_retries=0)
