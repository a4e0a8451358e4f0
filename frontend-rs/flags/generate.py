"""Write every file that comes from flags.toml; with --check, fail when one differs from the table."""

import argparse
import subprocess
import sys
from pathlib import Path

import emit_docs
import emit_python
import emit_rust
from table import load

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def _rustfmt(text: str) -> str:
    command = [
        "rustfmt",
        "--edition",
        "2024",
        "--config-path",
        str(ROOT / "rustfmt.toml"),
        "--emit",
        "stdout",
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _ruff(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--config", str(ROOT / "pyproject.toml"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def generated_files() -> dict[Path, str]:
    """Path → content of every generated file."""
    table = load(HERE / "flags.toml")
    return {
        HERE / "src" / "generated.rs": _rustfmt(emit_rust.emit(table)),
        ROOT / "engine" / "vllm_rs" / "config_sections.py": _ruff(emit_python.emit(table)),
        ROOT / "docs" / "flags.md": emit_docs.emit(table),
    }


def main() -> int:
    """Write or check; the exit status says whether all files are as the table wants them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 when a file is stale")
    check = parser.parse_args().check
    stale = []
    for path, text in generated_files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{'stale' if check else 'wrote'} {path}")
    if check and stale:
        print("run: python frontend-rs/flags/generate.py")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
