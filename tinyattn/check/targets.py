"""Targets, their kinds and options: the table `[tool.tinyattn.check]` of a pyproject.toml.

[tool.tinyattn.check]
"mypkg/attention.py:attention" = "attention"
"mypkg/ops.py" = ["softmax", "layer_norm"]
"mypkg/fast.py:attention" = { as = "attention", dtype = "float32", skip = ["large_sizes"] }
seed = 3
"""

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .isolation import split
from .options import OF_TABLES, refuse_wrong_types
from .specs import get_spec, properties_of, refuse_unknown_properties

TABLE = "[tool.tinyattn.check]"


@dataclass(frozen=True)
class Target:
    """An implementation: its name in the table, its place, its kind and its options.

    `options` are arguments of `check_implementation`; `xfail` names the properties that are expected to fail.
    """

    name: str
    place: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    xfail: tuple[str, ...] = ()


def tables_of(path: Path) -> Any:
    """The table of a pyproject.toml, or None. Raises ValueError for a file that is no TOML."""
    try:
        text = path.read_text("utf-8-sig")  # Windows editors write a byte order mark
        tool = tomllib.loads(text).get("tool", {}) if "tinyattn" in text else {}
    except OSError:
        return None
    except ValueError as error:  # also for two targets of one name
        raise ValueError(f"{path} cannot be read: {error}") from None
    ours = tool.get("tinyattn") if isinstance(tool, dict) else None
    return ours.get("check") if isinstance(ours, dict) else None


def find_table(folder: Path) -> Path | None:
    """The pyproject.toml with a table in this folder, or else in the nearest folder above."""
    paths = (above / "pyproject.toml" for above in (folder, *folder.parents))
    return next((path for path in paths if tables_of(path) is not None), None)


def read_table(path: Path) -> list[Target]:
    """The targets of a pyproject.toml, one for each kind of an entry. Raises ValueError for a wrong entry."""
    table = tables_of(path)
    try:
        return _targets(table, path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {TABLE}: {error}") from None


def _targets(table: Any, folder: Path) -> list[Target]:
    if not isinstance(table, dict):
        raise ValueError(f"it is {table!r}, expected a table")
    shared = {name: value for name, value in table.items() if name in OF_TABLES}
    refuse_wrong_types(shared, "an option of all targets")
    targets = []
    for name, entry in table.items():
        if name in shared:
            continue
        entry = entry if isinstance(entry, dict) else {"as": entry}
        kinds = [entry["as"]] if isinstance(entry.get("as"), str) else entry.get("as")
        if not (isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds)):
            says = f'{name!r} has {entry["as"]!r}' if "as" in entry else f"{name!r} has no kind"
            says = f'{says}, expected its kind: "{name}" = "attention"'
            raise ValueError(f"{says}, with quotes around a name that has a dot" if "py" in entry else says)
        options = {option: value for option, value in entry.items() if option != "as"}
        refuse_wrong_types(options, f"an option of {name!r}")
        options = shared | options
        xfail = tuple(options.pop("xfail", ()))
        for kind in kinds:
            get_spec(kind, options.get("dtype"))
        refuse_unknown_properties([*options.get("skip", ()), *xfail] if entry.keys() & {"skip", "xfail"} else (), kinds)
        for kind in dict.fromkeys(kinds):
            known = {prop.name for prop in properties_of(get_spec(kind))}
            mine = options | ({"skip": [n for n in options["skip"] if n in known]} if "skip" in options else {})
            targets.append(Target(name, _place(name, folder), kind, mine, tuple(n for n in xfail if n in known)))
    every = [target.kind for target in targets]
    if not every:
        raise ValueError('it names no target, expected lines such as "mypkg/attention.py:attention" = "attention"')
    refuse_unknown_properties([*shared.get("skip", ()), *shared.get("xfail", ())], every)
    return targets


def _place(target: str, folder: Path) -> str:
    """A file's path, relative to the current folder if the table lies in or below it; a module's name unchanged."""
    place, name = split(target)
    if not place.endswith(".py"):
        return target
    path = os.path.relpath(folder / place) if folder.is_relative_to(Path.cwd()) else str(folder / place)
    return f"{path}:{name}" if name else path
