"""The cache of a block."""

from typing import Any, NamedTuple

from ..backend import Array


class BlockCache(NamedTuple):
    """What one forward saves. With attention, `cache.attention.weights` are the attention weights."""

    norm_1: Any
    attention: Any                   # the mixer's cache
    keep_1: Array | None             # (..., n, D): dropout on the mixer's output
    norm_2: Any
    feed_forward: Any
    keep_2: Array | None             # (..., n, D): dropout on the feed-forward's output
