"""Layers that cache alike form one group: block tables and hash keys are indexed by group."""

from collections.abc import Sequence
from dataclasses import dataclass

from vllm_rs.models.kv_spec import KVCacheSpec


@dataclass(frozen=True)
class KVCacheGroup:
    """Layers with equal specs; they share block ids."""

    spec: KVCacheSpec
    layers: tuple[int, ...]

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of one block over all layers of the group."""
        return self.spec.bytes_per_block(block_size) * len(self.layers)


def group_layers(specs: Sequence[KVCacheSpec]) -> list[KVCacheGroup]:
    """Groups in order of their first layer; one group for a model whose layers are all alike."""
    layers: dict[KVCacheSpec, list[int]] = {}
    for index, spec in enumerate(specs):
        layers.setdefault(spec, []).append(index)
    return [KVCacheGroup(spec, tuple(indices)) for spec, indices in layers.items()]
