"""Memory this process may still use: the machine's free memory, or less where a control group sets a
limit.
"""

from pathlib import Path

_UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes a number near 2^63 for "no limit"."""


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
    for folder, limit_file, usage_file, inactive_key in _cgroup_folders(root):
        limit = _read_int(folder / limit_file)
        used = _read_int(folder / usage_file)
        if limit is None or used is None or limit >= _UNLIMITED_BYTES:
            continue
        limits.append((limit, max(0, used - _memory_stat(folder, inactive_key))))
    return limits


def _cgroup_folders(root: Path) -> list[tuple[Path, str, str, str]]:
    """Folders from this process's own group up to the mounted root, for cgroup v2 and v1."""
    base = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders: list[tuple[Path, str, str, str]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        parts = [part for part in path.split("/") if part and part != ".."]
        if controllers == "":
            files = ("memory.max", "memory.current", "inactive_file")
            top = base
        elif "memory" in controllers.split(","):
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            top = base / "memory"
        else:
            continue
        folders.extend((top.joinpath(*parts[:depth]), *files) for depth in range(len(parts), -1, -1))
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
