"""A bug: a name, a sentence that describes it, a tutor's question, and how it changes right code."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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


Planted = tuple[Bug, dict[str, str]]  # a bug, and by switch what it changes


def bug(name: str, says: str, hint: str, change: str = "", also: Mapping[str, str] | None = None, **more: Any) -> Planted:
    """A bug, made by a `change` of the right code: "old text -> new text", several of them joined by " && "."""
    return Bug(name, says, hint, also=tuple(also or ()), **more), {name: change, **(also or {})}


def planted(
    module: str, table: Iterable[Planted], *inner: tuple[Any, Mapping[str, str]], **attributes: Any
) -> tuple[list[Bug], Callable[..., Any]]:
    """The bugs of a module's functions, and `make(switches)`, which makes the functions with these bugs.

    `inner` has zoos whose functions these call, and by switch the switch there. Of two bugs that change the same text
    the first wins.
    """
    bugs, changes = [known for known, _ in table], {name: text for _, ways in table for name, text in ways.items()}

    @functools.cache
    def make(switches: frozenset[str] = frozenset()) -> Any:
        space = dict(vars(sys.modules[module]))
        functions = [f for f in space.values() if inspect.isfunction(f) and f.__module__ == module]
        source = "\n".join(map(inspect.getsource, functions))
        for change in (text for name, text in changes.items() if name in switches and text):
            for old, new in (part.split(" -> ") for part in change.split(" && ")):
                source = source.replace(old, new)
        for zoo, names in inner:
            space |= vars(zoo.make(frozenset(names[name] for name in names.keys() & switches)))
        exec(compile(source, f"<{module} with {', '.join(sorted(switches)) or 'no bugs'}>", "exec"), space)
        return SimpleNamespace(**attributes, **{f.__name__: space[f.__name__] for f in functions if f.__name__[0] != "_"})

    make.changes = changes  # type: ignore[attr-defined]
    return bugs, make


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
