"""Shares the step driver of tests/unit/exec."""

import importlib.util
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "exec_driver", Path(__file__).parents[1] / "exec" / "conftest.py"
)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)


@pytest.fixture(scope="session")
def exec_driver():
    """The module with `Driver` and `Request`."""
    return _MODULE


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", _MODULE.BACKENDS)


@pytest.fixture
def llama_config():
    return dict(_MODULE.LLAMA)
