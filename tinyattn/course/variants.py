"""Numbers and planted bugs that differ from student to student, drawn by a seed.

The chapter's TOML file lists the values of names. The first of each list is the chapter's own:

    [score_std.varies]
    d = [256, 144, 400]
    shown = ["have $d = {d}$ entries each", "score_std = {math.isqrt(d)}"]

Each text in `shown` occurs once in the chapter, with the chapter's own values. In `shown` and in the exercise's other
strings, `{...}` is an expression in these names, as in an f-string. If an expression is the whole string, the result is
its value and not a string.
"""

import csv
import hashlib
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

SHOWN = "shown"
MOST = 10**18                # seeds are smaller; a matriculation number can be a seed


def as_seed(text: Any) -> int:
    """A seed. Raises ValueError for anything but a whole number from 0 to MOST - 1."""
    digits = str(text).strip() if isinstance(text, str | int) and not isinstance(text, bool) else ""
    if not re.fullmatch(r"[0-9]{1,40}", digits) or int(digits) >= MOST:
        raise ValueError(f"the seed is {str(text)[:40]!r}, expected a whole number from 0 to {MOST - 1:,}")
    return int(digits)


def drawn(lists: dict[str, list[Any]], exercise: str, seed: int | None) -> dict[str, Any]:
    """One value of each list: the first without a seed, else chosen by a hash of seed, exercise and name."""
    made = {}
    for name, values in lists.items():
        if name != SHOWN:
            number = hashlib.sha256(f"{seed} {exercise} {name}".encode()).digest()
            made[name] = values[0 if seed is None else int.from_bytes(number) % len(values)]
    return made


def filled(x: Any, values: dict[str, Any]) -> Any:
    """x with the expressions in its strings replaced by their values. x is a string, or a list or table of strings."""
    if isinstance(x, dict):
        return {key: filled(y, values) for key, y in x.items()}
    if isinstance(x, list):
        return [filled(y, values) for y in x]
    if not isinstance(x, str):
        return x
    known = {"math": math, **values}
    alone = re.fullmatch(r"\{([^{}]+)\}", x)
    return eval(alone[1] if alone else f"f{x!r}", known)


def class_list(path: Path) -> dict[str, int]:
    """The seed of each person, from a file with rows NAME,SEED. The first row may be the heading "name,seed".

    Raises ValueError, with the row, for a name that a folder cannot have, a repeated name, and an invalid seed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8, which spreadsheets call CSV UTF-8") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}, expected rows NAME,SEED") from None
    people: dict[str, int] = {}
    rows = [(number, [cell.strip() for cell in row]) for number, row in enumerate(csv.reader(text.splitlines()), 1)]
    for number, row in rows:
        if not any(row) or (number == 1 and [cell.lower() for cell in row] == ["name", "seed"]):
            continue
        try:
            if len(row) != 2:
                cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                raise ValueError(f"{cells}, expected NAME,SEED, with a comma")
            name, seed = unicodedata.normalize("NFC", row[0]), as_seed(row[1])
            if name in people:
                raise ValueError(f"{name!r} is there already")
            if not name.isprintable() or re.search(r"^\.|^$|[/\\:]", name):
                raise ValueError(f"{name!r} cannot be the name of a folder")
        except ValueError as error:
            heading = "" if number > 1 or re.search(r"\d", "".join(row)) else "; a heading is name,seed"
            raise ValueError(f"{path}, row {number}: {error}{heading}") from None
        people[name] = seed
    if not people:
        raise ValueError(f"{path} names nobody, expected rows NAME,SEED")
    return people
