"""One server with the default model for all tests that only read from it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .serving import Server


@pytest.fixture(scope="session")
def server(
    vllm_rs_binary: Path, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """`vllm-rs serve smollm2` on a free port."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    with Server(vllm_rs_binary, "--served-model-name", "smollm2", "alias", log=log) as running:
        yield running
