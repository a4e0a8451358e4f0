"""Block hashes name a whole history, and nothing else finds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_rs.kv.hashing import BlockHashChain, hash_block, root_hash

TOKENS = st.lists(st.integers(0, 1 << 20), min_size=8, max_size=40)


def chain(tokens, size=4, **root):
    return BlockHashChain(size, root_hash(**root)).extend(tokens, len(tokens))[:]


@given(TOKENS, st.integers(1, 9))
def test_only_full_blocks_have_a_hash(tokens, size):
    assert len(chain(tokens, size)) == len(tokens) // size


@pytest.mark.covers("KV-13")
@given(TOKENS, st.integers(0, 7))
def test_a_different_token_changes_its_block_and_all_after_it(tokens, place):
    other = list(tokens)
    other[place] += 1
    ours, theirs = chain(tokens), chain(other)
    assert ours[: place // 4] == theirs[: place // 4]
    assert not set(ours[place // 4 :]) & set(theirs[place // 4 :])


def test_salt_adapter_and_media_separate_equal_tokens():
    tokens = list(range(8))
    roots = [
        {},
        {"cache_salt": "a"},
        {"cache_salt": "b"},
        {"adapter": "a"},
        {"cache_salt": "a", "adapter": "a"},
    ]
    assert len({chain(tokens, **root)[0] for root in roots}) == len(roots)
    plain = hash_block(root_hash(), tokens[:4])
    assert len(plain) == 32
    assert plain != hash_block(root_hash(), tokens[:4], ("media-hash",))
    with_media = BlockHashChain(4, root_hash(), {1: ("media-hash",)}).extend(tokens, 8)
    assert with_media[0] == chain(tokens)[0], "a block before the media item is shared"
    assert with_media[1] != chain(tokens)[1]


def test_a_chain_grows_as_tokens_come():
    tokens = list(range(40))
    grown = BlockHashChain(4, root_hash())
    for count in range(41):
        grown.extend(tokens[:count], count)
    assert grown.hashes == chain(tokens)


def test_a_chain_that_knows_more_gives_only_what_was_asked_for():
    tokens = list(range(40))
    known = BlockHashChain(4, root_hash())
    known.extend(tokens, 40)
    assert [len(known.extend(tokens, count)) for count in (0, 3, 4, 39, 40)] == [0, 0, 1, 9, 10]
