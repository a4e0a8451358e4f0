"""Generated files equal what their sources generate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parent / "help"
COMMANDS = ("", "serve", "pull", "mock-engine", "doctor")


def test_files_made_from_the_flags_table_are_fresh(repo_root: Path):
    command = [sys.executable, "frontend-rs/flags/generate.py", "--check"]
    done = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_equals_the_commit(command: str, vllm_rs_binary: Path):
    """Run with UPDATE_SNAPSHOTS=1 to accept a change."""
    args = [str(vllm_rs_binary), *command.split(), "--help"]
    environ = {"PATH": os.environ["PATH"], "COLUMNS": "100"}
    done = subprocess.run(args, env=environ, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    snapshot = SNAPSHOTS / f"{command or 'vllm-rs'}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(done.stdout, encoding="utf-8")
    assert done.stdout == snapshot.read_text(encoding="utf-8")


def test_every_flag_is_in_the_help_with_its_default(repo_root: Path, vllm_rs_binary: Path):
    sys.path.insert(0, str(repo_root / "frontend-rs" / "flags"))
    try:
        from table import load
    finally:
        sys.path.pop(0)
    args = [str(vllm_rs_binary), "serve", "--help"]
    text = subprocess.run(args, capture_output=True, text=True, timeout=30).stdout
    for flag in load(repo_root / "frontend-rs" / "flags" / "flags.toml").flags:
        if flag.internal or flag.positional:
            continue
        assert f"--{flag.name}" in text
        if flag.default is not None and flag.type != "bool":
            entry = text.partition(f"\n      --{flag.name} ")[2].partition("\n      --")[0]
            assert f"[default: {flag.default}" in entry.replace("\n", " "), flag.name
