"""All physical blocks of the KV cache: who is free, who is shared, what can be found again.

    blocks = in use (ref_count > 0)  +  cached (free, with a hash)  +  free (no hash)

A cached block keeps its content until it is taken for something else; the least recently used goes first.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from vllm_rs.errors import InvariantError
from vllm_rs.kv.block import FreeBlockList, KVCacheBlock


class BlockPool:
    """Reference-counted blocks with an LRU free list and an index from content hash to block, per KV
    group.
    """

    def __init__(self, num_blocks: int, *, num_groups: int = 1, enable_caching: bool = True) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, got {num_blocks}")
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_blocks)]
        self.num_blocks = num_blocks
        self.num_evictions = 0
        """Cached blocks whose content was given up for something else."""
        self._free = FreeBlockList(self.blocks)
        self._enable_caching = enable_caching
        self._index: list[dict[bytes, KVCacheBlock]] = [{} for _ in range(num_groups)]

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be taken now, cached ones included."""
        return self._free.num_blocks

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1."""
        return 1.0 - self._free.num_blocks / self.num_blocks

    @property
    def num_cached_blocks(self) -> int:
        """Blocks, in use or free, that can be found by content."""
        return sum(len(index) for index in self._index)

    def find(self, block_hash: bytes, group: int = 0) -> KVCacheBlock | None:
        """The block that holds this content, if any. Takes no reference."""
        return self._index[group].get(block_hash)

    def find_leading(self, block_hashes: Sequence[bytes], group: int = 0) -> list[KVCacheBlock]:
        """The blocks of the longest run of findable hashes from the start. Takes no reference."""
        index = self._index[group]
        found: list[KVCacheBlock] = []
        for block_hash in block_hashes:
            block = index.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def allocate(self, count: int) -> list[KVCacheBlock] | None:
        """`count` blocks with ref_count 1 and no content, or None (and nothing changed) if fewer are free."""
        if count > self._free.num_blocks:
            return None
        taken = []
        for _ in range(count):
            block = self._free.pop_front()
            if block is None:
                raise InvariantError(f"free list ended before its count of {self._free.num_blocks}")
            if block.block_hash is not None:
                self._forget(block)
                self.num_evictions += 1
            block.ref_count = 1
            taken.append(block)
        return taken

    def share(self, blocks: Iterable[KVCacheBlock]) -> None:
        """One more owner for each block; cached ones leave the free list."""
        for block in blocks:
            if block.ref_count == 0:
                self._free.remove(block)
            block.ref_count += 1

    def release(self, blocks: Sequence[KVCacheBlock]) -> None:
        """One owner fewer for each block of a table, given in logical order.

        The tail is freed first: it is the part of a prefix that others are least likely to share.
        """
        for block in reversed(blocks):
            if block.ref_count < 1:
                raise InvariantError(f"{block} released more often than taken")
            block.ref_count -= 1
            if block.ref_count == 0:
                if block.block_hash is None:
                    self._free.push_front(block)
                else:
                    self._free.push_back(block)

    def cache(self, block: KVCacheBlock, block_hash: bytes, group: int = 0) -> None:
        """Make a full block findable. If its content is findable elsewhere already, this copy stays
        anonymous.
        """
        if not self._enable_caching or block.block_hash is not None:
            return
        index = self._index[group]
        if block_hash in index:
            return
        block.block_hash = block_hash
        block.group = group
        index[block_hash] = block

    def uncache(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Content that must not be found again, such as that of a failed request."""
        for block in blocks:
            if block.block_hash is not None:
                self._forget(block)

    def reset_cache(self) -> bool:
        """Forget all content. Refused (False) while any block is in use."""
        if self._free.num_blocks != self.num_blocks:
            return False
        for index in self._index:
            index.clear()
        for block in self.blocks:
            block.reset()
        return True

    def check_integrity(self, tables: Iterable[Sequence[KVCacheBlock]]) -> None:
        """Raises InvariantError unless free + in use = total and ref counts equal the sum over `tables`."""
        owners = Counter(block.block_id for table in tables for block in table)
        free_ids = [block.block_id for block in self._free]
        free = set(free_ids)
        if len(free) != len(free_ids) or len(free_ids) != self._free.num_blocks:
            raise InvariantError(
                f"free list holds {len(free_ids)} entries, {len(free)} blocks, counts {len(self._free)}"
            )
        for block in self.blocks:
            if block.ref_count != owners[block.block_id]:
                raise InvariantError(f"{block} is in {owners[block.block_id]} tables")
            if (block.ref_count == 0) != (block.block_id in free):
                raise InvariantError(f"{block} is {'' if block.block_id in free else 'not '}on the free list")
            if block.block_hash is not None and self._index[block.group].get(block.block_hash) is not block:
                raise InvariantError(f"{block} has a hash under which it is not found")
        hashed = sum(block.block_hash is not None for block in self.blocks)
        if hashed != self.num_cached_blocks:
            raise InvariantError(f"{self.num_cached_blocks} index entries for {hashed} hashed blocks")

    def _forget(self, block: KVCacheBlock) -> None:
        if block.block_hash is not None:
            del self._index[block.group][block.block_hash]
        block.reset()
