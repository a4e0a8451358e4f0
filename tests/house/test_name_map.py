"""docs/name-map.md names symbols that exist; ARCHITECTURE.md names paths that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = r"\b(?:fn|struct|enum|trait|class|mod|def)\s+{name}\b"


def rows() -> list[tuple[str, str, str]]:
    """(vLLM's names, ours, remark) of every table row."""
    found = []
    for line in (ROOT / "docs" / "name-map.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            found.append((cells[0], cells[1], cells[2]))
    return found


def named_symbols() -> list[str]:
    """Every symbol of ours that the page names."""
    cells = " ".join(ours + " " + remark for _, ours, remark in rows())
    return sorted(set(re.findall(r"`((?:vllm_rs\.|[\w/-]+\.(?:rs|hpp)(?:::)?)[\w.:]*)`", cells)))


def exists(symbol: str) -> bool:
    """Whether a Python symbol can be imported, or a definition is in its file."""
    if not symbol.startswith("vllm_rs."):
        path, _, name = symbol.partition("::")
        file = ROOT / path
        return file.exists() and bool(
            not name or re.search(DEFINITION.format(name=name), file.read_text(encoding="utf-8"))
        )
    parts = symbol.split(".")
    for count in range(len(parts), 0, -1):
        try:
            target = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            if not hasattr(target, name):
                return False
            target = getattr(target, name)
        return True
    return False


@pytest.mark.covers("ARCH-18")
def test_every_symbol_of_the_name_map_exists():
    symbols = named_symbols()
    assert len(symbols) > 60
    assert [symbol for symbol in symbols if not exists(symbol)] == []


def test_a_name_without_a_symbol_says_why():
    assert len(rows()) > 60
    assert [row for row in rows() if row[1] == "–" and not row[2]] == []


def test_every_path_the_architecture_page_names_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text))
    tops = ("frontend-rs", "engine/vllm_rs", "csrc", "tests", "docs", "bindings")
    shortened = {
        "server": "frontend-rs",
        "text": "frontend-rs",
        "engine-client": "frontend-rs",
        "wire": "frontend-rs",
    }
    shortened |= dict.fromkeys(("core", "sched", "kv", "exec", "models", "offline"), "engine/vllm_rs")
    vllm_names = set(re.findall(r"^\| (.*?) \|", text.partition("Where vLLM's folders are")[2], re.MULTILINE))
    missing = []
    for name in sorted(named):
        if any(f"`{name}`" in cell for cell in vllm_names) and not name.startswith(tops):
            continue
        top = name.split("/")[0]
        path = ROOT / shortened[top] / name if top in shortened else ROOT / name
        if not path.exists():
            missing.append(name)
    assert missing == []
