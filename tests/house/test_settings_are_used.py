"""Every setting in the flags table is read somewhere, and every variable that is read stands in the table."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_FILES = ("frontend-rs/flags/", "engine/vllm_rs/config_sections.py")
NOT_SETTINGS = {"VLLM_RS_BUILD_ID", "VLLM_RS_CARGO_PROFILE", "VLLM_RS_WERROR"}
"""Read at build time."""


def sources() -> dict[str, str]:
    """Text of every source that can read a setting, test modules left out."""
    files = [
        *(ROOT / "engine").rglob("*.py"),
        *(ROOT / "frontend-rs").glob("*/src/**/*.rs"),
        *(ROOT / "bindings").rglob("*.rs"),
    ]
    named = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    return {
        name: text.partition("#[cfg(test)]\nmod tests {")[0]
        for name, text in named.items()
        if not name.startswith(OWN_FILES) and "/tests" not in name
    }


@pytest.fixture(scope="module")
def table():
    sys.path.insert(0, str(ROOT / "frontend-rs" / "flags"))
    try:
        from table import load
    finally:
        sys.path.pop(0)
    return load(ROOT / "frontend-rs" / "flags" / "flags.toml")


def test_every_flag_is_read(table):
    text = "\n".join(sources().values())
    checked_when_parsed = {"trust_remote_code", "allow_unauthenticated"}
    fields = {flag.field_name for flag in table.flags} - checked_when_parsed
    unread = [name for name in sorted(fields) if not re.search(rf"(\.|[{{,]\s*){name}\b", text)]
    assert unread == []


def test_every_environment_variable_is_in_the_table(table):
    known = {flag.env_name for flag in table.flags} | {row.name for row in table.env} | NOT_SETTINGS
    known |= {flag.env_scaled.name for flag in table.flags if flag.env_scaled}
    read = set(re.findall(r'"((?:VLLM|HF)_[A-Z_]+)"', "\n".join(sources().values())))
    assert sorted(read - known) == []
    assert sorted(row.name for row in table.env if row.name not in read) == []
