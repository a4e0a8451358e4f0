"""Both pairs of a foreign and an own half. Collected only when this folder is named (`make interop`)."""

import os
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from .processes import Peers, free_port, running, wait_ready


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out of every run that does not name them."""
    return None if any("interop" in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Peers:
    """The folder that `VLLM_RS_PEERS` names."""
    folder = Path(os.environ.get("VLLM_RS_PEERS", ""))
    if not (folder / "vllm-venv" / "bin" / "python").exists() or not (folder / "hf").is_dir():
        pytest.fail("VLLM_RS_PEERS must name a folder with vllm-venv and hf, see tests/interop/README.md")
    return Peers(folder.resolve(), tmp_path_factory.mktemp("interop"))


@pytest.fixture(scope="session", params=["our-frontend", "our-engine"])
def url(request: pytest.FixtureRequest, peers: Peers, vllm_rs_binary: Path) -> Iterator[str]:
    """Base URL of a frontend whose engine is the other product's."""
    http_port = free_port()
    link = ["--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", str(free_port())]
    frontend_flags = ["--port", str(http_port), "--data-parallel-size-local", "0", *link]
    engine_flags = ["--headless", "--data-parallel-size-local", "1", *link]
    if request.param == "our-frontend":
        frontend = peers.ours(vllm_rs_binary, *frontend_flags)
        # Compiling would add minutes to the start and nothing to the wire.
        engine = peers.vllm("--enforce-eager", *engine_flags)
    else:
        frontend = peers.vllm("--data-parallel-size", "1", *frontend_flags)
        engine = peers.ours(vllm_rs_binary, *engine_flags)
    logs = [peers.scratch / f"{request.param}.{half}.log" for half in ("frontend", "engine")]
    base = f"http://127.0.0.1:{http_port}"
    with running(*frontend, logs[0]) as first, running(*engine, logs[1]) as second:
        wait_ready(base, {logs[0]: first, logs[1]: second})
        yield base


@pytest.fixture
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url + "/v1", api_key="EMPTY", max_retries=0, timeout=120)
