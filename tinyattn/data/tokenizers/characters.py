"""Tokens of text: characters, and frequent sequences of them (Sennrich, Haddow & Birch 2016, section 3.2).

Byte-pair encoding begins with characters and adds one token at a time, which merges the most frequent pair of adjacent
tokens. Nothing is merged across words; the blank before a word belongs to it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ...files import Arrays
from ...terminal import shortened
from ..vocabulary import refuse_no_text
from .tokenizer import Tokenizer

WORD = re.compile(r" ?\S+|\s")           # the words of any text, joined, are the text
MOST_CHARACTERS = 10**8                  # of all tokens together


class Tokens(Tokenizer):
    """The tokens 0, 1, 2, ... are the sorted characters, then one for every merge. None is padding."""

    name = "characters"

    def __init__(self, characters: np.ndarray, merges: Any = ()):
        """Each merge is a pair of numbers of earlier tokens. Raises ValueError for others."""
        super().__init__(characters, "character")
        self.merges = np.asarray(merges, dtype=np.int64).reshape(-1, 2)
        below = len(characters) + np.arange(len(self.merges))[:, None]
        if np.any((self.merges < 0) | (self.merges >= below)):
            raise ValueError("a merge uses a token that is not defined before it")
        lengths = self._built([1] * len(characters))
        if sum(lengths) > MOST_CHARACTERS:                   # each merge may double a token
            raise ValueError(f"its tokens have more than {MOST_CHARACTERS:,} characters")
        self._rank = {pair: i for i, pair in enumerate(map(tuple, self.merges.tolist()))}
        self._known: dict[str, list[int]] = {}               # tokens of words encoded before

    def _built(self, parts: list[Any]) -> list[Any]:
        """The values of the characters, then of every merge: the sum of its two tokens' values."""
        for a, b in self.merges.tolist():
            parts.append(parts[a] + parts[b])
        return parts

    def __len__(self) -> int:
        return len(self.ids) + len(self.merges)

    @cached_property
    def strings(self) -> list[str]:
        """The text of each token."""
        return self._built(self.ids.tolist())

    @property
    def reads(self) -> str:
        return f"text of the characters {''.join(self.ids)!r}"

    def encode(self, text: str) -> np.ndarray:
        refuse_no_text(text)
        characters = np.array(list(text))
        numbers = self.numbers_or_zero(characters) - 1
        if np.any(numbers < 0):
            unknown, known = str(characters[int(np.argmax(numbers < 0))]), shortened("".join(self.ids), 200)
            raise ValueError(f"character {unknown!r} of the text is unknown: the known ones are {known!r}")
        if not self._rank:
            return numbers
        tokens: list[int] = []
        for word in WORD.findall(text):
            if word not in self._known:
                self._known[word] = self._merged((self.numbers(word) - 1).tolist())
            tokens += self._known[word]
        return np.array(tokens)

    def text(self, numbers: Any) -> str:
        return "".join(self.strings[i] for i in np.asarray(numbers).tolist())

    def arrays(self) -> dict[str, np.ndarray]:
        return {"merges": self.merges}

    @classmethod
    def restored(cls, ids: np.ndarray, arrays: Arrays) -> Self:
        return cls(ids, arrays.pop("merges"))

    def _merged(self, word: list[int]) -> list[int]:
        """A word of characters after all possible merges, the earliest merge first."""
        while len(word) > 1:
            rank, pair = min((self._rank.get(pair, len(self._rank)), pair) for pair in pairwise(word))
            if rank == len(self._rank):
                break
            word = replaced(word, pair, len(self.ids) + rank)
        return word


def replaced(word: Sequence[int], pair: tuple[int, int], new: int) -> list[int]:
    """The word with the pair replaced by `new`, from left to right."""
    tokens: list[int] = []
    i = 0
    while i < len(word):
        match = tuple(word[i : i + 2]) == pair
        tokens.append(new if match else word[i])
        i += 1 + match
    return tokens


def learned_tokens(text: str, merges: int = 0, others: Iterable[str] = ()) -> Tokens:
    """The characters of a text, and of others, and at most `merges` tokens of several characters.

    Of equally frequent pairs of adjacent tokens in `text` the one with the smaller numbers is merged; a pair that
    occurs once is not.
    """
    characters = np.array(sorted(set(text).union(*others)))
    number = {c: i for i, c in enumerate(characters.tolist())}
    counts = Counter(WORD.findall(text) if merges else ())
    words, often = [[number[c] for c in word] for word in counts], list(counts.values())
    pairs: Counter[tuple[int, int]] = Counter()
    where: dict[tuple[int, int], set[int]] = defaultdict(set)           # the words that have contained a pair
    for i, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += often[i]
            where[pair].add(i)
    made: list[tuple[int, int]] = []
    while len(made) < merges and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], -pair[0], -pair[1]))
        if pairs[best] < 2:
            break
        for i in where.pop(best):
            old, words[i] = words[i], replaced(words[i], best, len(characters) + len(made))
            for word, sign in ((old, -1), (words[i], 1)):
                for pair in pairwise(word):
                    pairs[pair] += sign * often[i]
                    where[pair].add(i)
        del pairs[best], where[best]
        made.append(best)
    return Tokens(characters, made)
