"""The memory solver: (memory, longest sequence, sequences) -> number of KV blocks, with the table that
explains it.

Without flags, the cache takes the least of 4 GiB, half of the memory that is free once the model is
loaded, and what `max_num_seqs` sequences of `max_model_len` tokens can ever use. It is reserved address
space, touched as it is used.
"""

from dataclasses import dataclass, field

from vllm_rs.errors import MemoryBudgetError

DEFAULT_CAP_BYTES = 4 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class MemoryDemand:
    """What the solver is asked. Bytes unless the name says otherwise."""

    bytes_per_block: int
    """One block over all layers."""
    block_size: int
    max_model_len: int
    """In tokens, as configured or as the model's own."""
    max_num_seqs: int
    available_bytes: int
    """Free for this process once the model is loaded."""
    max_model_len_is_explicit: bool = False
    kv_cache_memory_bytes: int | None = None
    memory_utilization: float | None = None
    """Share of `total_bytes` that the process, the model and the cache together may take."""
    total_bytes: int = 0
    weights_bytes: int = 0
    activations_bytes: int = 0
    """Buffers of the largest step."""
    context_bytes: int = 0
    """The process itself: interpreter, libraries, book-keeping."""

    @property
    def taken_bytes(self) -> int:
        """What is gone before there is a cache."""
        return self.weights_bytes + self.activations_bytes + self.context_bytes


@dataclass(frozen=True)
class MemoryBudget:
    """The answer. `max_model_len` and `max_num_seqs` are lowered to what the blocks can hold, with a note on
    each.

    In `table`, weights, activations, context, KV cache and spare bytes add up to `limit_bytes`.
    """

    num_blocks: int
    kv_bytes: int
    max_model_len: int
    max_num_seqs: int
    limited_by: str
    table: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens that fit in the cache."""
        return self.table["kv_cache_tokens"]

    @property
    def bytes_per_block(self) -> int:
        """One block over all layers."""
        return self.table["kv_block_bytes"]

    def lines(self) -> list[str]:
        """The budget table for people."""
        rows = [
            f"{name.removesuffix('_bytes'):<28}{value / MIB:>12.1f} MiB"
            if name.endswith("_bytes")
            else f"{name:<28}{value:>12}"
            for name, value in self.table.items()
        ]
        return [*rows, f"{'limited by':<28}{self.limited_by}", *self.notes]


def solve(demand: MemoryDemand) -> MemoryBudget:
    """Blocks for this demand. Raises MemoryBudgetError, naming the flag to change and the value that fits."""
    kv_bytes, limited_by = _kv_bytes(demand)
    num_blocks = kv_bytes // demand.bytes_per_block
    if num_blocks < 1:
        raise MemoryBudgetError(
            f"no memory for the KV cache: one block of {demand.block_size} tokens takes"
            f" {demand.bytes_per_block} bytes, "
            f"{limited_by} leaves {max(kv_bytes, 0)}",
            flag="--kv-cache-memory-bytes",
            fitting_value=demand.bytes_per_block * _blocks_for(demand, demand.max_model_len),
        )
    notes = []
    max_model_len = demand.max_model_len
    capacity = num_blocks * demand.block_size
    if capacity < max_model_len:
        if demand.max_model_len_is_explicit:
            needed = _blocks_for(demand, max_model_len) * demand.bytes_per_block
            raise MemoryBudgetError(
                f"--max-model-len {max_model_len} needs a KV cache of {needed} bytes,"
                f" {limited_by} leaves {kv_bytes}",
                flag="--max-model-len",
                fitting_value=capacity,
            )
        notes.append(f"max_model_len lowered from {max_model_len} to {capacity}: what {limited_by} holds")
        max_model_len = capacity
    max_num_seqs = min(demand.max_num_seqs, num_blocks)
    if max_num_seqs < demand.max_num_seqs:
        notes.append(
            f"max_num_seqs lowered from {demand.max_num_seqs} to {max_num_seqs}: one block each at least"
        )
    used_bytes = num_blocks * demand.bytes_per_block
    table = {
        "limit_bytes": demand.taken_bytes + kv_bytes,
        "weights_bytes": demand.weights_bytes,
        "activations_bytes": demand.activations_bytes,
        "context_bytes": demand.context_bytes,
        "kv_cache_bytes": used_bytes,
        "spare_bytes": kv_bytes - used_bytes,
        "available_bytes": demand.available_bytes,
        "kv_block_bytes": demand.bytes_per_block,
        "kv_cache_blocks": num_blocks,
        "kv_cache_tokens": capacity,
        "block_size": demand.block_size,
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
    }
    return MemoryBudget(
        num_blocks, table["kv_cache_bytes"], max_model_len, max_num_seqs, limited_by, table, tuple(notes)
    )


def _kv_bytes(demand: MemoryDemand) -> tuple[int, str]:
    """Bytes for the cache and what set them."""
    explicit = demand.kv_cache_memory_bytes
    if explicit is not None:
        if explicit > demand.available_bytes:
            raise MemoryBudgetError(
                f"--kv-cache-memory-bytes {explicit} is more than the {demand.available_bytes} that are free",
                flag="--kv-cache-memory-bytes",
                fitting_value=demand.available_bytes,
            )
        return explicit, "--kv-cache-memory-bytes"
    if demand.memory_utilization is not None:
        share = int(demand.total_bytes * demand.memory_utilization) - demand.taken_bytes
        return min((share, "--gpu-memory-utilization"), (demand.available_bytes, "the free memory"))
    ever_used = demand.max_num_seqs * _blocks_for(demand, demand.max_model_len) * demand.bytes_per_block
    return min(
        (ever_used, "max_num_seqs x max_model_len"),
        (DEFAULT_CAP_BYTES, "the default of 4 GiB"),
        (demand.available_bytes // 2, "half of the free memory"),
    )


def _blocks_for(demand: MemoryDemand, num_tokens: int) -> int:
    return -(-num_tokens // demand.block_size)
