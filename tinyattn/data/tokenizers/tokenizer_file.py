"""Tokenizers that were learned elsewhere, read by the package `tokenizers`: tokenizer.json, or GPT-2's two files.

GPT-2's are vocab.json and merges.txt, byte-pair encoding of bytes (Radford et al. 2019, section 2.2).
"""

import json
import math
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...extras import optional
from ...files import Arrays
from ...terminal import shortened
from ..fields import DataError
from ..read import open_regular
from ..vocabulary import refuse_no_text
from .tokenizer import Tokenizer

FILE, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
MOST_GROWTH = 1000.0                     # every replacement of a chain may double a text
END_OF_TEXT = "<|endoftext|>"            # GPT-2's only special token


class TokenizerFile(Tokenizer):
    """The tokenizer described by `content`, of a tokenizer.json, for a model of `size` tokens.

    A model may have more tokens than its tokenizer: tables are padded. Raises ValueError where the tokenizer has more
    than the model, and for invalid content.
    """

    name = "file"

    def __init__(self, size: int, content: str, ends: Collection[int] = ()):
        super().__init__(np.arange(size), "token")
        self.ends, self._content = frozenset(ends), content
        package = _package()
        with _refusing("it describes no tokenizer"):
            self._reader = package.Tokenizer.from_str(content)
        table = json.loads(content)
        if max(growth := [_growth(table.get(part)) for part in ("normalizer", "decoder")]) > MOST_GROWTH:
            raise ValueError(f"its replacements can make a text {max(growth):,.0f} times as long")
        self._reader.no_truncation()     # some files request one length, for training
        self._reader.no_padding()
        most = max(self._reader.get_vocab().values(), default=0)
        if most >= size:
            raise ValueError(f"it has a token {most}, and the model has tokens 0 to {size - 1}")

    @classmethod
    def of_folder(cls, folder: Path, size: int, ends: Collection[int]) -> Self | None:
        whole, parts = folder / FILE, (folder / VOCABULARY, folder / MERGES)
        there = [part for part in parts if part.exists()]
        if not whole.exists() and len(there) == 1:
            missing = next(part.name for part in parts if part not in there)
            raise DataError(f"{there[0]} is there and no {missing}: the tokenizer needs both files")
        if not whole.exists() and not there:
            return None
        path = whole if whole.exists() else folder / VOCABULARY
        try:
            return cls(size, _text(whole) if whole.exists() else _of_gpt_2(*parts), ends)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from None

    @property
    def reads(self) -> str:
        return "text, for the tokenizer that came with the weights"

    def encode(self, text: str) -> np.ndarray:
        """The first tokens are those that the tokenizer adds before every text; LLaMA's adds one."""
        refuse_no_text(text)
        with _refusing(f"{FILE} cannot read the text {shortened(repr(text))}"):
            ids = self._reader.encode(text).ids
        if not ids:
            raise ValueError(f"the tokenizer has no token for the text {shortened(text)!r}")
        return np.array(ids)

    def text(self, numbers: Any) -> str:
        return self._reader.decode(np.asarray(numbers).tolist())

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {FILE: np.frombuffer(self._content.encode(), dtype=np.uint8)}

    @classmethod
    def restored(cls, ids: np.ndarray, arrays: Arrays) -> Self:
        return cls(len(ids), arrays.pop(FILE).tobytes().decode(), arrays.pop("ends").tolist())


def _of_gpt_2(vocabulary: Path, merges: Path) -> str:
    """The two files as a tokenizer.json. Raises ValueError for invalid files."""
    package = _package()
    for path in (vocabulary, merges):
        open_regular(path).close()       # the package would wait for a pipe
    with _refusing(f"with {merges.name} it is no byte-pair encoding"):
        reader = package.Tokenizer(package.models.BPE.from_file(str(vocabulary), str(merges)))
    reader.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    reader.decoder = package.decoders.ByteLevel()
    if reader.token_to_id(END_OF_TEXT) is not None:
        reader.add_special_tokens([END_OF_TEXT])
    return reader.to_str()


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Raise ValueError for any error of the package. Its panics are BaseExceptions that print to standard error."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(f"{what}: {error}") from None
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _growth(step: Any) -> float:
    """How many times as long a normaliser or decoder of a tokenizer.json can make a text, by its replacements."""
    if not isinstance(step, dict):
        return 1.0
    steps = step.get("normalizers") or step.get("decoders") or ()
    pattern, content = step.get("pattern"), step.get("content", "")
    shortest = len(pattern.get("String") or " ") if isinstance(pattern, dict) else 1       # a regular expression: 1
    return max(1.0, len(content) / shortest) * math.prod(map(_growth, steps))


def _text(path: Path) -> str:
    with open_regular(path) as file:
        return file.read().decode()


def _package() -> Any:
    return optional("tokenizers", "this tokenizer needs the package tokenizers", "export")
