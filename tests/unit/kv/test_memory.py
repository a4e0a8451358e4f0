"""The memory solver, and the free memory it starts from."""

import pytest

from vllm_rs.errors import MemoryBudgetError
from vllm_rs.kv.host_memory import available_memory_bytes, total_memory_bytes
from vllm_rs.kv.memory import MemoryDemand, solve
from vllm_rs.kv.spec import group_layers
from vllm_rs.models.kv_spec import KVCacheSpec

GIB = 1 << 30


def demand(**changes):
    fields = {"bytes_per_block": 1000, "block_size": 16, "max_model_len": 160, "max_num_seqs": 4}
    return MemoryDemand(**{**fields, "available_bytes": GIB, **changes})


@pytest.mark.covers("CALC-04")
def test_calc_04():
    spec = KVCacheSpec(num_kv_heads=32, head_dim=128, dtype="bfloat16")
    (group,) = group_layers([spec] * 32)
    block = group.bytes_per_block(16)
    assert block == 8_388_608
    asked = demand(
        bytes_per_block=block,
        max_model_len=4096,
        available_bytes=66 * 10**9,
        kv_cache_memory_bytes=60 * 10**9,
    )
    assert solve(asked).num_blocks == 7152


@pytest.mark.parametrize(
    ("max_num_seqs", "available_bytes", "blocks", "why"),
    [
        (4, GIB, 40, "max_num_seqs x max_model_len"),
        (4, 50_000, 25, "half of the free memory"),
        (1 << 22, 100 * GIB, 4 * GIB // 1000, "the default of 4 GiB"),
    ],
)
def test_the_default_is_the_least_of_three(max_num_seqs, available_bytes, blocks, why):
    budget = solve(demand(max_num_seqs=max_num_seqs, available_bytes=available_bytes))
    assert (budget.num_blocks, budget.limited_by) == (blocks, why)
    assert any(why in line for line in budget.lines())


def test_explicit_flags_override():
    assert solve(demand(kv_cache_memory_bytes=77_000)).num_blocks == 77
    budget = solve(demand(memory_utilization=0.5, total_bytes=200_000, weights_bytes=30_000))
    assert budget.num_blocks == 70


def test_a_context_that_is_not_asked_for_is_lowered_to_what_fits():
    budget = solve(demand(kv_cache_memory_bytes=5_500))
    assert (budget.num_blocks, budget.max_model_len) == (5, 80)
    assert "160 to 80" in budget.notes[0]


@pytest.mark.covers("ARCH-11")
def test_what_does_not_fit_names_flag_and_fitting_value():
    with pytest.raises(MemoryBudgetError, match="--max-model-len 160") as caught:
        solve(demand(kv_cache_memory_bytes=5_500, max_model_len_is_explicit=True))
    assert (caught.value.flag, caught.value.fitting_value) == ("--max-model-len", 80)
    assert solve(demand(kv_cache_memory_bytes=5_500, max_model_len=80, max_model_len_is_explicit=True))
    with pytest.raises(MemoryBudgetError) as caught:
        solve(demand(kv_cache_memory_bytes=2 * GIB))
    assert (caught.value.flag, caught.value.fitting_value) == ("--kv-cache-memory-bytes", GIB)
    with pytest.raises(MemoryBudgetError, match="no memory") as caught:
        solve(demand(kv_cache_memory_bytes=999))
    assert solve(demand(kv_cache_memory_bytes=caught.value.fitting_value)).max_model_len == 160


def test_sequences_are_clipped_to_one_block_each():
    budget = solve(demand(kv_cache_memory_bytes=10_000, max_num_seqs=64))
    assert budget.max_num_seqs == 10
    assert "64 to 10" in budget.notes[-1]


def test_layers_that_differ_form_groups():
    small, large = (KVCacheSpec(heads, 64, "float32") for heads in (1, 2))
    assert [group.layers for group in group_layers([small, large, small])] == [(0, 2), (1,)]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    return tmp_path


def test_free_memory_without_a_control_group(root):
    assert available_memory_bytes(root) == 800 * 1024
    assert total_memory_bytes(root) == 1000 * 1024


def test_free_memory_in_nested_control_groups(root):
    (root / "proc/self/cgroup").write_text("0::/outer/inner\n")
    for name, limit, used, inactive in (("outer", 500_000, 300_000, 50_000), ("outer/inner", "max", 9, 0)):
        folder = root / "sys/fs/cgroup" / name
        folder.mkdir()
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\n")
    assert available_memory_bytes(root) == 250_000
    assert total_memory_bytes(root) == 500_000


def test_free_memory_in_a_version_1_control_group(root):
    (root / "proc/self/cgroup").write_text("3:cpu:/x\n5:memory:/job\n")
    folder = root / "sys/fs/cgroup/memory/job"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("400000")
    (folder / "memory.usage_in_bytes").write_text("100000")
    assert available_memory_bytes(root) == 300_000


PARTS = ("weights_bytes", "activations_bytes", "context_bytes", "kv_cache_bytes", "spare_bytes")


def test_the_parts_add_up_to_the_limit():
    taken = {"weights_bytes": 30_000, "activations_bytes": 5_000, "context_bytes": 1_234}
    for changes in (
        {},
        {"kv_cache_memory_bytes": 7_777},
        {"memory_utilization": 0.4, "total_bytes": 300_000},
    ):
        table = solve(demand(**taken, **changes)).table
        assert table["limit_bytes"] == sum(table[part] for part in PARTS)
    assert table["limit_bytes"] == 120_000


def test_a_share_of_memory_that_is_not_free_is_cut_to_what_is():
    budget = solve(demand(memory_utilization=1.0, total_bytes=4 * GIB, available_bytes=50_000))
    assert (budget.num_blocks, budget.limited_by) == (50, "the free memory")
