"""Threads follow cores and the control group's CPU quota, read from a made-up file tree."""

import pytest

from vllm_rs.exec.host_cpus import cpu_quota, default_threads


def make_root(folder, files, cpus=8):
    siblings = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}"
        for cpu in range(cpus)
    }
    for path, text in {**siblings, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{text}\n")
    return folder


V2 = {"proc/self/cgroup": "0::/pod/box"}
V1 = {"proc/self/cgroup": "5:cpuacct,cpu:/box\n3:memory:/box"}


@pytest.mark.parametrize(
    ("files", "quota", "threads"),
    [
        ({}, None, 4),
        ({**V2, "sys/fs/cgroup/pod/box/cpu.max": "max 100000"}, None, 4),
        ({**V2, "sys/fs/cgroup/pod/box/cpu.max": "150000 100000"}, 1.5, 2),
        (
            {**V2, "sys/fs/cgroup/pod/cpu.max": "50000 100000", "sys/fs/cgroup/pod/box/cpu.max": "max 1"},
            0.5,
            1,
        ),
        ({**V2, "sys/fs/cgroup/pod/box/cpu.max": "6400000 100000"}, 64.0, 4),
        ({**V2, "sys/fs/cgroup/cpu.max": "garbage"}, None, 4),
        ({**V1, "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1"}, None, 4),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            },
            3.0,
            3,
        ),
    ],
)
def test_threads_are_the_least_of_cores_and_quota(tmp_path, files, quota, threads):
    root = make_root(tmp_path, files)
    assert cpu_quota(root) == quota
    assert default_threads(root, range(8)) == threads


def test_affinity_counts_each_core_once(tmp_path):
    root = make_root(tmp_path, {})
    assert default_threads(root, [0, 4]) == 1
    assert default_threads(root, [0, 1, 5]) == 2
    assert default_threads(root, [100]) == 1, "a CPU without topology is a core of its own"
