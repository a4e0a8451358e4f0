"""The block pool against a plain model of it, and the order in which content is given up."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vllm_rs.errors import InvariantError
from vllm_rs.kv.block import KVCacheBlock
from vllm_rs.kv.pool import BlockPool

NUM_BLOCKS = 12


class PoolMachine(RuleBasedStateMachine):
    """Owners take, share and release blocks; some content is cached."""

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(NUM_BLOCKS)
        self.tables: list[list[KVCacheBlock]] = []
        self.next_content = 0

    @rule(count=st.integers(0, NUM_BLOCKS + 1))
    def allocate(self, count):
        free = self.pool.num_free_blocks
        blocks = self.pool.allocate(count)
        if count > free:
            assert blocks is None
            assert self.pool.num_free_blocks == free
        else:
            assert blocks is not None
            assert [block.ref_count for block in blocks] == [1] * count
            assert all(block.block_hash is None for block in blocks)
            self.tables.append(blocks)

    @precondition(lambda self: any(self.tables))
    @rule(data=st.data())
    def cache(self, data):
        table = data.draw(st.sampled_from([table for table in self.tables if table]))
        block = data.draw(st.sampled_from(table))
        content = data.draw(st.integers(0, 5)).to_bytes(32, "little")
        held, had_content = self.pool.find(content), block.block_hash is not None
        self.pool.cache(block, content)
        found = self.pool.find(content)
        assert found is (held if held is not None or had_content else block), (
            "the first copy is the one found"
        )

    @rule(content=st.integers(0, 5))
    def share_cached(self, content):
        block = self.pool.find(content.to_bytes(32, "little"))
        if block is not None:
            self.pool.share([block])
            self.tables.append([block])

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data):
        index = data.draw(st.integers(0, len(self.tables) - 1))
        self.pool.release(self.tables.pop(index))

    @rule()
    def reset(self):
        in_use = any(self.tables)
        assert self.pool.reset_cache() is not in_use
        if not in_use:
            assert self.pool.num_cached_blocks == 0

    @invariant()
    def adds_up(self):
        self.pool.check_integrity(self.tables)
        in_use = {block.block_id for table in self.tables for block in table}
        cached = {b.block_id for b in self.pool.blocks if b.ref_count == 0 and b.block_hash is not None}
        free = {b.block_id for b in self.pool.blocks if b.ref_count == 0 and b.block_hash is None}
        assert len(free) + len(cached) + len(in_use) == NUM_BLOCKS


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_pool_machine = pytest.mark.covers("KV-07", "KV-09")(PoolMachine.TestCase)


@pytest.mark.covers("KV-08")
def test_a_block_lives_through_its_fields():
    pool = BlockPool(2)
    (block,) = pool.allocate(1)
    assert (block.ref_count, block.block_hash) == (1, None)
    pool.cache(block, b"a" * 32)
    pool.share([block])
    assert (block.ref_count, block.block_hash) == (2, b"a" * 32)
    pool.release([block])
    pool.release([block])
    assert (block.ref_count, block.block_hash) == (0, b"a" * 32), (
        "content is kept while nobody needs the block"
    )
    taken = pool.allocate(2)
    assert {b.block_hash for b in taken} == {None}
    assert pool.find(b"a" * 32) is None
    assert pool.num_evictions == 1


def test_unhashed_blocks_are_reused_before_cached_ones_and_the_tail_before_the_head():
    pool = BlockPool(4)
    table = pool.allocate(4)
    for index, block in enumerate(table[:3]):
        pool.cache(block, bytes([index]) * 32)
    pool.release(table)
    order = [block.block_id for _ in range(4) for block in pool.allocate(1)]
    assert order == [table[3].block_id, table[2].block_id, table[1].block_id, table[0].block_id]


def test_releasing_twice_and_lost_blocks_are_noticed():
    pool = BlockPool(2)
    table = pool.allocate(1)
    with pytest.raises(InvariantError, match="0 tables"):
        pool.check_integrity([])
    pool.release(table)
    with pytest.raises(InvariantError, match="released more often"):
        pool.release(table)


def test_group_indices_are_separate():
    pool = BlockPool(2, num_groups=2)
    first, second = pool.allocate(2)
    pool.cache(first, b"x" * 32, group=0)
    pool.cache(second, b"x" * 32, group=1)
    assert pool.find(b"x" * 32, 0) is first
    assert pool.find(b"x" * 32, 1) is second
