"""Known slips (slips.toml): changes of a formula's text that somebody who writes it down easily makes."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ALIKE = {"fused_attention": "attention", "flash_attention": "attention"}


class Slip(NamedTuple):
    """A name, a sentence, a tutor's question, and changes: each an old text and the new one."""

    name: str
    says: str
    hint: str
    changes: tuple[tuple[str, ...], ...]


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def slips_of(kind: str) -> list[Slip]:
    """The known slips of a kind, the plainest first."""
    slips = []
    for name, row in _table().get(ALIKE.get(kind, kind), {}).items():
        if isinstance(row, str):
            row = _table()[row.partition(".")[0]][name]
        says, hint, *changes = row
        slips.append(Slip(name, says, hint, tuple(tuple(change.split(" -> ")) for change in changes)))
    return slips
