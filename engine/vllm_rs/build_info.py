"""What this installation is. Frontend and engine compare build ids when they meet."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def build_info() -> dict[str, str]:
    """`version`, `build_id` (a hash of the sources, or "dev" in an editable install) and `commit`."""
    info = {"version": _version(), "build_id": "dev", "commit": "unknown"}
    path = Path(__file__).with_name("_build_info.json")
    if path.exists():
        info |= json.loads(path.read_text(encoding="utf-8"))
    return info


def _version() -> str:
    try:
        return version("vllm-rs")
    except PackageNotFoundError:
        return "unknown"
