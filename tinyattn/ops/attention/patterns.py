"""Patterns of sparse attention: the pairs that each allows, and the blocks that contain these pairs.

`sees` is the definition, and `layout` lists the blocks that `block_sparse_attention` computes. A pattern is counted
from the first token, so it does not change when more tokens, or padding, follow. With `causal` no query looks ahead,
not even a global one.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...backend import Array, get_xp
from ...random import Stream, generator
from .blocks import BlockLayout, Blocks

CHUNK = 16      # least number of queries in a block: in products of smaller matrices the overhead of calls dominates


@dataclass(frozen=True)
class Pattern:
    """Which keys j a query i may look at. Raises ValueError for a size that is too small."""

    causal: bool

    def __post_init__(self) -> None:
        for name, least in self.bounds().items():
            if getattr(self, name) < least:
                raise ValueError(f"{type(self).__name__}: {name} is {getattr(self, name)}, expected at least {least}")

    def bounds(self) -> dict[str, int]:
        """The least value of each size."""
        return {}

    def sees(self, i: Array, j: Array, n: int) -> Array:
        """May query i look at key j, both below n? Shapes: integers that broadcast together -> boolean."""
        seen = self.pattern(i, j, n)
        return seen & (j <= i) if self.causal else seen

    def pattern(self, i: Array, j: Array, n: int) -> Array:
        """`sees` without the condition of `causal`."""
        raise NotImplementedError

    def layout(self, n: int) -> BlockLayout:
        """Blocks for n tokens."""
        return _made(self, n)

    def blocks(self, n: int) -> list[Blocks]:
        raise NotImplementedError

    def group(self, queries: np.ndarray, keys: np.ndarray, n: int) -> Blocks:
        """Blocks of these positions; those outside of 0 to n - 1 become empty places. Shapes: (z, a), (z, b)."""
        queries, keys = (np.where((x >= 0) & (x < n), x, -1) for x in (queries, keys))
        return Blocks(queries, keys, self.sees(queries[:, :, None], keys[:, None, :], n))


@lru_cache(1024)
def _made(pattern: Pattern, n: int) -> BlockLayout:
    return BlockLayout(n, n, tuple(pattern.blocks(n)))


@dataclass(frozen=True)
class Near(Pattern):
    """|i - j| < W: a query, and the W - 1 tokens before it; not causal: on either side."""

    window: int

    def bounds(self) -> dict[str, int]:
        return {"window": 1}

    def pattern(self, i: Array, j: Array, n: int) -> Array:
        return abs(i - j) < self.window

    def blocks(self, n: int) -> list[Blocks]:
        return [self._chunks(0, n)]

    def _chunks(self, first: int, n: int) -> Blocks:
        """Queries from `first` on, in chunks, with all of their keys from `first` on."""
        c = max(min(n - first, max(self.window, CHUNK)), 1)
        starts = np.arange(first, n, c)[:, None]
        around = self.window - 1 if len(starts) > 1 else 0                   # a single chunk has no neighbours
        keys = starts + np.arange(-around, c if self.causal else c + around)
        return self.group(starts + np.arange(c), np.where(keys >= first, keys, -1), n)


@dataclass(frozen=True)
class Residues(Pattern):
    """(i - j) mod ℓ = 0: every ℓ-th token (Child et al. 2019, section 4.3).

    The tokens of one residue are a block, in which all look at all.
    """

    stride: int

    def bounds(self) -> dict[str, int]:
        return {"stride": 1}

    def pattern(self, i: Array, j: Array, n: int) -> Array:
        return (i - j) % self.stride == 0

    def blocks(self, n: int) -> list[Blocks]:
        places = np.arange(min(self.stride, n))[:, None] + np.arange(0, n, self.stride)
        return [self.group(places, places, n)]


@dataclass(frozen=True)
class NearOrResidues(Residues):
    """|i - j| < ℓ or (i - j) mod ℓ = 0: both patterns of Child et al. for one head (section 5.1, "merged").

    Neighbours look at different residues: no two queries share many keys, so each query has a separate block.
    """

    def pattern(self, i: Array, j: Array, n: int) -> Array:
        return (abs(i - j) < self.stride) | super().pattern(i, j, n)

    def blocks(self, n: int) -> list[Blocks]:
        i, stride = np.arange(n)[:, None], min(self.stride, max(n, 1))
        near = i + np.arange(1 - stride, 1 if self.causal else stride)
        far = i % stride + np.arange(0, n, stride)
        far = np.where((i - far >= stride) | ((not self.causal) & (far - i >= stride)), far, -1)
        return [self.group(i, np.concatenate([near, far], axis=1), n)]


@dataclass(frozen=True)
class NearAndGlobal(Near):
    """|i - j| < W, or j < G, or i < G: the first G tokens look at all, and all at them (Beltagy et al. 2020, 3.1).

    `layout` has the queries from G on, and `of_globals` the first G, for which Longformer has other projections.
    """

    tokens: int

    def bounds(self) -> dict[str, int]:
        return {"window": 1, "tokens": 0}

    def pattern(self, i: Array, j: Array, n: int) -> Array:
        return (abs(i - j) < self.window) | (j < self.tokens) | (i < self.tokens)

    def blocks(self, n: int) -> list[Blocks]:
        near = self._chunks(self.tokens, n)
        shared = np.broadcast_to(np.arange(self.tokens), (len(near.keys), self.tokens))
        return [self.group(near.queries, np.concatenate([shared, near.keys], axis=1), n)]

    def of_globals(self, n: int) -> BlockLayout:
        """The first G queries of n tokens and their keys: one block, of G queries and G keys (causal) or n."""
        return _of_globals(self, n)


@lru_cache(1024)
def _of_globals(pattern: NearAndGlobal, n: int) -> BlockLayout:
    first = min(pattern.tokens, n)
    m = first if pattern.causal else n
    block = pattern.group(np.arange(first)[None], np.arange(m)[None], n)
    return BlockLayout(first, m, (block,))


@dataclass(frozen=True)
class BigBird(Pattern):
    """Near blocks, global blocks and random ones (Zaheer et al. 2020, section 2), of `size` tokens each.

        near       |I - J| < W, with I and J the blocks of i and j
        global     J < G, or I < G
        random     block I has drawn J, or J has drawn I: each block draws R of the blocks before it

    What block I draws depends on I alone, and is the same in every run. It draws among blocks that are neither near nor
    global, so that none is counted twice.
    """

    size: int
    near: int
    first: int
    random: int

    def bounds(self) -> dict[str, int]:
        return {"size": 1, "near": 1, "first": 0, "random": 0}

    def pattern(self, i: Array, j: Array, n: int) -> Array:
        xp, i, j = get_xp(i, j), i // self.size, j // self.size
        seen = (abs(i - j) < self.near) | (i < self.first) | (j < self.first)
        for drawn in _columns(self, self._count(n), xp):
            seen = seen | (xp.take(drawn, i) == j) | (xp.take(drawn, j) == i)
        return seen

    def blocks(self, n: int) -> list[Blocks]:
        count = self._count(n)
        drawn = _drawn(self, count)
        looks: list[set[int]] = []
        for i in range(count):
            low, high = max(i - self.near + 1, 0), min(i + self.near, count)
            looks.append(set(range(count if i < self.first else self.first)) | set(range(low, high)))
        for i, r in np.argwhere(drawn >= 0).tolist():
            looks[i].add(int(drawn[i, r]))
            looks[int(drawn[i, r])].add(i)
        alike: dict[int, list[tuple[int, list[int]]]] = {}                   # by the number of blocks they look at
        for i, seen in enumerate(looks):
            kept = sorted(j for j in seen if j <= i or not self.causal)
            alike.setdefault(len(kept), []).append((i, kept))
        groups = []
        for _, members in sorted(alike.items()):
            queries, keys = np.array([[i] for i, _ in members]), np.array([seen for _, seen in members])
            groups.append(self.group(self._tokens(queries, n), self._tokens(keys, n), n))
        return groups

    def _count(self, n: int) -> int:
        """The number of blocks of n tokens; the last may be partly filled."""
        return -(-n // self.size)

    def _tokens(self, blocks: np.ndarray, n: int) -> np.ndarray:
        """The tokens of these blocks. Shapes: (z, a) -> (z, a · size); of a block larger than n, (z, n)."""
        return (blocks[:, :, None] * self.size + np.arange(min(self.size, n))).reshape(len(blocks), -1)


@lru_cache(64)
def _columns(pattern: BigBird, count: int, xp: Any) -> list[Array]:
    """The columns of `_drawn`, in the module of the arrays: R of (count,)."""
    return [xp.asarray(column) for column in _drawn(pattern, count).T]


@lru_cache(64)
def _drawn(pattern: BigBird, count: int) -> np.ndarray:
    """The blocks that each of `count` blocks draws, -1 where there are too few: (count, R)."""
    found = np.full((count, pattern.random), -1)
    for i in range(pattern.first + pattern.near, count):
        distant = i - pattern.near + 1 - pattern.first                       # blocks before, neither near nor global
        few = min(distant, pattern.random)
        found[i, :few] = pattern.first + generator(0, Stream.BLOCKS, i).choice(distant, few, replace=False)
    return found
