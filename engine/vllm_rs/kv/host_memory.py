"""Memory this process may still use: the machine's free memory, or less where a control group sets a
limit.
"""

from pathlib import Path

_UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes a number near 2^63 for "no limit"."""
_V2_FILES = ("memory.max", "memory.current", "inactive_file")
_V1_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
"""Limit, usage, and the key of memory.stat whose pages can be reclaimed."""


def available_memory_bytes(root: Path = Path("/")) -> int:
    """The least of MemAvailable and, for every enclosing control group, its limit less what it cannot
    reclaim.
    """
    return min([_meminfo(root, "MemAvailable"), *(limit - used for limit, used in _cgroup_limits(root))])


def total_memory_bytes(root: Path = Path("/")) -> int:
    """The least of MemTotal and the enclosing control groups' limits."""
    return min([_meminfo(root, "MemTotal"), *(limit for limit, _ in _cgroup_limits(root))])


def private_bytes(root: Path = Path("/")) -> int:
    """Memory of this process that is its own: what it has touched, without mapped files."""
    for line in (root / "proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon")


def _meminfo(root: Path, field: str) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise OSError(f"/proc/meminfo has no {field}")


def _cgroup_limits(root: Path) -> list[tuple[int, int]]:
    """(limit, bytes in use that cannot be reclaimed) of each enclosing control group that has a limit."""
    limits = []
    for is_v2, folder in cgroup_folders(root, "memory"):
        limit_file, usage_file, inactive_key = _V2_FILES if is_v2 else _V1_FILES
        limit = _read_int(folder / limit_file)
        used = _read_int(folder / usage_file)
        if limit is None or used is None or limit >= _UNLIMITED_BYTES:
            continue
        limits.append((limit, max(0, used - _memory_stat(folder, inactive_key))))
    return limits


def cgroup_folders(root: Path, controller: str) -> list[tuple[bool, Path]]:
    """(whether it is cgroup v2, folder) from this process's own group up to the mounted root."""
    base = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders: list[tuple[bool, Path]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        parts = [part for part in path.split("/") if part and part != ".."]
        if controllers == "":
            is_v2, top = True, base
        elif controller in controllers.split(","):
            # A mount may carry several controllers; each also has a link of its own name.
            is_v2, top = False, base / controller
        else:
            continue
        folders.extend((is_v2, top.joinpath(*parts[:depth])) for depth in range(len(parts), -1, -1))
    return folders


def _read_int(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _memory_stat(folder: Path, key: str) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0
