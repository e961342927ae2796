"""Count the cost of a computation while it runs: multiply-adds, other entries, the longest chain of calls.

    with counting() as counts:
        y, cache = mixer.forward(counted(p), counted(x))
    counts.products, counts.entries, chain(y), kept(cache)

`Counted` is a subclass of NumPy's array, so the library runs as on plain arrays. Every array that depends on a
`Counted` is itself a `Counted`. A product of matrices counts its multiply-adds. Any other computation, and a product
with a vector (the library sums rows that way), counts its input or output entries, whichever are more. Moving and
reshaping count nothing. Integers and masks count nothing, as they only choose entries.

Each buffer records the length of the longest chain of calls before it was complete. This is an upper bound of the
sequential steps, because a buffer that is written in parts is read as a whole.
"""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyattn.tree import leaves

# These functions make new arrays, or turn their arguments into plain ndarrays.
MAKE = ("arange", "array", "asarray", "ascontiguousarray", "empty", "eye", "full", "ones", "tri", "zeros")
PRODUCTS = (np.matmul, np.dot, np.inner, np.vdot, np.tensordot, np.einsum)
COMPUTE = ("cumsum", "cumprod", "sum", "prod", "max", "min", "amax", "amin", "mean", "std", "var", "clip", "where",
           "sort", "argsort", "partition", "argpartition", "tril", "triu")  # fmt: skip


@dataclass
class Counts:
    """The counts of one `counting` block."""

    products: int = 0  # multiply-adds of products of matrices
    entries: int = 0  # entries computed otherwise


_COUNTS: list[Counts] = []
_LOCK = threading.Lock()  # some ops work on several tiles at once


class Counted(np.ndarray):
    """An array whose use is counted. `after` = [longest chain of calls before it], shared by all views of a buffer."""

    after: list[int]

    def __array_finalize__(self, of: Any) -> None:
        known = getattr(of, "after", None)
        view = self.base is not None
        self.after = [0] if known is None else known if view else known.copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.view(np.ndarray)[_plain(key)] = _plain(value)
        self.after[0] = max(self.after[0], _waited([value]))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **how: Any) -> Any:
        result = getattr(ufunc, method)(*_plain(inputs), **_plain(how))
        of_floats = _of_floats(inputs, result)
        if ufunc is np.matmul:
            _count_product(inputs, result)
        elif of_floats:
            _count_entries(inputs, result)
        if method == "at":  # writes to inputs[0] and returns nothing
            _write(inputs[0], inputs)
            return None
        return _result(result, inputs, how, int(of_floats))

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, how: Any) -> Any:
        result = function(*_plain(inputs), **_plain(how))
        if function is np.copyto:
            _write(inputs[0], inputs)
            return None
        computes = (function in PRODUCTS or function.__name__ in COMPUTE) and _of_floats(inputs, result)
        if function in PRODUCTS:
            _count_product(inputs, result, function)
        elif computes:
            _count_entries(inputs, result)
        return _result(result, (inputs, tuple(how.values())), how, int(computes))


def _plain(x: Any) -> Any:
    """`x` with every `Counted` in it, also in tuples, lists and dicts, as a plain ndarray."""
    if isinstance(x, Counted):
        return x.view(np.ndarray)
    if isinstance(x, dict):
        return {key: _plain(part) for key, part in x.items()}
    return type(x)(map(_plain, x)) if type(x) in (tuple, list) else x


def _waited(x: Any) -> int:
    if isinstance(x, Counted):
        return x.after[0]
    return max(map(_waited, x), default=0) if isinstance(x, tuple | list) else 0


def _write(target: Any, inputs: Any) -> None:
    if isinstance(target, Counted):
        target.after[0] = max(target.after[0], _waited(list(inputs)) + 1)


