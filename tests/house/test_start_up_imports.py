"""What the engine process loads before it can serve: a small, named set of packages, and never torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

THIRD_PARTY = {"numpy", "msgspec", "zmq", "cython_runtime", "typing_extensions"}
"""The dependencies, and what they load: Cython's run time, and typing_extensions where it is installed."""

MODULE_BUDGET = 450
"""Modules in sys.modules after the engine's entry point is imported; each costs about 0.1 ms of start-up."""

ENGINE = Path(__file__).resolve().parents[2] / "engine"
REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def loaded_modules(code: str) -> set[str]:
    """sys.modules of a fresh interpreter after running some code."""
    environ = os.environ | {"PYTHONPATH": str(ENGINE)}
    command = [sys.executable, "-c", f"{code}\n{REPORT}"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def third_party(modules: set[str]) -> set[str]:
    """Top-level packages that are neither the standard library nor ours."""
    roots = {name.partition(".")[0] for name in modules}
    private = {name for name in roots if name.startswith(("_", "sitecustomize", "__"))}
    return roots - set(sys.stdlib_module_names) - private - {"vllm_rs", "mypyc"}


def test_the_package_itself_loads_nothing():
    before = loaded_modules("pass")
    assert third_party(loaded_modules("import vllm_rs") - before) == set()


@pytest.mark.parametrize("module", ["vllm_rs.core.proc", "vllm_rs.offline.llm"])
def test_entry_points_load_only_the_runtime_dependencies(module: str):
    before = loaded_modules("pass")
    loaded = loaded_modules(f"import {module}")
    assert third_party(loaded - before) <= THIRD_PARTY
    assert len(loaded) <= MODULE_BUDGET


def test_generating_on_cpu_never_imports_torch(smollm2_path: Path):
    code = f"""
from vllm_rs import LLM, SamplingParams
llm = LLM({str(smollm2_path)!r}, max_model_len=64, max_num_seqs=2, max_num_batched_tokens=64)
llm.generate(["The capital of France is"], SamplingParams(max_tokens=2, temperature=0.0), use_tqdm=False)
"""
    assert third_party(loaded_modules(code) - loaded_modules("pass")) <= THIRD_PARTY
