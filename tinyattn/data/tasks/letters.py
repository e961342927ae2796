"""Words of random letters, copied, reversed or sorted."""

from dataclasses import dataclass

import numpy as np

from ...options import option
from .task import Task

ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))


@dataclass(frozen=True, kw_only=True)
class Copy(Task):
    """A word becomes itself: the simplest task that needs attention to the source."""

    shortest: int = option(3, "letters of the shortest word", at_least=1)
    longest: int = option(12, "letters of the longest word", at_least=1)

    name = "copy"
    title = "copy: a word becomes itself"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest:
            raise ValueError(f"shortest is {self.shortest} and longest {self.longest}, expected shortest <= longest")

    def pair(self, rng: np.random.Generator) -> tuple[str, str]:
        word = "".join(rng.choice(ALPHABET, rng.integers(self.shortest, self.longest + 1)))
        return word, self.becomes(word)

    def becomes(self, word: str) -> str:
        return word


@dataclass(frozen=True, kw_only=True)
class Reverse(Copy):
    name = "reverse"
    title = "reverse: a word is written backwards"

    def becomes(self, word: str) -> str:
        return word[::-1]


@dataclass(frozen=True, kw_only=True)
class Sort(Copy):
    name = "sort"
    title = "sort: a word's letters in alphabetical order"

    def becomes(self, word: str) -> str:
        return "".join(sorted(word))
