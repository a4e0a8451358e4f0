"""Block tables: counts, sharing, release."""

import random
import time

import pytest

from vllm_rs.kv.hashing import BlockHashChain, hash_block, root_hash
from vllm_rs.kv.manager import KVCacheManager


def hashes_of(tokens, size=16):
    return BlockHashChain(size, root_hash()).extend(tokens, len(tokens))[:]


def admit(kv, name, tokens, *, computed=True):
    """Start `name` on the prefix it hits, with room for all its tokens."""
    hashes = hashes_of(tokens, kv.block_size)
    hit = kv.find_prefix(hashes, len(tokens))
    started = kv.start(name, hit, len(tokens))
    if started and computed:
        kv.cache_full_blocks(name, hashes)
    return started, hit.num_tokens


def refs(kv):
    return {block.block_id: block.ref_count for block in kv.pool.blocks if block.ref_count}


@pytest.mark.covers("CALC-02")
def test_calc_02():
    kv = KVCacheManager(8, 16)
    a = list(range(40))
    assert admit(kv, "A", a) == (True, 0)
    assert (kv.block_ids("A"), kv.num_free_blocks) == ([[0, 1, 2]], 5)
    assert admit(kv, "B", a[:16] + [900] * 8) == (True, 16)
    assert (kv.block_ids("B"), kv.num_free_blocks) == ([[0, 3]], 4)
    assert refs(kv)[0] == 2
    assert kv.grow("A", 50)
    assert (kv.block_ids("A"), kv.num_free_blocks) == ([[0, 1, 2, 4]], 3)
    assert admit(kv, "C", a[:16] + [800] * 32) == (True, 16)
    assert (kv.block_ids("C"), kv.num_free_blocks) == ([[0, 5, 6]], 1)
    assert refs(kv) == {0: 3, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}
    kv.check_integrity()


@pytest.mark.covers("KV-10")
def test_a_failed_allocation_changes_nothing_and_a_cached_prompt_needs_one_block():
    kv = KVCacheManager(8, 16)
    prompt = list(range(96))
    admit(kv, "A", prompt)  # 6 blocks
    before = (refs(kv), kv.num_free_blocks)
    assert admit(kv, "B", [7] * 49) == (False, 0)
    assert not kv.grow("A", 16 * 9)
    assert (refs(kv), kv.num_free_blocks) == before
    assert admit(kv, "C", [5] * 16) == (True, 0)
    assert kv.num_free_blocks == 1
    assert admit(kv, "D", prompt) == (True, 80), "all but the last block are shared, one is new"
    assert kv.num_free_blocks == 0
    kv.check_integrity()


def test_idle_cached_blocks_that_are_hit_count_as_taken():
    kv = KVCacheManager(4, 16)
    prompt = list(range(48))
    admit(kv, "A", prompt)
    kv.free("A")
    assert kv.num_free_blocks == 4
    hit = kv.find_prefix(hashes_of(prompt), 48)
    assert hit.num_tokens == 32
    assert kv.can_start(hit, 64)
    assert not kv.can_start(hit, 65), "32 hit tokens leave two of four blocks"


@pytest.mark.covers("KV-11", "KV-30")
def test_everything_returns_after_many_requests():
    rng = random.Random(1)
    kv = KVCacheManager(64, 16)
    alive = []
    for index in range(10_000):
        tokens = [rng.randrange(3) for _ in range(rng.randrange(1, 400))]
        if admit(kv, f"r{index}", tokens)[0]:
            alive.append(f"r{index}")
        while alive and (rng.random() < 0.5 or kv.num_free_blocks < 8):
            kv.free(alive.pop(rng.randrange(len(alive))))
        if index % 50 == 0:
            exactly = 16 * kv.num_free_blocks
            assert kv.start("exact", kv.find_prefix([], exactly), exactly), "scattered blocks will do"
            assert kv.num_free_blocks == 0
            kv.free("exact")
    for name in alive:
        kv.free(name)
    assert kv.num_free_blocks == 64
    kv.check_integrity()


