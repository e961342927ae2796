"""A bug: a name, a sentence that describes it, and a tutor's question."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """`noisy`: its errors vary with rounding or chance; it is recognised by the properties that fail, not by results.

    `convention`: it is a different choice, not a mistake, and the suite must accept it.
    """

    name: str
    says: str
    hint: str
    noisy: bool = False
    convention: bool = False
    also: tuple[str, ...] = ()           # switches for other ways of making the same mistake
