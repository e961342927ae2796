"""Which queries are compared with which keys, in blocks: the layouts that `block_sparse_attention` takes.

A pattern that hides most pairs saves time only if hidden pairs are not computed. One pair at a time is slow, so pairs
are computed in blocks. A block is `a` queries and `b` keys, which include all keys that these queries may look at.
Blocks of one size form a group, and are computed side by side. Positions do not depend on the data: a layout is made
once for each length, of NumPy's integers, and serves arrays of NumPy and CuPy.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...backend import Array, get_xp


@dataclass(frozen=True, eq=False)
class Blocks:
    """A group of z blocks of one size: row i of `queries` is compared with row i of `keys`.

    Shapes: queries (z, a) and keys (z, b), positions, with -1 for an empty place; allowed (z, a, b), True = may look,
    or None where each of a block's queries may look at each of its keys.
    """

    queries: np.ndarray
    keys: np.ndarray
    allowed: np.ndarray | None = None

    @property
    def looks(self) -> np.ndarray:
        """(z, a, b): the pairs whose query and key are both real (not -1) and that `allowed` permits."""
        there = (self.queries >= 0)[:, :, None] & (self.keys >= 0)[:, None, :]
        return there if self.allowed is None else there & self.allowed


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """Groups of blocks for n queries and m keys.

    A query is in at most one block; a query in no block looks at nothing. A block has no key twice: the key would count
    twice in the sum of the weights. Several blocks may have the same key.
    Shapes: of each group, queries (z, a), keys (z, b), allowed (z, a, b) or None; `mask` is (n, m).
    Raises ValueError, with the position, if this does not hold, and for shapes that do not fit.
    """

    n: int
    m: int
    groups: tuple[Blocks, ...]

    def __post_init__(self) -> None:
        for group in self.groups:
            sizes = {"queries": group.queries.shape, "keys": group.keys.shape}
            if len(group.queries.shape) != 2 or len(group.keys.shape) != 2 or len(group.queries) != len(group.keys):
                raise ValueError(f"BlockLayout: queries and keys are (z, a) and (z, b), not {sizes}")
            shape = (*group.queries.shape, group.keys.shape[1])
            if group.allowed is not None and (group.allowed.dtype != bool or group.allowed.shape != shape):
                was = f"{group.allowed.dtype} {group.allowed.shape}"
                raise ValueError(f"BlockLayout: allowed is {was}, expected bool {shape}")
            for name, x, size in (("query", group.queries, self.n), ("key", group.keys, self.m)):
                wrong = x[(x < -1) | (x >= size)]
                if wrong.size:
                    expected = f"expected 0 <= {name} < {size}, or -1 for an empty place"
                    raise ValueError(f"BlockLayout: {name} {wrong[0]} is out of range: {expected}")
            ordered = np.sort(group.keys, axis=1)
            twice = ordered[:, 1:][(ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)]
            if twice.size:
                raise ValueError(f"BlockLayout: key {twice[0]} stands twice in a block, and would count twice")
        queries = np.concatenate([np.zeros(0, int), *(group.queries[group.queries >= 0] for group in self.groups)])
        count = np.bincount(queries, minlength=self.n)
        if np.any(count > 1):
            raise ValueError(f"BlockLayout: query {int(np.argmax(count > 1))} stands in more than one block")

    @property
    def pairs(self) -> int:
        """Scores computed, and kept for the backward, per head: empty and hidden places of blocks included."""
        return sum(int(group.queries.size * group.keys.shape[1]) for group in self.groups)

    @property
    def mask(self) -> np.ndarray:
        """The equivalent mask, (n, m) boolean: ordinary attention with it gives the same output."""
        return self.places() < self.pairs

    def places(self) -> np.ndarray:
        """For each (query, key), the index of its weight in the concatenated, flattened weights of all groups.

        `self.pairs` where the pair is hidden or in no block. Shapes: -> (n, m) integers.
        """
        found, first = np.full((self.n, self.m), self.pairs), 0
        for group in self.groups:
            z, i, j = np.nonzero(group.looks)
            _, a, b = group.looks.shape
            found[group.queries[z, i], group.keys[z, j]] = first + (z * a + i) * b + j
            first += group.looks.size
        return found


def dense_weights(weights: tuple[Array, ...], layout: BlockLayout) -> Array:
    """The weights of `block_sparse_attention` in the shape of `attention`'s: 0 for pairs hidden or in no block.

    Shapes: weights, for each group (..., z, a, b) -> (..., n, m).
    """
    xp, lead = get_xp(*weights), weights[0].shape[:-3]
    flat = [w.reshape(*lead, math.prod(w.shape[-3:])) for w in weights]
    flat.append(xp.zeros((*lead, 1), dtype=weights[0].dtype))                # pairs hidden or in no block
    return xp.take(xp.concatenate(flat, axis=-1), xp.asarray(layout.places()), axis=-1)
