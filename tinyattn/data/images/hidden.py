"""Images with hidden patches, whose visual words are predicted (Bao et al. 2022, sections 2.1 and 2.3)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...backend import Array, transfer
from ...options import Checked, option
from ...random import Stream, generator
from ..slices import cut, rows_of_step, steps_of

NARROW = 0.3             # blocks are between NARROW times and 1 / NARROW times as high as they are wide


@dataclass(kw_only=True)
class Hiding(Checked):
    """Which patches of an image are hidden: blocks, so that a hidden patch's neighbours are often hidden, too."""

    hidden: float = option(0.4, "share of hidden patches (Bao et al.: .4)", above=0, at_most=1,
                           group="training")  # fmt: skip
    block: int = option(2, "fewest patches of a hidden block (Bao et al.: 16 of 196)", at_least=1, at_most=100_000,
                        group="training")  # fmt: skip

    def draw(self, rng: np.random.Generator, grid: tuple[int, int]) -> np.ndarray:
        """(rows columns,), True = hidden. Blocks are added until the share is reached (algorithm 1).

        The logarithm of a block's height over its width is uniform, as in the released code (in the paper, the ratio).
        """
        rows, columns = grid
        hidden = np.zeros(grid, dtype=bool)
        wanted = max(1, round(self.hidden * rows * columns))
        while (left := wanted - np.count_nonzero(hidden)) > 0:
            size = rng.uniform(self.block, max(float(self.block), float(left)))
            ratio = math.exp(rng.uniform(math.log(NARROW), -math.log(NARROW)))
            high, wide = (max(1, round(side)) for side in (math.sqrt(size * ratio), math.sqrt(size / ratio)))
            high, wide = min(high, rows), min(wide, columns)
            top, first = rng.integers(rows - high + 1), rng.integers(columns - wide + 1)
            hidden[top : top + high, first : first + wide] = True
        return hidden.reshape(-1)


class HiddenBatch(NamedTuple):
    """Row b is one image."""

    images: Array             # (B, height, width, channels) float32, standardised
    words: Array              # (B, n) the visual word of each patch
    hidden: Array             # (B, n) bool: hidden, and predicted
    tokens: Array             # (B,) tokens of each image
    rows: Array               # (B,) numbers of the images, which select dropout masks

    @property
    def total(self) -> float:
        return float(np.sum(self.hidden))

    def slices(self, tokens: int) -> "list[HiddenBatch]":
        return [HiddenBatch(*(x[rows] for x in self)) for rows in cut(self.tokens, tokens)]

    def to(self, xp: object) -> "HiddenBatch":
        return HiddenBatch(*transfer(self, xp))


class WordedImages(NamedTuple):
    """Standardised images, and the word of each patch."""

    images: np.ndarray        # (N, height, width, channels)
    words: np.ndarray         # (N, rows, columns)


@dataclass(frozen=True)
class HiddenSampler:
    """The training batches of a run, a function of the step. Hidden patches are drawn anew at every step."""

    data: WordedImages
    hiding: Hiding
    batch_size: int
    seed: int

    @property
    def steps(self) -> int:
        return steps_of(len(self.data.images), self.batch_size)

    def batch(self, step: int) -> HiddenBatch:
        return self._of(rows_of_step(len(self.data.images), self.steps, self.seed, step), Stream.MASKING, step)

    def whole(self) -> HiddenBatch:
        """All images in one batch; the hidden patches depend on the seed alone."""
        return self._of(np.arange(len(self.data.images)), Stream.VALIDATION)

    def _of(self, rows: np.ndarray, stream: Stream, *counters: int) -> HiddenBatch:
        rng, grid = generator(self.seed, stream, *counters), self.data.words.shape[1:]
        hidden = np.stack([self.hiding.draw(rng, (grid[0], grid[1])) for _ in rows])
        tokens = np.full(len(rows), hidden.shape[1])
        return HiddenBatch(self.data.images[rows], self.data.words[rows].reshape(hidden.shape), hidden, tokens, rows)
