"""Locks hold every declared dependency, with hashes and without index addresses."""

import re
import tomllib
from pathlib import Path


def names(requirements: list[str]) -> set[str]:
    """Normalised project names of requirement lines."""
    return {re.split(r"[<>=!~;\[ ]", line, maxsplit=1)[0].lower().replace("_", "-") for line in requirements}


def lock(repo_root: Path, name: str) -> str:
    return (repo_root / "requirements" / f"{name}.lock").read_text(encoding="utf-8")


def locked_names(repo_root: Path, name: str) -> set[str]:
    return names([line for line in lock(repo_root, name).splitlines() if re.match(r"\w", line)])


def test_locks_hold_what_pyproject_declares(repo_root: Path):
    project = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    assert names(project["project"]["dependencies"]) == locked_names(repo_root, "runtime")
    assert names(project["build-system"]["requires"]) == locked_names(repo_root, "build")
    assert names(project["project"]["optional-dependencies"]["test"]) <= locked_names(repo_root, "test")
    heavy = {"torch", "transformers"}
    assert heavy.isdisjoint(names(project["project"]["dependencies"]))


def test_build_requirements_are_the_locked_versions(repo_root: Path):
    project = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    for requirement in project["build-system"]["requires"]:
        assert f"{requirement} \\" in lock(repo_root, "build"), requirement


def test_locks_are_hashed_and_name_no_index(repo_root: Path):
    for name in ("runtime", "build", "test"):
        text = lock(repo_root, name)
        assert "://" not in text
        pinned = [line for line in text.splitlines() if re.match(r"\w", line)]
        assert all(re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+ \\$|.*; .*\\$", line) for line in pinned)
        blocks = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
        assert len(blocks) == len(pinned)
        assert all("--hash=sha256:" in block for block in blocks)
