"""Data in three parts: for training, for validation (which chooses the epoch), and for testing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..random import Stream, generator


@dataclass(frozen=True)
class Parts:
    """The parts of data of any kind. It has a length, and `what`, a plural noun for its rows. A part may be None."""

    train: Any
    valid: Any = None
    test: Any = None

    @property
    def tested(self) -> str:
        """The tested part, in words."""
        return f"{len(self.test):,} {self.test.what}"


def tenths(n: int, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers 0 to n - 1 in three sorted parts, random but determined by n; the last two hold a tenth each.

    Shapes: -> (a,), (b,), (b,), with b at least 1. Raises ValueError, naming `what`, for n below 3.
    """
    if n < 3:
        raise ValueError(f"too few {what} ({n}), expected at least 3: to learn from, to validate on and to test on")
    order, tenth = generator(0, Stream.PARTS).permutation(n), max(1, n // 10)
    return np.sort(order[2 * tenth :]), np.sort(order[:tenth]), np.sort(order[tenth : 2 * tenth])
