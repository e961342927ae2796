"""EASE: a linear autoencoder of users' item sets, solved in closed form (Steck 2019). It knows no order."""

import math
import os
from dataclasses import dataclass

import numpy as np

from ...data import Interactions, Split
from ...files import Arrays
from ...options import option
from ..parameters import checked
from ..recommender import Recommender
from .co_occurrence import co_occurrence

MATRICES = 3                  # G, its factorised copy, and its inverse: n x n numbers of 8 bytes each
UNKNOWN = 8 << 30             # bytes of memory to assume if the system does not report it
CONDITION = 1e10              # the largest condition number of G: float64 inverts such a matrix well


@dataclass(eq=False)
class EASE(Recommender):
    """scores = x B: x (items,) is 1 at the history's items, else 0; X has such a row for each training user.

        G = XᵀX + λ I,   P = G⁻¹,   B = I - P / diag(P), column j divided by P[j, j]

    B minimises |X - X B|² + λ |B|² among all B with a zero diagonal (Steck 2019, equation 8). Time grows with items³,
    memory with items². Raises ValueError for a catalogue too large for memory, and for a λ too small to invert G.
    """

    name = "ease"

    l2: float = option(500.0, "λ: weights between items shrink as it grows; more data need a larger one", above=0)

    def check_data(self, data: Interactions) -> None:
        """Raise ValueError for a catalogue whose dense matrices are larger than this machine's memory."""
        have = _memory()
        most, need = math.isqrt(have // (8 * MATRICES)), data.n_items**2 * 8 * MATRICES
        if data.n_items > most:
            raise ValueError(
                f"ease needs {MATRICES} matrices of items², {need / 1e9:.1f} GB for {data.n_items} items, expected at "
                f"most {most} items for the {have / 1e9:.1f} GB of memory here"
            )

    def _learn(self, train: Interactions, split: Split | None) -> None:
        self.check_data(train)
        n = train.n_items
        G = np.empty((n, n))
        for i, counts in enumerate(co_occurrence(train)):      # the first is padding's
            if i:
                G[i - 1] = counts[1:]
        least = np.max(np.sum(G, axis=1)) / CONDITION          # no eigenvalue of XᵀX is above its largest row's sum
        if self.l2 < least:
            raise ValueError(f"l2 is {self.l2}, expected at least {least:.2g} with this data: else G has no inverse")
        G[np.diag_indices(n)] += self.l2
        P = np.linalg.inv(G)
        P /= -np.diag(P).copy()                                # column j by -P[j, j]
        self._weights = np.zeros((n + 1, n + 1), dtype=np.float32)
        self._weights[1:, 1:] = P
        np.fill_diagonal(self._weights, 0)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        scores = np.empty((len(histories), len(self._weights)), dtype=np.float32)
        for row, history in zip(scores, histories, strict=True):
            np.sum(self._weights[np.unique(history)], axis=0, out=row)
        return scores

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": self._weights}

    def _restore(self, arrays: Arrays) -> None:
        size = len(self.fitted()) + 1
        self._weights = checked(arrays, "weights", (size, size), np.float32)


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):              # systems other than Linux and macOS
        return UNKNOWN
