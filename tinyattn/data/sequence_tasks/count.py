"""Counting: the number of ones so far, modulo k. With k = 2 that is parity.

A state that a token can flip counts at any length. Attention takes means, in which one token of many weighs less and
less: with bounded numbers of heads and blocks it cannot compute parity at every length (Hahn 2020). Linear recurrences
whose decay is never negative cannot, either (Sarrof et al. 2024).
"""

import math
from dataclasses import dataclass

import numpy as np

from ...options import option
from .sequence_task import Drawn, SequenceTask


@dataclass(frozen=True, kw_only=True)
class Count(SequenceTask):
    """The answer at every token is the number of ones up to it, modulo `modulus`: 1 1 0 1 for 1 0 1 1 and modulus 2."""

    modulus: int = option(2, "k: the count is modulo k", at_least=2)

    name = "count"
    title = "count: the number of ones so far, modulo k"

    @property
    def n_tokens(self) -> int:
        return self.modulus

    @property
    def chance(self) -> float:
        return 1 / self.modulus

    @property
    def bits(self) -> float:
        """The count."""
        return math.log2(self.modulus)

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        ids = rng.integers(2, size=(rows, self.length))
        return Drawn(ids, np.cumsum(ids, axis=1) % self.modulus, np.ones(ids.shape, dtype=bool))
