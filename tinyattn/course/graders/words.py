"""How a grade speaks: what was expected and got in lines, and messages of the check in the reader's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...check.diagnosis import differing
from ...check.trial import show_case

MANY = 60               # numbers of an array that are not shown: its shape is, and the first one that is wrong
_HERE = str(Path(__file__).parent)
# What follows the library's name where it stands for the function: softmax, attention and others are also words.
_SUBJECT = r"(?= (raise[sd]|return(s|ed)|leaves|does not|computes|is right|makes|has|takes|asks|give)\b)"


def compared(name: str, x: Any, got: dict[str, Any]) -> Iterator[str]:
    """What is expected and what was got, in lines, with as many digits as it takes to see that they differ."""
    for digits in (6, 9, 17):
        expected = in_lines({name: x}, digits)
        there = in_lines({name: got[name]}, digits) if name in got else [f"no {name}"]
        if expected != there:
            for what, lines in (("expected", expected), ("got", there)):
                yield from (f"{what if i == 0 else '':10}{line}" for i, line in enumerate(lines))
            return
    x, y = np.asarray(x), np.asarray(got[name])
    wrong = np.argwhere(differing(x, y)) if x.shape == y.shape else ()
    yield from expected
    for at in map(tuple, wrong[:1]):
        digits = 6 if _told(x[at], 6) != _told(y[at], 6) else 17
        yield f"{name}[{', '.join(map(str, at))}]: expected {_told(x[at], digits)}, got {_told(y[at], digits)}"


def in_lines(case: dict[str, Any], digits: int = 6) -> list[str]:
    """Arguments or results; of arrays of many numbers the dtype and shape."""
    many = {name for name, x in case.items() if isinstance(x, np.ndarray) and x.size > MANY}
    lines = []
    for name, x in case.items():
        lines += [f"{name}: {x.dtype} {x.shape}"] if name in many else show_case({name: _plain(x)}, digits).splitlines()
    return lines


def _told(x: np.generic, digits: int) -> str:
    """One number."""
    return f"{x:.{digits}g}" if x.dtype.kind == "f" else str(x)


def _plain(x: Any) -> Any:
    """Numbers without their NumPy types, in lists too; an array as it is."""
    if isinstance(x, list | tuple):
        return type(x)(map(_plain, x)) if type(x) in (list, tuple) else x
    return x.item() if isinstance(x, np.generic | np.ndarray) and np.ndim(x) == 0 else x


def in_words_of(answer: Callable[..., Any], function: str, message: str) -> str:
    """A message of the check with the answer's own name, or "it", where the library's stands; no lines of graders."""
    own, f = getattr(answer, "__name__", ""), re.escape(function)
    own, quoted = (own, f"`{own}`") if own.isidentifier() else ("it", "it")
    message = re.sub(rf" \(line \d+ of {re.escape(_HERE)}[^)]*\)", "", message)
    message = re.sub(rf"`{f}(_backward)?`", quoted, message)
    message = re.sub(rf"\bthe backward of {f}\b|\b{f}_backward\b", own, message)
    message = re.sub(rf"\bthe gradients of {f}\b", "the gradients", message)
    message = message if own == "it" else re.sub(rf"\b{f}(?=\()", own, message)
    return re.sub(rf"\b{f}\b" + (r"(?!\()" if "_" in function else _SUBJECT), own, message)


def begun(says: str, names: set[str]) -> str:
    """With a capital, unless it begins with a name of the code."""
    word = says.split()[0]
    a_name = not (word.isascii() and word.isalpha()) or (word in names and len(word) < 5) or word[1:] in names
    return says if a_name else says[0].upper() + says[1:]
