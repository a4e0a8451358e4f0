"""Names of threads as the operating system shows them (`ps -L`, `top -H`); Python keeps its own to itself."""

import contextlib
import threading
from pathlib import Path

MAX_NAME_BYTES = 15
"""What the kernel keeps of a name."""


def name_this_thread(name: str | None = None) -> None:
    """Show the calling thread under `name`, by default under its Python name."""
    shown = (name or threading.current_thread().name).encode()[:MAX_NAME_BYTES]
    with contextlib.suppress(OSError):  # cosmetic: a sandbox may forbid it
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_bytes(shown)
