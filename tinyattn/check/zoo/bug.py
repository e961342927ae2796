"""A bug: a name, what is wrong in a sentence, and the question that a tutor would ask."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """`noisy` where its numbers are rounding or chance, so that it can be told by what fails, not by what comes out.

    A `convention` is another choice and no mistake: the suite must let it pass.
    """

    name: str
    says: str
    hint: str
    noisy: bool = False
    convention: bool = False
    also: tuple[str, ...] = ()           # other switches that are the same mistake, written in another way
