"""The stubs of the native modules say what the modules offer."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["vllm_rs._rust", "vllm_rs._cpu"])
def test_stub_equals_module(module: str, repo_root: Path):
    command = [sys.executable, "-m", "mypy.stubtest", "--ignore-disjoint-bases", "--ignore-unused-allowlist"]
    command += ["--allowlist", str(Path(__file__).with_name("stubtest_allowlist.txt")), module]
    done = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
