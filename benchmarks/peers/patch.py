"""Replace a name of the library everywhere, and fail where the replacement changes nothing.

Layers and models import ops by name, so replacing an op in its own module leaves the original in a dozen others.
`Patch` replaces it in all of them. It raises LookupError if a name does not exist or a constant would not change;
`refuse_unused` raises it for a replacement that was never called.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from tinyattn.forms import FASTER

REACH = ("tinyattn", "benchmarks.peers.ours")


class Patch:
    """A context manager that restores all names on exit. `workers`: number of worker processes to measure with."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        for place in FASTER.values():                    # imported now, because a later import would not be patched
            importlib.import_module(f"tinyattn.{place.rpartition('.')[0]}")
        self.called: dict[str, int] = {}
        self._undo: list[tuple[Callable[..., None], Any, Any, Any]] = []
        self._counted: list[tuple[Callable[..., Any], Callable[..., Any]]] = []

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *exception: object) -> None:
        for put, where, name, old in reversed(self._undo):
            put(where, name, old)
        self._undo = []

    def put(self, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        """Replace `name`, e.g. "ops.embedding.sum_rows", by `make(original)`."""
        self.put_all({name: make})

    def put_all(self, makers: dict[str, Callable[[Any], Callable[..., Any]]]) -> None:
        """`put` for several names, with a single search of the modules."""
        of_modules = []
        for name, make in makers.items():
            owner, last = _owner(name)
            original = inspect.getattr_static(owner, last)
            static = isinstance(original, staticmethod)
            new = make(original.__func__ if static else original)
            counted = self._counting(name, new)
            self._counted.append((counted, new))
            if inspect.isclass(owner):
                self._set(owner, last, staticmethod(counted) if static else counted)
            else:
                of_modules.append((original, counted))
        self._everywhere(of_modules)

    def _counting(self, name: str, new: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(new)
        def counted(*args: Any, **how: Any) -> Any:
            self.called[name] += 1
            return new(*args, **how)

        self.called[name] = 0
        return counted

    def constant(self, name: str, value: Any, read_by: str) -> None:
        """Change the constant `name`, which the function `read_by` of the same module reads at every call."""
        owner, last = _owner(name)
        reader = getattr(owner, read_by, None)
        if reader is None or last not in reader.__code__.co_names:
            raise LookupError(f"{read_by} does not read {name}: what would change?")
        if getattr(owner, last) == value:
            raise LookupError(f"{name} is {value} already: nothing would change")
        self._set(owner, last, value)
        self.put(f"{name.rpartition('.')[0]}.{read_by}", lambda original: original)

    def refuse_unused(self) -> None:
        """Raise LookupError if a replacement has not been called."""
        unused = [name for name, times in self.called.items() if not times]
        if unused:
            raise LookupError(f"never called: {', '.join(unused)}; what was put in its place changes nothing")

    def stop_counting(self) -> None:
        """Remove the call counters from the replacements: their time must not be measured."""
        self._everywhere(self._counted)
        self._counted = []

    def _everywhere(self, pairs: list[tuple[Any, Any]]) -> None:
        """Replace each (old, new) of `pairs` in all modules of REACH, and in their classes and dicts."""
        instead = {id(old): new for old, new in pairs}
        modules = [m for name, m in list(sys.modules.items()) if f"{name}.".startswith(tuple(f"{r}." for r in REACH))]
        for module in modules:
            for name, found in list(vars(module).items()):
                if id(found) in instead:
                    self._set(module, name, instead[id(found)])
                elif isinstance(found, type) and found.__module__ == module.__name__:
                    self._in_class(found, instead)
                elif type(found) is dict and name != "__builtins__":  # a table of variants, such as BLOCK_FORMS
                    self._in_table(found, instead)

    def _in_class(self, owner: type, instead: dict[int, Any]) -> None:
        for name, method in list(vars(owner).items()):
            static = isinstance(method, staticmethod)
            old = method.__func__ if static else method
            if id(old) in instead:
                self._set(owner, name, staticmethod(instead[id(old)]) if static else instead[id(old)])

    def _in_table(self, table: dict[Any, Any], instead: dict[int, Any]) -> None:
        for key, entry in list(table.items()):
            if id(entry) in instead:
                self._item(table, key, instead[id(entry)])
            elif isinstance(entry, tuple) and hasattr(entry, "_make") and any(id(x) in instead for x in entry):
                self._item(table, key, entry._make(instead.get(id(x), x) for x in entry))

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((setattr, owner, name, inspect.getattr_static(owner, name)))
        setattr(owner, name, value)

    def _item(self, table: Any, key: Any, value: Any) -> None:
        self._undo.append((dict.__setitem__, table, key, table[key]))
        table[key] = value


def _owner(name: str) -> tuple[Any, str]:
    """Split a dotted name of the library into its module or class and the name of the attribute."""
    *path, last = name.split(".")
    owner: Any = importlib.import_module("tinyattn")
    for i, part in enumerate(path, start=1):
        try:
            owner = importlib.import_module(".".join(["tinyattn", *path[:i]]))
        except ModuleNotFoundError:
            if not inspect.isclass(getattr(owner, part, None)):
                raise LookupError(f"tinyattn.{name}: there is no {'.'.join(path[:i])}") from None
            owner = getattr(owner, part)
    if last not in vars(owner):
        raise LookupError(f"tinyattn.{name} is not there: was it renamed?")
    return owner, last
