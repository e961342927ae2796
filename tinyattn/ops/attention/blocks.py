"""Which queries are compared with which keys, in blocks: what `block_sparse_attention` goes by.

A pattern that hides most pairs pays only if hidden pairs are not computed. Computing one pair at a time is slow, so
pairs are taken in blocks: `a` queries together, and `b` keys that hold all that any of them may look at. Blocks of one
size form a group, and are computed side by side. Positions are integers on the host, and depend on no data: a layout is
made once for each length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...backend import Array, get_xp


@dataclass(frozen=True, eq=False)
class Blocks:
    """A group of z blocks of one size: the queries of block z are compared with the keys of block z.

    Shapes: queries (z, a) and keys (z, b), positions, with -1 for a place that is left empty; allowed (z, a, b), True =
    may look, or None where each of a block's queries may look at each of its keys.
    """

    queries: np.ndarray
    keys: np.ndarray
    allowed: np.ndarray | None = None

    @property
    def looks(self) -> np.ndarray:
        """(z, a, b): which pairs of a block are of a query that may look and of a key that is there."""
        there = (self.queries >= 0)[:, :, None] & (self.keys >= 0)[:, None, :]
        return there if self.allowed is None else there & self.allowed


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """Groups of blocks for n queries and m keys.

    A query stands in one block at most; one that stands in none looks at nothing. A block has no key twice, else it
    would count twice in the sum of the weights. Several blocks may have the same key.
    Shapes: of each group, queries (z, a), keys (z, b), allowed (z, a, b) or None; `mask` is (n, m).
    Raises ValueError where this does not hold, naming the position, and where shapes do not fit.
    """

    n: int
    m: int
    groups: tuple[Blocks, ...]

    def __post_init__(self) -> None:
        for of in self.groups:
            sizes = {"queries": of.queries.shape, "keys": of.keys.shape}
            if len(of.queries.shape) != 2 or len(of.keys.shape) != 2 or len(of.queries) != len(of.keys):
                raise ValueError(f"BlockLayout: queries and keys are (z, a) and (z, b), not {sizes}")
            shape = (*of.queries.shape, of.keys.shape[1])
            if of.allowed is not None and (of.allowed.dtype != bool or of.allowed.shape != shape):
                was = f"{of.allowed.dtype} {of.allowed.shape}"
                raise ValueError(f"BlockLayout: allowed is {was}, expected bool {shape}")
            for name, x, size in (("query", of.queries, self.n), ("key", of.keys, self.m)):
                wrong = x[(x < -1) | (x >= size)]
                if wrong.size:
                    said = f"{name} {wrong[0]} is beyond the {size} there are"
                    raise ValueError(f"BlockLayout: {said}; an empty place is -1")
            ordered = np.sort(of.keys, axis=1)
            twice = ordered[:, 1:][(ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)]
            if twice.size:
                raise ValueError(f"BlockLayout: key {twice[0]} stands twice in a block, and would count twice")
        count = np.bincount(_positions(self.groups), minlength=self.n)
        if np.any(count > 1):
            raise ValueError(f"BlockLayout: query {int(np.argmax(count > 1))} stands in more than one block")

    @property
    def pairs(self) -> int:
        """How many scores are computed for a head: the work, and the numbers that are kept for the backward."""
        return sum(int(of.queries.size * of.keys.shape[1]) for of in self.groups)

    @property
    def mask(self) -> np.ndarray:
        """The mask that the blocks mean, (n, m) boolean: full attention under it is the same."""
        return self.places() < self.pairs

    def places(self) -> np.ndarray:
        """Where the weight of each pair stands among those of all blocks, one after the other; `pairs` where nowhere.

        Shapes: -> (n, m) integers.
        """
        found, first = np.full((self.n, self.m), self.pairs), 0
        for of in self.groups:
            z, i, j = np.nonzero(of.looks)
            _, a, b = of.looks.shape
            found[of.queries[z, i], of.keys[z, j]] = first + (z * a + i) * b + j
            first += of.looks.size
        return found


def dense_weights(weights: tuple[Array, ...], layout: BlockLayout) -> Array:
    """The weights of `block_sparse_attention` as those of `attention`, to look at: 0 for pairs of no block.

    Shapes: weights, for each group (..., z, a, b) -> (..., n, m).
    """
    xp, lead = get_xp(*weights), weights[0].shape[:-3]
    flat = [w.reshape(*lead, math.prod(w.shape[-3:])) for w in weights]
    flat.append(xp.zeros((*lead, 1), dtype=weights[0].dtype))                # for pairs of no block
    return xp.take(xp.concatenate(flat, axis=-1), xp.asarray(layout.places()), axis=-1)


def _positions(groups: tuple[Blocks, ...]) -> np.ndarray:
    """Every query that stands in a block."""
    found = [of.queries[of.queries >= 0] for of in groups]
    return np.concatenate([np.zeros(0, int), *found])
