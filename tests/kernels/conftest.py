"""Lets the tests here import their numpy references, and gives them each kernel set and a thread pool."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_rs import _cpu

sys.path.insert(0, str(Path(__file__).parent))

ISAS = [*_cpu.available_isas(), "amx_emulated"]


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each kernel set that may run here, selected for one test."""
    before = _cpu.selected_isa()
    _cpu.set_isa(request.param)
    yield request.param
    _cpu.set_isa(before)


@pytest.fixture(scope="session")
def pool() -> _cpu.ThreadPool:
    return _cpu.ThreadPool(2)


@pytest.fixture(scope="session")
def single() -> _cpu.ThreadPool:
    return _cpu.ThreadPool(1)
