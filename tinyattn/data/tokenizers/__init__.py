"""Tokenizers, by name: how a language model reads text as token numbers, and writes numbers as text."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from .characters import Tokens, learned_tokens
from .numbers import TokenNumbers
from .tokenizer import Tokenizer
from .tokenizer_file import TokenizerFile

# Of a folder from elsewhere, the first is taken that finds its files there.
TOKENIZERS: dict[str, type[Tokenizer]] = {
    "characters": Tokens,
    "file": TokenizerFile,
    "numbers": TokenNumbers,
}


def tokenizer_of(folder: Path, size: int, ends: Collection[int] = ()) -> Tokenizer:
    """The tokenizer that a folder of weights comes with, of a model of `size` tokens; `ends` end a text.

    Where the folder has none, text is written as token numbers. Raises DataError for a file that cannot be used, and
    ImportError where reading it needs a package that is not installed.
    """
    return next(found for kind in TOKENIZERS.values() if (found := kind.of_folder(folder, size, ends)) is not None)


__all__ = ["TOKENIZERS", "TokenNumbers", "Tokenizer", "TokenizerFile", "Tokens", "learned_tokens", "tokenizer_of"]
