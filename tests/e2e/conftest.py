"""One server with the default model for all tests that only read from it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .serving import Server
from .tiny_llama import write_tiny_llama


@pytest.fixture(scope="session")
def server(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """`vllm-rs serve smollm2` on a free port."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    with Server(vllm_rs_binary, "--served-model-name", "smollm2", "alias", log=log) as running:
        yield running


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random Llama of two layers: starts at once."""
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"))
