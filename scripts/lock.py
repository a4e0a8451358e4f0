"""Compile requirements/*.in into hashed locks without index addresses: `make lock`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "requirements"


def compile_lock(name: str, *extra: str) -> None:
    """One lock file for Linux x86-64 and the oldest Python we support."""
    command = [sys.executable, "-m", "uv", "pip", "compile", f"requirements/{name}.in"]
    command += [
        "--output-file",
        f"requirements/{name}.lock",
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
    ]
    command += ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--quiet", "--upgrade", *extra]
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """test.lock first: the others take their versions from it."""
    compile_lock("test")
    for name in ("runtime", "build"):
        compile_lock(name, "--constraint", "requirements/test.lock")


if __name__ == "__main__":
    main()
