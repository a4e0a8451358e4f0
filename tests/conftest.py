"""What every test may rely on: the repository root, the default model, hypothesis without deadlines."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# Wall-clock limits make property tests fail on a busy machine for no reason.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# The engine audits its own book-keeping after every step while it is under test.
os.environ.setdefault("VLLM_RS_CHECK_INVARIANTS", "1")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the working tree."""
    return ROOT


@pytest.fixture(scope="session")
def vllm_rs_binary() -> Path:
    """The `vllm-rs` binary that was installed beside this Python."""
    beside = Path(sys.executable).with_name("vllm-rs")
    found = beside if beside.exists() else shutil.which("vllm-rs")
    if not found:
        pytest.fail("no vllm-rs binary beside this Python: run `make dev`")
    return Path(found)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The embedded default model, fetched once into the user's cache."""
    from vllm_rs._rust import resolve_model

    return Path(resolve_model("smollm2"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests where there is no CUDA device."""
    if any(item.get_closest_marker("gpu") for item in items) and not Path("/dev/nvidia0").exists():
        skip = pytest.mark.skip(reason="no CUDA device on this machine")
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(skip)
