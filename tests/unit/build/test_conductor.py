"""The build backend refuses in one line what it cannot build, and names a build by its sources."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def backend(repo_root: Path) -> Iterator[ModuleType]:
    """The in-tree PEP 517 backend."""
    sys.path.insert(0, str(repo_root / "bindings" / "build_backend"))
    yield importlib.import_module("conductor")
    sys.path.pop(0)


HOOKS = ("get_requires_for_build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist")


def refusal(backend: ModuleType, hook: str) -> str:
    with pytest.raises(SystemExit) as caught:
        getattr(backend, hook)()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("hook", HOOKS)
def test_missing_cargo_is_one_line_that_says_what_to_install(
    backend: ModuleType, hook: str, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "rustup.rs" in refusal(backend, hook)


def test_a_missing_compiler_is_one_line_that_says_what_to_install(backend: ModuleType, monkeypatch, tmp_path):
    (tmp_path / "cargo").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "g++" in refusal(backend, HOOKS[0])


def test_missing_python_headers_are_one_line_that_says_what_to_install(
    backend: ModuleType, monkeypatch, tmp_path
):
    monkeypatch.setattr(backend.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    message = refusal(backend, HOOKS[0])
    assert "Python.h" in message
    assert "-dev" in message


@pytest.mark.parametrize(
    ("system", "machine"), [("darwin", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64")]
)
def test_other_platforms_are_refused_by_name(backend: ModuleType, system: str, machine: str, monkeypatch):
    monkeypatch.setattr(backend.sys, "platform", system)
    monkeypatch.setattr(backend.platform, "machine", lambda: machine)
    message = refusal(backend, HOOKS[0])
    assert f"{system} {machine}" in message
    assert "Linux x86-64" in message


@pytest.mark.covers("PLAT-08")
def test_an_older_python_is_refused_in_one_line(backend: ModuleType, repo_root: Path, monkeypatch):
    monkeypatch.setattr(backend.sys, "version_info", (3, 10, 14))
    assert "Python 3.11 or newer" in refusal(backend, HOOKS[0])
    assert 'requires-python = ">=3.11"' in (repo_root / "pyproject.toml").read_text(encoding="utf-8")
    assert "Python 3.11 or newer" in (repo_root / "README.md").read_text(encoding="utf-8")


def test_the_build_id_follows_the_sources(backend: ModuleType, tmp_path: Path):
    build_id = importlib.import_module("build_id")
    (tmp_path / "engine").mkdir()
    source, info = tmp_path / "engine" / "a.py", tmp_path / "info.json"
    source.write_text("x = 1\n")
    first = build_id.write_build_info(tmp_path, info, editable=False)
    assert build_id.write_build_info(tmp_path, info, editable=False) == first
    source.write_text("x = 2\n")
    assert build_id.write_build_info(tmp_path, info, editable=False) != first
    assert json.loads(info.read_text())["commit"] == "unknown"
    assert build_id.write_build_info(tmp_path, info, editable=True) == "dev"
