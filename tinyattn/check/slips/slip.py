"""A slip: a name, a sentence, a tutor's question, and changes of a formula's text."""

from __future__ import annotations

from typing import NamedTuple


class Slip(NamedTuple):
    """Each of `changes` is an old text, as `ast.unparse` writes it, and the new one."""

    name: str
    says: str
    hint: str
    changes: tuple[tuple[str, str], ...]


def slip(name: str, says: str, hint: str, *changes: tuple[str, str]) -> Slip:
    return Slip(name, says, hint, changes)
