"""Interactions as lines of JSON."""

import ast
import json
from collections.abc import Iterable
from typing import Any

from ..terminal import shortened
from .fields import LONGEST_FIELD, Column, DataError
from .guess import named_flag
from .names import PLAIN_NAMES, USUAL_NAMES, plain

LONGEST_LITERAL = 1 << 16             # characters of a line that ast may parse: its tree takes 500 times their memory


class JsonLines:
    """One object a line, JSON or, in old dumps, a Python literal: `ast.literal_eval`, never `eval`.

    Ids are strings or integers; a number may also be a string. `names` maps user, item, time and rating to unusual
    names. Without a time in the first line, the file's order is the order in time.
    """

    def __init__(self, head: list[str], names: dict[str, str] | None = None) -> None:
        self.names = USUAL_NAMES | {what: (name,) for what, name in (names or {}).items()}
        self.first = _object(head[0], 1) if head[0].rstrip().endswith("}") else {}
        there = set(map(plain, map(str, self.first)))
        unnamed = there and "time" not in (names or {}) and not there & set(PLAIN_NAMES["time"])
        self.names = {what: usual for what, usual in self.names.items() if usual != ("-",)}
        if unnamed:
            del self.names["time"]

    header = ""

    def columns_read(self) -> str:
        return "user, item, time" if "time" in self.names else "user, item; no times: the file's order is taken"

    def wanted(self, ratings: bool = False, label: str | None = None) -> dict[str, tuple[str, ...]]:
        names = {what: usual for what, usual in self.names.items() if ratings or what != "rating"}
        return names | ({} if label is None else {"label": (label,)})

    def fill(self, chunks: Iterable[bytes], names: dict[str, tuple[str, ...]], read: dict[str, Column]) -> None:
        line = 1
        for chunk in chunks:
            rows = [_object(text, number) for number, text in enumerate(chunk.decode().split("\n")[:-1], start=line)]
            lines = range(line, line + len(rows))
            for name, column in read.items():
                values = [_pick(row, names[name], column, n) for n, row in zip(lines, rows, strict=True)]
                column.add_strings(values, lines)
            line += len(rows)


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        try:
            if len(line) > LONGEST_LITERAL:
                raise ValueError
            row = ast.literal_eval(line)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            expected = f"neither JSON nor a Python literal of at most {LONGEST_LITERAL:,} characters"
            raise DataError(f"line {number} is {expected}") from None
    if not isinstance(row, dict):
        raise DataError(f"line {number} is no object")
    return row


def _pick(row: dict[str, Any], names: tuple[str, ...], column: Column, line: int) -> str:
    """The row's value of a column, as text. Raises DataError where it is missing, or of another type."""
    there = {plain(str(key)): (key, value) for key, value in row.items()}
    name = next((name for name in names if plain(name) in there), None)
    if name is None and column.optional:
        return ""
    if name is None:
        guess = named_flag({str(key): [str(value)] for key, value in row.items() if isinstance(value, str | int)})
        remedy = f"; if these are right, add {guess}" if len(names) > 1 else ""
        raise DataError(f"line {line}: no {names[0]} in {shortened(', '.join(map(str, row)))}{remedy}")
    name, value = there[plain(name)]
    if column.optional and isinstance(value, bool | float | None):
        return "" if value is None else str(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float) if column.number else (str, int)):
        shown = str(value) if value is None or isinstance(value, bool | float) else f"a {type(value).__name__}"
        expected = "a number" if column.number else "a string or an integer"
        raise DataError(f"line {line}: {name} is {shown}, expected {expected}")
    if isinstance(value, int) and value.bit_length() > 8 * LONGEST_FIELD:
        raise DataError(f"line {line}: {name} is an integer of more than {LONGEST_FIELD} bytes")
    return str(value)
