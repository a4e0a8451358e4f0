"""Which blocks each request has: prefix hits, growth, release. Knows token counts and hashes, no model and no
scheduler.
"""

from typing import NamedTuple

from vllm_rs.errors import InvariantError
from vllm_rs.kv.block import KVCacheBlock
from vllm_rs.kv.pool import BlockPool


class PrefixHit(NamedTuple):
    """Cached blocks that a request may start from: per group, in logical order."""

    num_tokens: int
    blocks: list[list[KVCacheBlock]]


class BlockTable:
    """Blocks of one request, per KV group in logical order: entry i holds tokens [i * block_size, (i + 1) *
    block_size).
    """

    __slots__ = ("blocks", "num_hashed", "num_held")

    def __init__(self, blocks: list[list[KVCacheBlock]], num_hashed: int) -> None:
        self.blocks = blocks
        self.num_held = len(blocks[0])
        self.num_hashed = num_hashed
        """Leading blocks already offered to the prefix index."""


class KVCacheManager:
    """Block tables of all requests over one pool. A failed call changes nothing."""

    def __init__(
        self, num_blocks: int, block_size: int, *, num_groups: int = 1, enable_caching: bool = True
    ) -> None:
        self.block_size = block_size
        self.num_groups = num_groups
        self.enable_caching = enable_caching
        self.pool = BlockPool(num_blocks, num_groups=num_groups, enable_caching=enable_caching)
        self._tables: dict[str, BlockTable] = {}
        self._held: dict[str, BlockTable] = {}
        """Tables of requests that ended while a connector still works on their blocks."""

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be taken now."""
        return self.pool.num_free_blocks

    @property
    def num_held_requests(self) -> int:
        """Requests that have ended but whose blocks a connector still holds."""
        return len(self._held)

    def has_table(self, request_id: str) -> bool:
        """Whether the request holds blocks."""
        return request_id in self._tables

    def find_prefix(self, block_hashes: list[bytes], num_tokens: int) -> PrefixHit:
        """Longest cached prefix of a request of `num_tokens` tokens, in whole blocks. Takes no reference.

        At least one token is always left to compute, because its logits are needed.
        """
        if not self.enable_caching:
            return PrefixHit(0, [[] for _ in range(self.num_groups)])
        findable = block_hashes[: max(0, num_tokens - 1) // self.block_size]
        groups = [self.pool.find_leading(findable, group) for group in range(self.num_groups)]
        count = min(len(blocks) for blocks in groups)
        return PrefixHit(count * self.block_size, [blocks[:count] for blocks in groups])

    def num_room_tokens(self, request_id: str) -> int:
        """Tokens the request's table could hold, counting all blocks that are free now."""
        table = self._tables[request_id]
        return (table.num_held + self.pool.num_free_blocks // self.num_groups) * self.block_size

    def can_start(self, hit: PrefixHit, num_tokens: int) -> bool:
        """Whether a request that starts from `hit` could get blocks for its first `num_tokens` tokens."""
        return self._num_to_take(hit, num_tokens) <= self.pool.num_free_blocks

    def could_start(self, num_tokens: int, victims: list[str]) -> bool:
        """Whether a request of `num_tokens` tokens would fit if the blocks of `victims` were free as well."""
        reclaimable = sum(self._tables[request_id].num_held for request_id in victims) * self.num_groups
        needed = -(-num_tokens // self.block_size) * self.num_groups
        return needed <= self.pool.num_free_blocks + reclaimable

    def start(self, request_id: str, hit: PrefixHit, num_tokens: int) -> bool:
        """Give a request without blocks the prefix it hit and room up to `num_tokens` tokens, hit included.

        False, with nothing changed, if too few blocks are free; only the part that is not cached counts.
        """
        if request_id in self._tables:
            raise InvariantError(f"request {request_id} has blocks already")
        if not self.can_start(hit, num_tokens):
            return False
        num_hit = hit.num_tokens // self.block_size
        for blocks in hit.blocks:
            self.pool.share(blocks)
        fresh = self._take(max(0, -(-num_tokens // self.block_size) - num_hit))
        blocks_by_group = [[*blocks, *new] for blocks, new in zip(hit.blocks, fresh, strict=True)]
        self._tables[request_id] = BlockTable(blocks_by_group, num_hit)
        return True

    def grow(self, request_id: str, num_tokens: int) -> bool:
        """Room for the first `num_tokens` tokens of a request that has blocks; False, nothing changed, if
        short.
        """
        table = self._tables[request_id]
        missing = -(-num_tokens // self.block_size) - table.num_held
        if missing <= 0:
            return True
        if missing * self.num_groups > self.pool.num_free_blocks:
            return False
        for blocks, new in zip(table.blocks, self._take(missing), strict=True):
            blocks.extend(new)
        table.num_held += missing
        return True

    def adopt(
        self, request_id: str, block_hashes: list[bytes], num_computed_tokens: int, num_tokens: int
    ) -> int:
        """Extend a table that ends exactly at `num_computed_tokens` by blocks others have computed.

        Returns how many tokens they hold; 0 if the table already has room of its own or nothing matches.
        As in `find_prefix`, at least one of the request's `num_tokens` is left to compute.
        """
        table = self._tables[request_id]
        start = num_computed_tokens // self.block_size
        if not self.enable_caching or table.num_held != start:
            return 0
        hit = self.find_prefix(block_hashes[start:], num_tokens - num_computed_tokens)
        for blocks, found in zip(table.blocks, hit.blocks, strict=True):
            self.pool.share(found)
            blocks.extend(found)
        table.num_held += hit.num_tokens // self.block_size
        table.num_hashed = table.num_held
        return hit.num_tokens

    def cache_full_blocks(self, request_id: str, block_hashes: list[bytes]) -> None:
        """Make the leading blocks of the request findable, as many as there are hashes.

        The caller vouches that their tokens are computed, or will be by the step now being planned: within
        a layer all writes of a step come before any row's attention, so a request admitted to the same
        step may start from them.
        """
        table = self._tables[request_id]
        count = min(len(block_hashes), table.num_held)
        for index in range(table.num_hashed, count):
            for group, blocks in enumerate(table.blocks):
                self.pool.cache(blocks[index], block_hashes[index], group)
        table.num_hashed = max(table.num_hashed, count)

    def num_blocks_of(self, request_id: str) -> int:
        """Blocks per group in the request's table."""
        return self._tables[request_id].num_held

    def block_ids(self, request_id: str, start: int = 0) -> list[list[int]]:
        """The request's block table from logical block `start` on: physical ids per group."""
        return [[block.block_id for block in blocks[start:]] for blocks in self._tables[request_id].blocks]

    def free(self, request_id: str, *, held_by_connector: bool = False) -> None:
        """Give up the request's blocks, its tail first. Held ones wait for `release_held`. No table: nothing
        to do.
        """
        table = self._tables.pop(request_id, None)
        if table is None:
            return
        if held_by_connector:
            self._held[request_id] = table
        else:
            self._release(table)

    def release_held(self, request_id: str) -> None:
        """The connector is done with an ended request's blocks."""
        table = self._held.pop(request_id, None)
        if table is not None:
            self._release(table)

    def discard(self, request_id: str) -> None:
        """Free a failed request's blocks and let nobody find their content again."""
        table = self._tables.get(request_id)
        if table is not None:
            for blocks in table.blocks:
                self.pool.uncache(blocks)
            self.free(request_id)

    def reset_prefix_cache(self) -> bool:
        """Forget all cached content; refused (False) while blocks are in use."""
        return self.pool.reset_cache()

    def check_integrity(self) -> None:
        """Raises InvariantError if pool and tables disagree, or a block could be written by two owners."""
        tables = [*self._tables.values(), *self._held.values()]
        self.pool.check_integrity(blocks for table in tables for blocks in table.blocks)
        for table in tables:
            for blocks in table.blocks:
                if len(blocks) != table.num_held:
                    raise InvariantError(f"a group of {len(blocks)} blocks in a table of {table.num_held}")
                for block in blocks[table.num_hashed :]:
                    if block.ref_count != 1:
                        raise InvariantError(f"{block} is still written to but has several owners")

    def _num_to_take(self, hit: PrefixHit, num_tokens: int) -> int:
        """Blocks that leave the free list: new ones, and hit ones that nobody uses at the moment."""
        missing = max(0, -(-num_tokens // self.block_size) - hit.num_tokens // self.block_size)
        idle = sum(block.ref_count == 0 for blocks in hit.blocks for block in blocks)
        return missing * self.num_groups + idle

    def _take(self, count: int) -> list[list[KVCacheBlock]]:
        """`count` fresh blocks for every group; the caller has checked that they are there."""
        fresh = self.pool.allocate(count * self.num_groups)
        if fresh is None:
            raise InvariantError(
                f"{count * self.num_groups} blocks promised, {self.pool.num_free_blocks} free"
            )
        if self.num_groups == 1:
            return [fresh]
        return [fresh[group * count : (group + 1) * count] for group in range(self.num_groups)]

    def _release(self, table: BlockTable) -> None:
        for blocks in table.blocks:
            self.pool.release(blocks)
