"""The lines of a grade: expected and actual results, and messages of `tinyattn.check` with the reader's names."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...check.comparing import differing
from ...check.trial import show_case

MANY = 60               # larger arrays are shown by their shape and their first wrong entry
_HERE = str(Path(__file__).parent)
# `softmax` and `attention` are common nouns, too. Before one of these verbs they are the function's name.
_SUBJECT = r"(?= (raise[sd]|return(s|ed)|leaves|does not|computes|is right|makes|has|takes|asks|give)\b)"


def compared(name: str, x: Any, got: dict[str, Any]) -> Iterator[str]:
    """Lines with the expected and the actual result, with enough digits to show that they differ."""
    for digits in (6, 9, 17):
        expected = in_lines({name: x}, digits)
        actual = in_lines({name: got[name]}, digits) if name in got else [f"no {name}"]
        if expected != actual:
            for what, lines in (("expected", expected), ("got", actual)):
                yield from (f"{what if i == 0 else '':10}{line}" for i, line in enumerate(lines))
            return
    x, y = np.asarray(x), np.asarray(got[name])
    wrong = np.argwhere(differing(x, y)) if x.shape == y.shape else ()
    yield from expected
    for at in map(tuple, wrong[:1]):
        digits = 6 if _digits(x[at], 6) != _digits(y[at], 6) else 17
        yield f"{name}[{', '.join(map(str, at))}]: expected {_digits(x[at], digits)}, got {_digits(y[at], digits)}"


def in_lines(case: dict[str, Any], digits: int = 6) -> list[str]:
    """Lines that show arguments or results; of a large array, only dtype and shape."""
    many = {name for name, x in case.items() if isinstance(x, np.ndarray) and x.size > MANY}
    lines = []
    for name, x in case.items():
        lines += [f"{name}: {x.dtype} {x.shape}"] if name in many else show_case({name: _plain(x)}, digits).splitlines()
    return lines


def _digits(x: np.generic, digits: int) -> str:
    return f"{x:.{digits}g}" if x.dtype.kind == "f" else str(x)


def _plain(x: Any) -> Any:
    """x with NumPy's numbers as Python's, also in lists and tuples; an array stays unchanged."""
    if isinstance(x, list | tuple):
        return type(x)(map(_plain, x)) if type(x) in (list, tuple) else x
    return x.item() if isinstance(x, np.generic | np.ndarray) and np.ndim(x) == 0 else x


def in_words_of(answer: Callable[..., Any], function: str, message: str) -> str:
    """A message of the check, with the answer's name or "it" for the library's, and without lines of the graders."""
    name, f = getattr(answer, "__name__", ""), re.escape(function)
    name, quoted = (name, f"`{name}`") if name.isidentifier() else ("it", "it")
    message = re.sub(rf" \(line \d+ of {re.escape(_HERE)}[^)]*\)", "", message)
    message = re.sub(rf"`{f}(_backward)?`", quoted, message)
    message = re.sub(rf"\bthe backward of {f}\b|\b{f}_backward\b", name, message)
    message = re.sub(rf"\bthe gradients of {f}\b", "the gradients", message)
    message = message if name == "it" else re.sub(rf"\b{f}(?=\()", name, message)
    return re.sub(rf"\b{f}\b" + (r"(?!\()" if "_" in function else _SUBJECT), name, message)
