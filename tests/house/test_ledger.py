"""Evidence names rows that exist, in a form that can be counted."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType


def load_script(repo_root: Path) -> ModuleType:
    """scripts/requirements.py as a module."""
    spec = importlib.util.spec_from_file_location("requirements", repo_root / "scripts" / "requirements.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["requirements"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_evidence_names_only_rows_that_exist(repo_root: Path):
    assert load_script(repo_root).read_ledger().faults == []


def test_every_row_says_when_it_is_seen_working(repo_root: Path):
    ledger = load_script(repo_root).read_ledger()
    assert len(ledger.rows) > 400
    assert not [row for row, seen in ledger.rows.items() if not re.search(r"\w", seen)]
