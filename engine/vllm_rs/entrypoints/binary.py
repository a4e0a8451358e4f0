"""Where the native binary is, and how to become it."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

NAME = "vllm-rs"


def find_binary() -> Path | None:
    """The binary of this environment: among its scripts, beside the interpreter, or on the PATH."""
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    for folder in folders:
        if (folder / NAME).is_file():
            return folder / NAME
    found = shutil.which(NAME)
    return Path(found) if found else None


def run(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the binary; the engine will run in this very interpreter."""
    binary = find_binary()
    if binary is None:
        sys.exit("vllm-rs is not installed beside this Python: pip install vllm-rs")
    os.environ.setdefault("VLLM_RS_PYTHON", sys.executable)
    sys.stdout.flush()
    os.execv(binary, [NAME, *arguments])
