"""What a build calls itself: the commit, or a hash of the sources where there is no git."""

import hashlib
import json
import subprocess
from pathlib import Path

SOURCES = ("Cargo.toml", "Cargo.lock", "frontend-rs", "bindings", "csrc", "engine")
SUFFIXES = (".rs", ".py", ".pyi", ".cpp", ".hpp", ".h", ".toml", ".lock", ".txt")


def source_hash(root: Path) -> str:
    """SHA-256 over names and contents of every source file, first 16 hex digits."""
    digest = hashlib.sha256()
    for top in SOURCES:
        path = root / top
        files = (
            [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        )
        for file in files:
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def git_commit(root: Path) -> str | None:
    """The commit of the working tree, with `+` when it has changes; None outside a repository."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("rev-parse", "--show-toplevel") != str(root):
        return None
    commit = git("rev-parse", "--short=12", "HEAD")
    return commit and commit + ("+" if git("status", "--porcelain") else "")


def write_build_info(root: Path, target: Path, editable: bool) -> str:
    """Write the build's name beside the Python package; returns the build id that both halves carry.

    An editable install has the id "dev": its Python changes without a build, so a hash would say nothing.
    """
    build_id = "dev" if editable else source_hash(root)
    text = json.dumps({"build_id": build_id, "commit": git_commit(root) or "unknown"}, indent=1) + "\n"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")
    return build_id