def _result(result: Any, inputs: Any, how: dict[str, Any], steps: int) -> Any:
    """The result as `Counted`. `out` and views of an input share the buffer's `after`; a new array gets its own."""
    after = _waited(inputs) + steps
    out = how.get("out")
    out = out[0] if isinstance(out, tuple) else out
    if out is not None:
        if isinstance(out, Counted):
            out.after[0] = max(out.after[0], after)
        return out
    if isinstance(result, tuple | list):
        parts = [_result(part, inputs, how, steps) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if not isinstance(result, np.ndarray):
        return result
    found = result.view(Counted)
    found.after = next((x.after for x in _arrays(inputs) if not steps and np.may_share_memory(x, result)), [after])
    return found


def _of_floats(inputs: Any, result: Any) -> bool:
    return getattr(getattr(result, "dtype", None), "kind", "") == "f" or any(
        x.dtype.kind == "f" for x in _arrays(inputs)
    )


def _arrays(inputs: Any) -> Iterator[Counted]:
    if isinstance(inputs, Counted):
        yield inputs
    elif isinstance(inputs, tuple | list):
        for x in inputs:
            yield from _arrays(x)


def _count_product(inputs: Any, result: Any, function: Any = np.matmul) -> None:
    if function is not np.matmul:
        raise NotImplementedError(f"{function.__name__} is not counted: write the product with @")
    if min(np.ndim(x) for x in inputs[:2]) < 2:
        _count_entries(inputs, result)
    else:
        with _LOCK:
            _COUNTS[-1].products += np.size(result) * inputs[0].shape[-1]


def _count_entries(inputs: Any, result: Any) -> None:
    with _LOCK:
        _COUNTS[-1].entries += max([np.size(result), *(x.size for x in _arrays(inputs))])


@contextmanager
def counting() -> Iterator[Counts]:
    """A block in which computations on `counted` arrays are counted, and new arrays are `Counted`."""

    def make(f: Any) -> Any:
        @functools.wraps(f)
        def counted_one(*args: Any, **how: Any) -> Any:
            given = args[0] if args and isinstance(args[0], Counted) else None
            result = f(*_plain(args), **_plain(how)).view(Counted)
            if given is not None:
                shared = np.may_share_memory(given, result)
                result.after = given.after if shared else given.after.copy()
            return result

        return counted_one

    _COUNTS.append(Counts())
    try:
        with makers(make):
            yield _COUNTS[-1]
    finally:
        _COUNTS.pop()


@contextmanager
def makers(make: Callable[[Any], Any]) -> Iterator[None]:
    """A block in which every function f of NumPy that makes arrays (MAKE) is replaced by `make(f)`."""
    made = {name: getattr(np, name) for name in MAKE}
    _forget()
    try:
        for name, f in made.items():
            setattr(np, name, make(f))
        yield
    finally:
        for name, f in made.items():
            setattr(np, name, f)
        _forget()


def _forget() -> None:
    """Empty the library's caches of functions, so that no cached array enters or leaves a block of `makers`."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tinyattn"):
            for f in list(vars(module).values()):
                if isinstance(f, functools._lru_cache_wrapper):
                    f.cache_clear()


def counted(x: Any) -> Any:
    """An array, or a tree of parameters, as `Counted`."""
    if isinstance(x, dict):
        return {key: counted(part) for key, part in x.items()}
    if isinstance(x, list):
        return [counted(part) for part in x]
    return x.view(Counted) if isinstance(x, np.ndarray) else x


def chain(x: Any) -> int:
    """The length of the longest chain of calls, each waiting for the one before, that `x` depends on."""
    return _waited(x)


def kept(cache: Any, p: Any = None) -> int:
    """Floats that a cache keeps for the backward: sizes of whole buffers, each once, without the parameters `p`."""
    known = {id(_buffer(x)) for _, x in leaves(p or {}) if isinstance(x, np.ndarray)}
    buffers = {id(b): b for b in map(_buffer, _held(cache)) if id(b) not in known and b.dtype.kind == "f"}
    return sum(b.size for b in buffers.values())


def _held(x: Any) -> Iterator[np.ndarray]:
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, dict | list | tuple):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _held(part)
    elif type(x).__module__.startswith("tinyattn") and hasattr(x, "__dict__"):
        for part in vars(x).values():
            yield from _held(part)


def _buffer(x: np.ndarray) -> np.ndarray:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x
