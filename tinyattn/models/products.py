"""Ranks for scores that are products of states and item embeddings: tile by tile, without whole rows.

A tile, some users by some items, is counted while it is in the processor's cache. Users are sorted by targets, so that
the targets of neighbours lie in a few tiles. All compared scores come from the same product, as another could round
differently and break ties of equal embeddings.
"""

import numpy as np

from ..evaluation import LazyScores, NaNScoreError
from ..evaluation.lazy import Counts
from ..training import Workers

USERS = 256              # per tile, about
TILE = 1 << 18           # scores per tile: 1 MB of float32; BLAS may round smaller products differently
KEPT = 4                 # tiles with targets that are kept for counting, and not computed twice


class Products(LazyScores):
    """The score of item i for row b is h[b] · E[i]; row 0 of E, padding, is no item."""

    def __init__(self, h: np.ndarray, E: np.ndarray, workers: int | None = None) -> None:
        """Shapes: h (B, D), E (n_items + 1, D), both on the host."""
        self._h, self._E, self._workers = h, E, workers

    def whole(self) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):           # a ranking refuses NaN
            scores = self._h @ self._E.T
        scores[:, 0] = -np.inf
        return scores

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        order = np.argsort(targets, kind="stable")
        blocks = pieces(0, len(order), USERS)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))                         # of each row in that order
        of_block = np.minimum(place[rows] // USERS, len(blocks) - 1)
        pairs = np.argsort(of_block * len(self._E) + items)          # by block, and by item within it
        ends = np.cumsum(np.bincount(of_block, minlength=len(blocks)))
        target, values = np.empty(len(order), self._h.dtype), np.empty(len(rows), self._h.dtype)
        above, equal = np.empty_like(order), np.empty_like(order)
        may_be_nan = not self._is_bounded()

        def work(number: int) -> None:
            block = blocks[number]
            mine = pairs[ends[number - 1] if number else 0 : ends[number]]
            users = order[block]
            tiles = Tiles(self._h[users], self._E, users if may_be_nan else None)
            target[users] = tiles.scores_of(targets[users])
            above[users], equal[users], values[mine] = tiles.count(
                target[users], place[rows[mine]] - block.start, items[mine]
            )

        with Workers(self._workers) as pool:
            list(pool.map(work, range(len(blocks))))
        return Counts(target, above, equal, values)

    def _is_bounded(self) -> bool:
        """Is every product surely finite?"""
        largest = [float(np.max(np.abs(x), initial=0)) for x in (self._h, self._E[1:])]
        return largest[0] * largest[1] * self._h.shape[1] < float(np.finfo(self._h.dtype).max)


class Tiles:
    """The scores of some users, a tile at a time."""

    def __init__(self, h: np.ndarray, E: np.ndarray, names: np.ndarray | None) -> None:
        """`names` are the users' row numbers, for messages about NaN; None if no score can be NaN."""
        self._h, self._E, self._names = h, E, names
        self._tiles = pieces(1, len(E), max(1, TILE // max(1, len(h)) // 64) * 64)
        self._starts = np.array([tile.start for tile in self._tiles])
        self._kept: dict[int, np.ndarray] = {}

    def scores_of(self, targets: np.ndarray) -> np.ndarray:
        """The score of one item for each user. Shapes: (b,) -> (b,)."""
        of_targets = np.empty(len(targets), self._h.dtype)
        number = np.searchsorted(self._starts, targets, side="right") - 1
        for tile in np.unique(number).tolist():
            scores, here = self._scores(tile), number == tile
            of_targets[here] = scores[here, targets[here] - self._starts[tile]]
            if len(self._kept) < KEPT:
                self._kept[tile] = scores
        return of_targets

    def count(self, mine: np.ndarray, rows: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many items score above `mine` (b,), and how many tie; and the scores of (rows, items), sorted by item."""
        above, equal = np.zeros(len(mine), dtype=np.int64), np.zeros(len(mine), dtype=np.int64)
        values = np.empty(len(rows), self._h.dtype)
        begins = [*np.searchsorted(items, self._starts).tolist(), len(items)]
        for tile, start in enumerate(self._starts.tolist()):
            scores = self._scores(tile)
            above += count_true(scores > mine[:, None])
            same = scores == mine[:, None]
            if np.any(same):
                equal += count_true(same)
            here = slice(begins[tile], begins[tile + 1])
            values[here] = scores[rows[here], items[here] - start]
        return above, equal, values

    def _scores(self, tile: int) -> np.ndarray:
        if tile in self._kept:
            return self._kept.pop(tile)
        with np.errstate(over="ignore", invalid="ignore"):           # a NaN is refused below
            scores = self._h @ self._E[self._tiles[tile]].T
        if self._names is not None and np.any(np.isnan(scores)):
            row, column = np.argwhere(np.isnan(scores))[0]
            raise NaNScoreError(
                f"the score of item {self._starts[tile] + column} in row {self._names[row]} is NaN: no ranking"
            )
        return scores


def pieces(begin: int, end: int, width: int) -> list[slice]:
    """begin:end in pieces of `width`; the last has half to one and a half of that."""
    starts = [begin + i * width for i in range(max(1, round((end - begin) / width)))]
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], end], strict=True)]


def count_true(x: np.ndarray) -> np.ndarray:
    """The number of True entries of each row, eight at a time. Shapes: (b, m) -> (b,)."""
    return np.asarray(np.sum(np.bitwise_count(np.packbits(x, axis=1)), axis=1, dtype=np.int64))
