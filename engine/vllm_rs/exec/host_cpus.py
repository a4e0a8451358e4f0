"""Threads this process can keep busy: one per physical core, or fewer where a control group limits it."""

import math
import os
from collections.abc import Iterable
from pathlib import Path

from vllm_rs.kv.host_memory import cgroup_folders


def default_threads(root: Path = Path("/"), cpus: Iterable[int] | None = None) -> int:
    """The least of the physical cores behind `cpus` (default: where this process may run) and the CPU quota.

    Hyper-threads share their arithmetic, so each core counts once. More threads than the quota pays for would
    all be stopped for the rest of each period once it is spent, mostly while they wait for one another.
    """
    cores = _num_cores(root, os.sched_getaffinity(0) if cpus is None else cpus)
    quota = cpu_quota(root)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs' worth of time the enclosing control groups allow, the least of them; None without a limit."""
    limits = [
        limit
        for is_v2, folder in cgroup_folders(root, "cpu")
        if (limit := (_v2_limit if is_v2 else _v1_limit)(folder)) is not None
    ]
    return min(limits, default=None)


def _num_cores(root: Path, cpus: Iterable[int]) -> int:
    cores = set()
    for cpu in cpus:
        try:
            siblings = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            cores.add(siblings.read_text().strip())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


def _v2_limit(folder: Path) -> float | None:
    return _share(_words(folder / "cpu.max"))


def _v1_limit(folder: Path) -> float | None:
    return _share([*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _share(words: list[str]) -> float | None:
    """Quota over period; None if there is no quota ("max" in v2, -1 in v1)."""
    try:
        quota_us, period_us = (int(word) for word in words)
    except ValueError:
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None
