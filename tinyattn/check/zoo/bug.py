"""A bug: a name, a sentence that describes it, a tutor's question, and how it changes right code."""

import functools
import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Bug:
    """A known bug of a kind.

    noisy         its errors vary with rounding or chance, so the properties that fail recognise it, not the results
    convention    a different choice, not a mistake: the check must accept it
    permitted     accepted without --strict if the check detects it, and then not named beside another bug
    """

    name: str
    says: str
    hint: str
    noisy: bool = False
    convention: bool = False
    permitted: bool = False
    also: tuple[str, ...] = ()  # switches for other ways of making the same mistake


def planted(module: str, **attributes: Any) -> tuple[list[Bug], Callable[..., Any]]:
    """The bugs in the TOML file beside a module, and `make(switches)`: the module's functions, with these bugs.

    The table `bugs` maps a name to [what it is, a tutor's question, changes of the right code], or to "zoo.bug", a bug
    of another zoo whose functions these call. A change is "old text -> new text", and several are joined by " && ".
    `also` has other ways of making the same mistake, each with a separate switch. `noisy`, `permitted` and `convention`
    are lists of names. If two bugs change the same text, only the first has an effect.
    """
    table = tomllib.loads(Path(str(sys.modules[module].__file__)).with_suffix(".toml").read_text("utf-8"))
    bugs: list[Bug] = []
    changes: dict[str, str] = {}
    inner: dict[str, dict[str, str]] = {}  # {zoo: {a switch of this module: the switch in that zoo}}
    for name, row in table["bugs"].items():
        more = table.get("also", {}).get(name, {})
        for switch, text in ({name: row if isinstance(row, str) else row[2]} | more).items():
            if " -> " in text:
                changes[switch] = text
            else:
                zoo, _, there = text.partition(".")
                inner.setdefault(zoo, {})[switch] = there
        if isinstance(row, str):
            zoo, _, there = row.partition(".")
            bugs.append(replace(next(bug for bug in _zoo(zoo).BUGS if bug.name == there), name=name, also=tuple(more)))
        else:
            marks: dict[str, Any] = {mark: name in table.get(mark, ()) for mark in ("noisy", "permitted", "convention")}
            bugs.append(Bug(name, row[0], row[1], also=tuple(more), **marks))

    @functools.cache
    def make(switches: frozenset[str] = frozenset()) -> Any:
        space = dict(vars(sys.modules[module]))
        functions = [f for f in space.values() if inspect.isfunction(f) and f.__module__ == module]
        source = "\n".join(map(inspect.getsource, functions))
        for change in (text for name, text in changes.items() if name in switches):
            for old, new in (part.split(" -> ") for part in change.split(" && ")):
                source = source.replace(old, new)
        for zoo, names in inner.items():
            space |= vars(_zoo(zoo).make(frozenset(names[name] for name in names.keys() & switches)))
        exec(compile(source, f"<{module} with {', '.join(sorted(switches)) or 'no bugs'}>", "exec"), space)
        public = {f.__name__: space[f.__name__] for f in functions if f.__name__[0] != "_"}
        return SimpleNamespace(**attributes, **public)

    make.changes = changes  # type: ignore[attr-defined]
    return bugs, make


def _zoo(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


def in_place(f: Callable[..., Any], x: Any, y: Any) -> None:
    """x = f(x, y) for a ufunc, in place; a read-only x stays as it is."""
    if x.flags.writeable:
        f(x, y, out=x)


def rows(x: Any) -> Any:
    """The tokens of x, one below the other."""
    return x.reshape(-1, x.shape[-1])


def matrices(x: Any) -> Any:
    """The matrices of x, one after the other."""
    return x.reshape(-1, *x.shape[-2:])


def entry(x: Any, i: int, axes: int) -> Any:
    """Entry i of the batch, if x has more than `axes` axes; else x."""
    return x[i] if x.ndim > axes and len(x) else x


def count(x: Any) -> Any:
    """The number of tokens of x, at least 1, in its dtype."""
    return x.dtype.type(max(x.size // max(x.shape[-1], 1), 1))
