"""Search for the likeliest string, greedily or with a beam.

A string's score is its log-probability: the sum of log p(symbol | earlier symbols), the final 0 included, not
normalised by length.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BROADEST = 1000          # the widest beam: wider ones take minutes a string, and find nothing better


class Hypothesis(NamedTuple):
    """A beginning, or, with its final 0, a whole string."""

    symbols: tuple[int, ...]
    score: float

    @property
    def is_whole(self) -> bool:
        return self.symbols[-1:] == (0,)


def beam_search(log_probabilities: Callable[[np.ndarray], np.ndarray], beam: int, longest: int) -> list[Hypothesis]:
    """Whole strings, the likeliest first; with `beam` 1 only that of greedy decoding.

    `log_probabilities` takes beginnings (k, t), each with a first 0, and gives (k, V). Place i of the beam continues a
    beginning in places 1 to i, by the best continuation that no earlier place has taken (Lemons, Linares López, Holte &
    Ruml 2022). So place 1 is greedy decoding, and a wider beam finds all strings of a narrower one: its best is never
    worse. A string has at most `longest` symbols, the last of which is 0. Raises ValueError for a beam below 1 or above
    BROADEST.
    """
    if not 1 <= beam <= BROADEST:
        raise ValueError(f"beam is {beam}, expected 1 to {BROADEST}")
    places: list[Hypothesis | None] = [Hypothesis((), 0.0), *[None] * (beam - 1)]
    whole: list[Hypothesis] = []
    for length in range(1, longest + 1):
        beginnings = [(place, h) for place, h in enumerate(places) if h is not None and not h.is_whole]
        best = max((h.score for h in whole), default=-np.inf)
        if all(h.score <= best for _, h in beginnings):                  # no continuation could be better
            break
        total = log_probabilities(np.array([(0, *h.symbols) for _, h in beginnings]))
        total += np.array([h.score for _, h in beginnings])[:, None]     # (k, V): of each beginning and symbol
        if length == longest:
            total[:, 1:] = -np.inf
        places = [_best(total, [h for place, h in beginnings if place <= i]) for i in range(beam)]
        whole += [h for h in places if h is not None and h.is_whole]
    return sorted(whole, key=lambda h: -h.score)


def _best(total: np.ndarray, beginnings: list[Hypothesis]) -> Hypothesis | None:
    """The best continuation of the first beginning, or None; it is removed from `total`."""
    if not beginnings:
        return None
    row, symbol = np.unravel_index(np.argmax(total[: len(beginnings)]), (len(beginnings), total.shape[1]))
    score = float(total[row, symbol])
    total[row, symbol] = -np.inf
    return None if score == -np.inf else Hypothesis((*beginnings[row].symbols, int(symbol)), score)
