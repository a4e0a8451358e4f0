"""What one layer asks of the cache. Block tables and hash keys are indexed by group: layers with equal specs
share one.
"""

from dataclasses import dataclass
from typing import Literal

DTYPE_BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class KVCacheSpec:
    """Cache of one layer. `kind` is the seam for layers that keep a state instead of keys and values."""

    num_kv_heads: int
    head_dim: int
    dtype: Literal["float32", "bfloat16"]
    kind: Literal["full_attention"] = "full_attention"

    @property
    def bytes_per_token(self) -> int:
        """K and V of one token in this layer."""
        return 2 * self.num_kv_heads * self.head_dim * DTYPE_BYTES[self.dtype]

    def bytes_per_block(self, block_size: int) -> int:
        """K and V of one block of `block_size` tokens in this layer."""
        return block_size * self.bytes_per_token
