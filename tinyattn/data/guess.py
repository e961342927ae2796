"""For errors: the `--columns` that probably reads a table, and columns of times that would not be read."""

import shlex
from collections.abc import Iterable, Mapping, Sequence

from ..terminal import shortened
from .dates import look_like_times
from .names import LIKE, PLAIN_NAMES, plain

Columns = Mapping[str, Sequence[str]]         # the values in the first lines, by the column's name
LONGEST = 200                                 # letters of a flag that is shown whole


def flag(spec: str) -> str:
    """`--columns` with this text, as a shell reads it."""
    return f"--columns{'=' if spec.startswith('-') else ' '}{shlex.quote(spec)}"


def named_flag(columns: Columns, read: Mapping[str, str] | None = None) -> str:
    """The `--columns` of a table with names: `read` (what -> name), then usual names, words in names, and the order."""
    chosen = dict(read or {})

    def rest() -> list[str]:
        return [name for name in columns if name not in chosen.values()]

    def choose(what: str, names: Iterable[str]) -> None:
        if what not in chosen and (name := next(iter(names), None)) is not None:
            chosen[what] = name

    for what, usual in PLAIN_NAMES.items():
        choose(what, (name for known in usual for name in rest() if plain(name) == known))
    choose("time", (name for name in rest() if has_times(name, columns[name])))
    for what in ("user", "item"):
        choose(what, (name for name in rest() if LIKE[what].search(name.lower())))
    for what in ("user", "item"):
        choose(what, [*(name for name in rest() if not has_times(name, columns[name])), "NAME"])
    return _short(",".join(f"{what}={chosen[what]}" for what in ("user", "item", "time") if what in chosen))


def template_flag(rows: Sequence[Sequence[str]], separator: str) -> str:
    """The `--columns` for a table without names: times by their values, then the user, then the item."""
    places = range(min(len(rows[0]), LONGEST + 1))  # for more columns, `_short` returns the general flag
    of_times = [look_like_times([row[place] for row in rows]) for place in places]
    time = of_times.index(True) if any(of_times) else None
    others = [place for place, times in enumerate(of_times) if not times]
    meaning = {time: "time"} | dict(zip(others, ("user", "item"), strict=False))
    words = [meaning.get(place, "-") for place in places]
    return _short({"\t": r"\t", "": " "}.get(separator, separator).join(words))


def _short(spec: str) -> str:
    """The flag, or a general one for a table of too many columns or too long names."""
    return flag(spec) if len(spec) <= LONGEST else "--columns user=NAME,item=NAME,time=NAME"


def has_times(name: str, values: Sequence[str]) -> bool:
    """Are the values times? Not those of a column whose name ends in id: ids may be as large as times."""
    return look_like_times(list(values)) and not plain(name).endswith("id")


def unread_times(columns: Columns) -> str:
    """The first column of times, "" if there is none."""
    return next((name for name, values in columns.items() if has_times(name, values)), "")


def refusal_of_unread(columns: Columns, read: Mapping[str, str]) -> str:
    """The error where no time is read and a column looks like times; "" where none does. `read`: what -> name."""
    time = unread_times({name: values for name, values in columns.items() if name not in read.values()})
    if not time:
        return ""
    reads = named_flag(columns, {**read, "time": time})
    return (
        f"column {shortened(time)} looks like times, and is not known as such: {reads} reads it, and time=- takes the "
        "file's order instead"
    )
