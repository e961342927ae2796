"""The texts of a chapter's exercises: notebooks/exercises/NN.toml, beside the chapters.

The file has a table for each exercise, in the chapter's order, with all fields of `Exercise` except name, grader and
seed. Its subtables, such as [my_softmax.mistakes], have a list of strings for each function of the grader. If the
answer is a number, each list begins with a wrong number. If the function is a right one with a change, the list begins
with the change, "old text -> new text". A table [mistakes] at the end is shared by several exercises. A table
[NAME.varies] lists the values that differ from student to student (see variants.py).
"""

import tomllib
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from .exercise import Exercise
from .graders import Number
from .plain import changed
from .variants import SHOWN, drawn, filled

SHARED = "mistakes"
TABLES = {"tempting": "mistakes", "right": "right", "wrong": "wrong"}     # field of a grader -> its subtable
FIELDS = {field.name for field in fields(Exercise)} - {"name", "grader", "seed"}


def folder() -> Path:
    """The folder of the chapters' sources: beside this file in an installed package, notebooks/ in a checkout."""
    installed = Path(__file__).parent / "chapters"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "notebooks"


class Prose:
    """The TOML file of one chapter: `attach` adds its strings to functions, `exercises` makes exercises from graders.

    By the exercise's name: `varies` are the tables [NAME.varies], `values` the values that `seed` draws, `shown` the
    chapter's texts with these values. Raises ValueError, with the line, if the file is not valid TOML.
    """

    def __init__(self, chapter: int, seed: int | None = None):
        self.seed = seed
        self.path = folder() / "exercises" / f"{chapter:02}.toml"
        try:
            parts = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{self.path}: {error}") from error
        self.strings: dict[str, dict[str, Any]] = {SHARED: parts.pop(SHARED, {})}
        self.about: dict[str, dict[str, Any]] = {}
        self.varies = {name: part.pop("varies") for name, part in parts.items() if "varies" in part}
        self.values = {name: drawn(lists, name, seed) for name, lists in self.varies.items()}
        self.shown: dict[str, list[str]] = {}
        for name, part in parts.items():
            if name in self.varies:
                part, self.shown[name] = filled([part, self.varies[name][SHOWN]], self.values[name])
            self.strings |= {f"{name}.{key}": value for key, value in part.items() if isinstance(value, dict)}
            self.about[name] = {key: value for key, value in part.items() if not isinstance(value, dict)}
        self.used: set[tuple[str, str]] = set()

    def attach(self, table: str, right: Any = None, /, **functions: Any) -> tuple[tuple[Any, ...], ...]:
        """(function, *its strings) for each of the functions, in their order; `table` is a header of the file.

        With `right`, lists that begin with a change are included: their function is `right` with that change, and the
        order is the file's. Raises ValueError if the table has no list of strings for a function, or if a change's old
        text is not in the code.
        """
        strings = self.strings.get(table, {})
        if right is not None:
            strings, functions = self._changes(table, strings, right, functions)
        for key in functions:
            if key not in strings:
                raise ValueError(f"{self.path}: [{table}] has no {key}, but the chapter has a function of that name")
            if not isinstance(strings[key], list) or not all(isinstance(text, str) for text in strings[key]):
                raise ValueError(f"{self.path}: [{table}] {key} is {strings[key]!r}, expected a list of strings")
        self.used |= {(table, key) for key in functions}
        return tuple((function, *strings[key]) for key, function in functions.items())

    def _changes(
        self, table: str, strings: dict[str, Any], right: Any, functions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """-> the table's lists without their changes; its functions, which are `functions` and `right` with changes."""
        left, made = dict(strings), dict[str, Any]()
        for name, row in strings.items():
            if name in functions:
                made[name] = functions[name]
            elif isinstance(row, list) and " -> " in str(row[:1]):
                try:
                    made[name], left[name] = changed(right, row[0]), row[1:]
                except (ValueError, SyntaxError) as error:
                    raise ValueError(f"{self.path}: [{table}] {name}: {error}") from None
        return left, made | functions

    def _numbers(self, table: str) -> tuple[tuple[Any, ...], ...]:
        """(wrong number, *its strings) for each entry of a table. Raises ValueError for any other list."""
        lists = self.strings.get(table, {})
        for key, value in lists.items():
            if not isinstance(value, list) or [isinstance(x, str) for x in value[:2]] != [False, True]:
                raise ValueError(f"{self.path}: [{table}] {key} is {value!r}, expected a number and strings")
        self.used |= {(table, key) for key in lists}
        return tuple(map(tuple, lists.values()))

    def exercises(self, /, **graders: Any) -> tuple[Exercise, ...]:
        """The exercises in the file's order, each with the grader of its name.

        The functions of a grader may be a dict, such as `Changes`. Their strings are then in [NAME.mistakes],
        [NAME.right] or [NAME.wrong]. Raises ValueError if an exercise has no grader or a grader no exercise, if the
        fields of an exercise are not those of `Exercise`, or if strings have no function in the chapter.
        """
        for name, grader in graders.items():
            if isinstance(grader, Number):
                graders[name] = self._number(name, grader)
            for field, table in TABLES.items():
                if isinstance(functions := getattr(grader, field, ()), dict):
                    listed = self.attach(f"{name}.{table}", getattr(functions, "right", None), **functions)
                    graders[name] = replace(graders[name], **{field: listed})
        wrong = [f"[{name}] has no grader in the chapter" for name in self.about.keys() - graders.keys()]
        wrong += [f"the chapter's grader of {name} has no [{name}]" for name in graders.keys() - self.about.keys()]
        for name, about in self.about.items():
            wrong += [f"[{name}] has no {key}" for key in FIELDS - about.keys()]
            wrong += [f"[{name}] has {key}, which no exercise has" for key in about.keys() - FIELDS]
        for table, strings in self.strings.items():
            unused = [key for key in strings if (table, key) not in self.used]
            wrong += [f"[{table}] has {key}, but the chapter has no function of that name" for key in unused]
        if wrong:
            raise ValueError(f"{self.path}: {'; '.join(sorted(wrong))}")
        return tuple(Exercise(name=name, grader=graders[name], **self._about(name)) for name in self.about)

    def varied(self, exercise: Exercise) -> Exercise:
        """The exercise with the strings and values that this file's seed draws."""
        name, grader = exercise.name, exercise.grader
        if isinstance(grader, Number):
            grader = self._number(name, replace(grader, compute=grader.compute.func))     # type: ignore[attr-defined]
        return replace(exercise, grader=grader, seed=self.seed, **self._about(name))

    def _about(self, name: str) -> dict[str, Any]:
        return self.about[name] | {"hints": tuple(self.about[name]["hints"])}

    def _number(self, name: str, grader: Number) -> Number:
        """The grader, with wrong numbers from the exercise's table, and with the values that vary."""
        compute = partial(grader.compute, **self.values[name]) if name in self.values else grader.compute
        return replace(grader, compute=compute, tempting=self._numbers(f"{name}.mistakes"))
