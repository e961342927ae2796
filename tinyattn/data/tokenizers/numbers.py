"""Text of token numbers, for a model whose tokenizer is elsewhere."""

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
        if not (words := text.split()):
            raise ValueError("the text is empty: expected at least one token number")
        for word in words:                   # Python's int refuses numbers of some thousand digits
            if not (word.isascii() and word.isdigit() and len(word) < 20 and int(word) < len(self)):
                raise ValueError(f"{word!r} of the text is no token, expected numbers from 0 to {len(self) - 1}")
        return np.array(list(map(int, words)))

    def text(self, numbers: Any) -> str:
        return " ".join(map(str, np.asarray(numbers).tolist()))

    @classmethod
    def restored(cls, ids: np.ndarray, arrays: Arrays) -> Self:
        return cls(len(ids), arrays.pop("ends").tolist())
