"""A bug: a name, a sentence that describes it, and a tutor's question."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bug:
    """`noisy`: its errors vary with rounding or chance; it is recognised by the properties that fail, not by results.

    `convention`: it is a different choice, not a mistake, and the suite must accept it. `permitted`: it is accepted
    without --strict, where the check can detect it; beside another bug it is not named then.
    """

    name: str
    says: str
    hint: str
    noisy: bool = False
    convention: bool = False
    permitted: bool = False
    also: tuple[str, ...] = ()           # switches for other ways of making the same mistake


def in_place(f: Callable[..., Any], x: Any, y: Any, when: bool) -> None:
    """x = f(x, y) for a ufunc, written into x itself, `when` a bug does so; x that is read-only stays as it is."""
    if when and x.flags.writeable:
        f(x, y, out=x)
