"""The KV manager knows no model and no kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, pytest
assert pytest.main(["-q", "-p", "no:cacheprovider", "-k", "not many_requests", {tests!r}]) == 0
wrong = [name for name in sys.modules if name.startswith((
    "vllm_rs.models", "vllm_rs.exec", "vllm_rs.core", "vllm_rs._cpu", "vllm_rs._rust", "torch", "numpy"))]
print("imported:", sorted(wrong))
"""


@pytest.mark.covers("KV-22")
def test_its_tests_import_no_model_or_kernel_code():
    tests = str(Path(__file__).with_name("test_manager.py"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(tests=tests)], capture_output=True, text=True, env=environment
    )
    assert ran.stdout.splitlines()[-1:] == ["imported: []"], ran.stdout + ran.stderr
