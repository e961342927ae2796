"""Small files beside the interactions: item names, and lists of ids."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..terminal import quoted, shortened
from .fields import DataError, naming
from .names import PLAIN_NAMES, plain
from .read import whole

_SEPARATORS = ("::", "\t", "|", ";", ",")      # the first of these in line 1; only the last two allow quotes


class ItemNames:
    """Names of the items by id; ids are compared as text, so 7 and "7" are one item."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self._names = names or {}

    def of(self, item: Any) -> str:
        """The item's name, or "" where it has none."""
        return self._names.get(str(item), "")

    def label(self, item: Any) -> str:
        """The id, and the name if there is one."""
        return f"{quoted(item)} {self.of(item)}".rstrip()

    def short(self, item: Any) -> str:
        """For pictures: the name, cut to 20 characters, or else the id."""
        name = self.of(item)
        return (name if len(name) <= 20 else name[:19] + "…") or str(item)

    def unknown(self, items: Iterable[Any]) -> int:
        """The number of named ids that are not among `items`."""
        return len(self._names.keys() - set(map(str, items)))

    def __len__(self) -> int:
        return len(self._names)


def read_names(path: str | Path) -> ItemNames:
    """The names in a table whose first two columns are an item's id and its name; other columns are ignored.

    The separator is the first of `::` (MovieLens' movies.dat), a TAB, `|`, `;` and a comma that line 1 contains. With
    `;` or a comma, fields may be in quotes, as in CSV. A first line whose id is a usual name of an item column
    (`names.ITEM_NAMES`) is a header. Text that is not UTF-8 is read as latin-1, MovieLens' encoding.
    Raises DataError, naming file and line, for a missing or empty file, a line of one column, and an id with two names.
    """
    with naming(Path(path)):
        lines = _lines(path)
        if (separator := next((s for s in _SEPARATORS if s in lines[0]), None)) is None:
            raise DataError("line 1 has no second column: expected an item's id and its name, such as 7<TAB>Seven")
        names: dict[str, str] = {}
        for number, line in enumerate(lines, start=1):
            item, name = _two_fields(line, number, separator) if line.strip() else ("", "")
            header = number == 1 and plain(item) in PLAIN_NAMES["item"]
            if item and not header and names.setdefault(item, name) != name:
                raise DataError(f"line {number}: item {item} is {name!r}, and was {names[item]!r} before")
    return ItemNames(names)


def _two_fields(line: str, number: int, separator: str) -> tuple[str, str]:
    """The first two fields of a line. Raises DataError for fewer."""
    try:
        fields = next(csv.reader([line], delimiter=separator)) if separator in ";," else line.split(separator)
    except csv.Error as error:
        raise DataError(f"line {number} is no line of CSV: {error}") from None
    if len(fields) < 2:
        raise DataError(f"line {number} is {shortened(line)!r}: expected an id and a name, separated by {separator!r}")
    return fields[0].strip(), fields[1].strip()


def read_ids(path: str | Path, distinct: bool = True) -> list[str]:
    """The ids in a file, one a line, without blank lines, and once each if `distinct`. Raises DataError without ids."""
    with naming(Path(path)):
        ids = [line.strip(" \t") for line in _lines(path) if line.strip()]
        ids = list(dict.fromkeys(ids)) if distinct else ids
        if not ids:
            raise DataError("no ids, expected one a line")
    return ids


def _lines(path: str | Path) -> list[str]:
    """The lines of a file, gzipped or not."""
    content = whole(Path(path))
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")     # splitlines would cut at other characters, too
