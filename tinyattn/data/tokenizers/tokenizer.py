"""The interface of tokenizers."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ...files import Arrays
from ..vocabulary import Vocabulary


class Tokenizer(Vocabulary):
    """Base of the tokenizers: a new one is a file with a subclass, and a line in TOKENIZERS.

    Tokens are numbered 0 to len - 1. `ends` are those that end a text; models trained here have none.
    """

    name: ClassVar[str]
    ends: frozenset[int] = frozenset()

    @classmethod
    def of_folder(cls, folder: Path, size: int, ends: Collection[int]) -> Self | None:
        """The tokenizer in a folder of weights, for a model of `size` tokens; None if its files are not there."""
        return None

    @property
    def reads(self) -> str:
        """The form of a prompt, for people."""
        raise NotImplementedError

    def encode(self, text: str) -> np.ndarray:
        """(n,): the numbers of a text's tokens. Raises ValueError for an empty text or an unknown symbol."""
        raise NotImplementedError

    def text(self, numbers: Any) -> str:
        """The text of these tokens. Shapes: numbers (n,)."""
        raise NotImplementedError

    def after(self, numbers: Any, first: int) -> str:
        """The text that the tokens from `first` on add. A token may give another text at the beginning of a text."""
        return self.text(numbers)[len(self.text(numbers[:first])) :]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a model's file keeps beside the ids."""
        return {"ends": np.array(sorted(self.ends), dtype=np.int64)}

    @classmethod
    def restored(cls, ids: np.ndarray, arrays: Arrays) -> Self:
        """The tokenizer with these ids, whose arrays it pops from `arrays`."""
        raise NotImplementedError
