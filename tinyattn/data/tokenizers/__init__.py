"""Tokenizers, by name: how a language model reads text as token numbers, and writes numbers as text."""

from collections.abc import Collection
from pathlib import Path

from .characters import Tokens, learned_tokens
from .numbers import TokenNumbers
from .tokenizer import Tokenizer
from .tokenizer_file import TokenizerFile

# For a folder from elsewhere, the first that finds its files is used.
TOKENIZERS: dict[str, type[Tokenizer]] = {
    "characters": Tokens,
    "file": TokenizerFile,
    "numbers": TokenNumbers,
}


def tokenizer_of(folder: Path, size: int, ends: Collection[int] = ()) -> Tokenizer:
    """The tokenizer in a folder of weights, for a model of `size` tokens; `ends` end a text.

    Where the folder has none, text is token numbers. Raises DataError for an invalid file, and ImportError where
    reading it needs a package that is not installed.
    """
    read = (kind.of_folder(folder, size, ends) for kind in TOKENIZERS.values())
    return next(tokenizer for tokenizer in read if tokenizer is not None)
