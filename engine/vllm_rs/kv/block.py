"""One physical KV block's record, and the doubly linked list of the free ones."""

from collections.abc import Iterator


class KVCacheBlock:
    """Book-keeping of one physical block; the KV data itself lives with the executor.

    A block is *in use* while ref_count > 0, else it is on the free list. A free block that still has a
    hash is *cached*: a request with the same history can take it back until it is needed for something
    else.
    """

    __slots__ = ("block_hash", "block_id", "group", "next_free", "prev_free", "ref_count")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_count = 0
        self.block_hash: bytes | None = None
        self.group = 0
        """KV group under which `block_hash` is indexed."""
        self.prev_free: KVCacheBlock | None = None
        self.next_free: KVCacheBlock | None = None

    def reset(self) -> None:
        """Forget the content: the block may be written by anyone who takes it."""
        self.block_hash = None
        self.group = 0

    def __repr__(self) -> str:
        name = self.block_hash.hex()[:8] if self.block_hash else "-"
        return f"KVCacheBlock({self.block_id}, ref_count={self.ref_count}, hash={name})"


class FreeBlockList:
    """Free blocks, next to be reused first. Every operation is O(1), removal from the middle included.

    Order: blocks without reusable content at the front, cached ones behind them, least recently used first.
    """

    __slots__ = ("_head", "_tail", "num_blocks")

    def __init__(self, blocks: list[KVCacheBlock]) -> None:
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next_free = self._tail
        self._tail.prev_free = self._head
        self.num_blocks = 0
        for block in blocks:
            self.push_back(block)

    def push_back(self, block: KVCacheBlock) -> None:
        """Most recently used: reused last."""
        self._insert(block, self._tail.prev_free, self._tail)

    def push_front(self, block: KVCacheBlock) -> None:
        """Nothing worth keeping: reused first."""
        self._insert(block, self._head, self._head.next_free)

    def pop_front(self) -> KVCacheBlock | None:
        """The least recently used block, or None if none is free."""
        block = self._head.next_free
        if block is None or block is self._tail:
            return None
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        """Takes `block`, which must be in the list, out of it."""
        before, after = block.prev_free, block.next_free
        if before is None or after is None:
            raise ValueError(f"{block} is not on the free list")
        before.next_free = after
        after.prev_free = before
        block.prev_free = block.next_free = None
        self.num_blocks -= 1

    def __iter__(self) -> Iterator[KVCacheBlock]:
        block = self._head.next_free
        while block is not None and block is not self._tail:
            following = block.next_free
            yield block
            block = following

    def __len__(self) -> int:
        return self.num_blocks

    def _insert(self, block: KVCacheBlock, before: KVCacheBlock | None, after: KVCacheBlock | None) -> None:
        if block.prev_free is not None or before is None or after is None:
            raise ValueError(f"{block} is on the free list already")
        block.prev_free, block.next_free = before, after
        before.next_free = block
        after.prev_free = block
        self.num_blocks += 1
