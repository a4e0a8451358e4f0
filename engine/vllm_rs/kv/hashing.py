"""Content hashes of full blocks: same tokens after the same history under the same keys, and only then, same
hash.

SHA-256 over (hash of the block before, tokens, extra keys), so that a hash names the whole prefix up to
its block and cannot be forged by choosing tokens. What separates tenants and adapters (salt, adapter name)
enters at the root; what belongs to a place in the prompt (a media item) enters at the blocks it covers.
"""

import hashlib
from array import array
from collections.abc import Sequence

import msgspec

_ROOT = b"vllm-rs kv block v1"
ExtraKeys = tuple[str | int | bytes, ...]


def root_hash(*, cache_salt: str | None = None, adapter: str | None = None) -> bytes:
    """Parent of a request's first block; requests with different salts or adapters never share."""
    return hashlib.sha256(_ROOT + msgspec.msgpack.encode((cache_salt, adapter))).digest()


def hash_block(parent: bytes, token_ids: Sequence[int], extra_keys: ExtraKeys = ()) -> bytes:
    """Hash (32 bytes) of one full block; `extra_keys` name what else its KV depends on, such as media
    hashes.
    """
    content = parent + array("q", token_ids).tobytes()
    if extra_keys:
        content += msgspec.msgpack.encode(extra_keys)
    return hashlib.sha256(content).digest()


class BlockHashChain:
    """Hashes of one request's full blocks, extended as its tokens grow.

    `extra_keys` maps a block index to the keys of that block; absent means none.
    """

    __slots__ = ("_block_size", "_extra_keys", "_root", "hashes")

    def __init__(self, block_size: int, root: bytes, extra_keys: dict[int, ExtraKeys] | None = None) -> None:
        self._block_size = block_size
        self._root = root
        self._extra_keys = extra_keys or {}
        self.hashes: list[bytes] = []

    def extend(self, token_ids: Sequence[int], num_tokens: int) -> list[bytes]:
        """Hashes of the blocks that the first `num_tokens` of `token_ids` fill, and of no more, whatever is
        known already.
        """
        hashes = self.hashes
        size = self._block_size
        for index in range(len(hashes), num_tokens // size):
            parent = hashes[-1] if hashes else self._root
            block_tokens = token_ids[index * size : (index + 1) * size]
            hashes.append(hash_block(parent, block_tokens, self._extra_keys.get(index, ())))
        return hashes[: num_tokens // size]
