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
    """`noisy`: its errors vary with rounding or chance; it is recognised by the properties that fail, not by results.

    `convention`: it is a different choice, not a mistake, and the suite must accept it. `permitted`: it is accepted
    without --strict, where the check can detect it; beside another bug it is not named then.
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

    In `bugs` are, by name, [what it is, a tutor's question, a change of the right code: "old text -> new text", several
    of them joined by " && "], or "zoo.bug", a bug of another zoo whose functions these call. `also` has other ways of
    making a mistake, each with a switch of its own; `noisy`, `permitted` and `convention` name bugs that are. Of two
    bugs that change the same text the first wins.
    """
    table = tomllib.loads(Path(str(sys.modules[module].__file__)).with_suffix(".toml").read_text("utf-8"))
    bugs: list[Bug] = []
    changes: dict[str, str] = {}
    inner: dict[str, dict[str, str]] = {}  # by zoo: the switch there, by the switch here
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
    """x = f(x, y) for a ufunc, written into x itself; x that is read-only stays as it is."""
    if x.flags.writeable:
        f(x, y, out=x)


def rows(x: Any) -> Any:
    """The tokens of x, one below the other."""
    return x.reshape(-1, x.shape[-1])


def matrices(x: Any) -> Any:
    """The matrices of x, one after the other."""
    return x.reshape(-1, *x.shape[-2:])


def entry(x: Any, i: int, axes: int) -> Any:
    """Entry i of the batch, of an array with more than so many axes; any other array as it is."""
    return x[i] if x.ndim > axes and len(x) else x


def count(x: Any) -> Any:
    """The number of tokens of x, at least 1, in its dtype."""
    return x.dtype.type(max(x.size // max(x.shape[-1], 1), 1))
