"""Balance: are there as many b as a? The language aⁿbⁿ (Weiss et al. 2018).

It needs an unbounded count. An LSTM's cell can go up by one and down by one; the state of a GRU is a mean of its past
and a value within ±1, and so bounded. Questions at the last two b alone would not need a count: the last b is always at
an odd position, so the parity of the position would answer them at every length.
"""

import math
from dataclasses import dataclass

import numpy as np

from .sequence_task import Drawn, SequenceTask

END, A, B = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Balance(SequenceTask):
    """n times a, then n times b: at two of the b, does the sequence end here (0), or does another b follow (2)?

    n is uniform between 2 and half the length. One of the two b is the last. The other is one or two before it in half
    of the sequences, and any earlier one in the others.
    """

    name = "balance"
    title = "balance: have as many b come as a?"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 4:
            raise ValueError(f"length is {self.length}, expected at least 4: a a b b")

    @property
    def n_tokens(self) -> int:
        return 3

    @property
    def chance(self) -> float:
        return 0.5

    @property
    def bits(self) -> float:
        """The number of a, which grows with the length."""
        return math.log2(self.length // 2 - 1)

    @property
    def by_place(self) -> float:
        """The last b is at an odd position; the other one at an even position if the number of b after it is odd.

        In half of the sequences that number is one or two, equally often (one, if n is 2); else any up to n - 1.
        """
        sizes = np.arange(2, self.length // 2 + 1)
        near, any_ = np.where(sizes == 2, 1, 0.5), (sizes // 2) / (sizes - 1)
        return float(0.5 + 0.5 * np.mean((near + any_) / 2))

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        n = rng.integers(2, self.length // 2 + 1, size=(rows, 1))
        near = np.minimum(rng.integers(1, 3, size=(rows, 1)), n - 1)
        left = np.where(rng.integers(2, size=(rows, 1)), near, rng.integers(1, n))   # b that are still to come
        place = np.arange(self.length)
        ids = np.where(place < n, A, np.where(place < 2 * n, B, END))
        last = place == 2 * n - 1
        has_answer = last | (place == 2 * n - 1 - left)
        return Drawn(ids, np.where(has_answer & ~last, B, END), has_answer)
