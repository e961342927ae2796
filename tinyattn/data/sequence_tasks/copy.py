"""Selective copying: some tokens among blanks, then all of them in order.

The task is Jing et al.'s (2019), with the random positions of Gu & Dao (2023, section 4.1.1).
The distance between a token and its copy is random, so that fixed weights, such as a convolution's, cannot copy it.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...options import option
from .sequence_task import Drawn, SequenceTask

BLANK, MARKER, FIRST = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class SelectiveCopy(SequenceTask):
    """At the i-th marker (1) the answer is the i-th token that is no blank (0): · a · · b a · | | | becomes a b a."""

    copied: int = option(8, "tokens to copy", at_least=1)
    tokens: int = option(16, "different tokens among them", at_least=2)

    name = "selective-copy"
    title = "selective copy: all tokens but the blanks, in their order"

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * self.copied > self.length:
            raise ValueError(f"length is {self.length} and copied {self.copied}, expected length >= 2 copied")

    @property
    def n_tokens(self) -> int:
        return FIRST + self.tokens

    @property
    def chance(self) -> float:
        return 1 / self.tokens

    @property
    def bits(self) -> float:
        """The copied tokens."""
        return self.copied * math.log2(self.tokens)

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        ids, targets = (np.full((rows, self.length), BLANK) for _ in range(2))
        first = self.length - self.copied
        copied = FIRST + rng.integers(self.tokens, size=(rows, self.copied))
        places = np.sort(np.argsort(rng.random((rows, first)))[:, : self.copied], axis=1)
        np.put_along_axis(ids, places, copied, axis=1)
        ids[:, first:], targets[:, first:] = MARKER, copied
        return Drawn(ids, targets, targets != BLANK)
