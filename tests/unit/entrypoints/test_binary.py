"""Python's ways into the server become the native binary, with the same arguments and this interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = """#!/bin/sh
echo "$0 $VLLM_RS_PYTHON" "$@"
"""


@pytest.fixture
def fake_binary(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has a `vllm-rs` that prints how it was called."""
    binary = tmp_path / "vllm-rs"
    binary.write_text(FAKE)
    binary.chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def launched(module: str, *args: str, environ: dict[str, str], repo_root: Path) -> str:
    """What the binary printed. It is found on the PATH: nothing is installed beside the interpreter."""
    code = (
        "import runpy, sys, sysconfig; sysconfig.get_path = lambda name: '/nowhere'; "
        f"sys.executable = '/nowhere/python'; sys.argv[1:] = {list(args)!r}; "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    environ = environ | {"PYTHONPATH": str(repo_root / "engine")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_api_server_module_is_serve_with_the_same_flags(fake_binary: dict[str, str], repo_root: Path):
    module = "vllm_rs.entrypoints.openai.api_server"
    text = launched(module, "--model", "m", "--port", "8007", environ=fake_binary, repo_root=repo_root)
    assert text.endswith("/nowhere/python serve --model m --port 8007\n")


def test_the_package_as_a_module_is_the_binary(fake_binary: dict[str, str], repo_root: Path):
    text = launched("vllm_rs", "doctor", environ=fake_binary, repo_root=repo_root)
    assert text.endswith("/nowhere/python doctor\n")


def test_without_a_binary_one_line_says_what_to_install(repo_root: Path, tmp_path: Path):
    code = (
        "import sys, sysconfig; sysconfig.get_path = lambda name: '/nowhere'; "
        "sys.executable = '/nowhere/python'; "
        "from vllm_rs.entrypoints.binary import run; run([])"
    )
    environ = {"PATH": str(tmp_path), "PYTHONPATH": str(repo_root / "engine")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == "vllm-rs is not installed beside this Python: pip install vllm-rs\n"