@pytest.mark.covers("KV-12")
def test_growth_takes_one_block_per_sixteen_tokens():
    kv = KVCacheManager(200, 16)
    admit(kv, "other", [1] * 40)
    assert kv.start("A", kv.find_prefix([], 1), 1)
    for num_tokens in range(1, 2001):
        assert kv.grow("A", num_tokens)
        assert len(kv.block_ids("A")[0]) == -(-num_tokens // 16)


@pytest.mark.covers("KV-14")
def test_the_index_is_fast_and_every_key_is_the_hash_of_its_tokens():
    tokens = [index * 7919 % 50_000 for index in range(16 * 10_000)]
    kv = KVCacheManager(10_001, 16)
    admit(kv, "A", [*tokens, 1])
    hashes = hashes_of(tokens)
    took_s = []
    for _ in range(3):
        start_s = time.perf_counter()
        hit = kv.find_prefix(hashes, len(tokens) + 1)
        took_s.append(time.perf_counter() - start_s)
    assert hit.num_tokens == len(tokens)
    assert min(took_s) < 0.005
    parent = root_hash()
    for index, block in enumerate(hit.blocks[0]):
        parent = hash_block(parent, tokens[index * 16 : (index + 1) * 16])
        assert block.block_hash == parent


@pytest.mark.covers("KV-32")
def test_without_caching_nothing_is_ever_found():
    kv = KVCacheManager(8, 16, enable_caching=False)
    admit(kv, "A", list(range(48)))
    assert admit(kv, "B", list(range(48))) == (True, 0)
    assert kv.pool.num_cached_blocks == 0


@pytest.mark.covers("KV-17")
def test_lru_of_three_prompts():
    kv = KVCacheManager(16, 16)
    a, b, c = ([name] * 128 for name in (1, 2, 3))
    for name, tokens in (("A", a), ("B", b), ("C", c)):
        assert admit(kv, name, tokens) == (True, 0)
        kv.free(name)
    assert admit(kv, "C2", c) == (True, 112), "all but the last block, whose logits are needed"
    kv.free("C2")
    assert admit(kv, "A2", a) == (True, 0), "the least recently used prompt is gone"
    kv.free("A2")
    kv.check_integrity()


def test_blocks_held_by_a_connector_are_freed_when_it_is_done():
    kv = KVCacheManager(4, 16)
    admit(kv, "A", [1] * 32)
    kv.free("A", held_by_connector=True)
    assert (kv.num_free_blocks, kv.num_held_requests) == (2, 1)
    kv.check_integrity()
    kv.release_held("A")
    kv.release_held("A")
    assert (kv.num_free_blocks, kv.num_held_requests) == (4, 0)


def test_discarded_content_is_not_found_again():
    kv = KVCacheManager(4, 16)
    tokens = list(range(40))
    admit(kv, "A", tokens)
    kv.discard("A")
    assert admit(kv, "B", tokens) == (True, 0)


def test_adopting_takes_over_blocks_computed_by_another():
    kv = KVCacheManager(16, 16)
    tokens = list(range(64))
    kv.start("A", kv.find_prefix([], 64), 16)
    admit(kv, "B", tokens)
    assert kv.adopt("A", hashes_of(tokens), 16, 64) == 32, "its last token is left to compute"
    assert kv.block_ids("A")[0][1:] == kv.block_ids("B")[0][1:3]
    kv.check_integrity()


def test_two_groups_grow_and_return_together():
    kv = KVCacheManager(8, 16, num_groups=2)
    tokens = list(range(40))
    admit(kv, "A", tokens)
    assert [len(ids) for ids in kv.block_ids("A")] == [3, 3]
    assert not kv.grow("A", 80), "two more blocks in each of two groups, two are free"
    assert admit(kv, "B", tokens)[1] == 32
    kv.check_integrity()
    kv.free("A")
    kv.free("B")
    assert kv.num_free_blocks == 8
