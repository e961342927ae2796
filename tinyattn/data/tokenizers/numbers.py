"""Text that is token numbers already: of a model whose tokenizer is elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...files import Arrays
from .tokenizer import Tokenizer


class TokenNumbers(Tokenizer):
    """The text "15 27 3" is the tokens 15, 27 and 3."""

    name = "numbers"

    def __init__(self, size: int, ends: Collection[int] = ()):
        super().__init__(np.arange(size), "token")
        self.ends = frozenset(ends)

    @classmethod
    def of_folder(cls, folder: Path, size: int, ends: Collection[int]) -> Self:
        return cls(size, ends)

    @property
    def reads(self) -> str:
        return f"token numbers from 0 to {len(self) - 1}, as '15 27 3': no tokenizer came with the weights"

    def encode(self, text: str) -> np.ndarray:
        words = text.split()
        if not words:
            raise ValueError("the text is empty: expected at least one token number")
        digits = 20                          # of a number that is read: Python refuses some thousand in its own words
        unknown = next(
            (w for w in words if not (w.isascii() and w.isdigit() and len(w) < digits and int(w) < len(self))), None
        )
        if unknown is not None:
            raise ValueError(f"{unknown!r} of the text is no token, expected numbers from 0 to {len(self) - 1}")
        return np.array(list(map(int, words)))

    def text(self, numbers: Any) -> str:
        return " ".join(map(str, np.asarray(numbers).tolist()))

    @classmethod
    def restored(cls, ids: np.ndarray, arrays: Arrays) -> Self:
        return cls(len(ids), arrays.pop("ends").tolist())
