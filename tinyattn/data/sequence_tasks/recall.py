"""Associative recall: each key of a sequence has a value; where a key is repeated, the answer is its value.

The task is Graves et al.'s (2014, section 4.3); with many queries in one sequence it is multi-query associative recall
(Arora et al. 2023). A state of fixed size has to hold all pairs; attention looks them up among past tokens.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...options import option
from .sequence_task import Drawn, SequenceTask


@dataclass(frozen=True, kw_only=True)
class Recall(SequenceTask):
    """Pairs of a key and its value, then keys alone: in a 1 b 2 b a b, the answers at the last three are 2 1 2.

    Token numbers are keys first, then values. A sequence has `pairs` different keys, each with a random value; every
    later token is one of these keys, drawn with replacement.
    """

    pairs: int = option(8, "pairs of a key and a value in a sequence", at_least=1)
    keys: int = option(32, "keys to draw from", at_least=1)
    values: int = option(32, "values to draw from", at_least=2)

    name = "recall"
    title = "recall: which value belongs to this key?"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs > self.keys:
            expected = "expected pairs <= keys, as the keys of a sequence are all different"
            raise ValueError(f"pairs is {self.pairs} and keys {self.keys}, {expected}")
        if self.length <= 2 * self.pairs:
            raise ValueError(f"length is {self.length} and pairs {self.pairs}, expected length > 2 pairs")

    @property
    def n_tokens(self) -> int:
        return self.keys + self.values

    @property
    def chance(self) -> float:
        return 1 / self.values

    @property
    def bits(self) -> float:
        """To remember: which keys occur, and the value of each."""
        return math.log2(math.comb(self.keys, self.pairs)) + self.pairs * math.log2(self.values)

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        head = 2 * self.pairs
        keys = np.argsort(rng.random((rows, self.keys)))[:, : self.pairs]
        values = self.keys + rng.integers(self.values, size=keys.shape)
        which = rng.integers(self.pairs, size=(rows, self.length - head))
        ids, targets = (np.zeros((rows, self.length), dtype=np.int64) for _ in range(2))
        ids[:, 0:head:2], ids[:, 1:head:2] = keys, values
        ids[:, head:], targets[:, head:] = (np.take_along_axis(of, which, axis=1) for of in (keys, values))
        return Drawn(ids, targets, np.broadcast_to(np.arange(self.length) >= head, ids.shape))
