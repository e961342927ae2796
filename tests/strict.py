"""An array module that does what CuPy does, with NumPy's numbers, and nothing that CuPy does not.

It refuses NumPy's functions on its arrays, host arrays beside its own, names and keywords that CuPy lacks, iteration
over rows, boolean-mask indexing, repeated ids in an assignment and writes into a broadcast; it wraps ids out of range
silently, fills `empty` with NaN, adds duplicates in a shuffled order, and counts calls, synchronisations and transfers.
`backend.register(StrictArray, strict, "strict")` makes it a device.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tinyattn
from tests.record_cupy import SURFACE

CUPY = json.loads(SURFACE.read_text())
COUNTS: Counter[str] = Counter()
_ORDER = np.random.default_rng(0)
_LIBRARY = Path(tinyattn.__file__).parent


class StrictError(TypeError):
    """What would fail on a device, or silently go wrong or slow there; the message says where it was asked for."""

    def __init__(self, what: str):
        super().__init__(f"{_asked_for()}: {what}")


def _asked_for() -> str:
    """file:line in function: of the library where it is in the call, else whoever called the double."""
    frame, outside = sys._getframe(1), None
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if _LIBRARY in path.parents:
            return f"{path.relative_to(_LIBRARY.parent)}:{frame.f_lineno} in {frame.f_code.co_name}"
        if outside is None and path != Path(__file__):
            outside = f"{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return outside or "?"


_HOST = (
    "a host array or a NumPy scalar among device arrays: CuPy refuses the one, and the other widens float32; "
    "asarray(x, like=...) carries arrays over, Python numbers are fine"
)


def _unwrapped(x: Any, what: str) -> Any:
    if isinstance(x, StrictArray):
        return x.host
    if isinstance(x, np.ndarray | np.generic):
        raise StrictError(f"{what}: {_HOST}")
    if isinstance(x, list | tuple):
        return type(x)(_unwrapped(part, what) for part in x)
    return x


def _wrapped(x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic | bool):
        return StrictArray(np.asarray(x))
    if isinstance(x, tuple):
        return type(x)(*map(_wrapped, x)) if hasattr(x, "_fields") else tuple(map(_wrapped, x))
    return x


class StrictArray:
    """A device array. Its numbers are `host`, which only `get` may read."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: np.ndarray):
        self.host = host

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise StrictError("an implicit copy to the host: use backend.to_numpy")

    def __array_function__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        raise StrictError(f"np.{function.__name__} on a device array: use xp.{function.__name__}, with xp = get_xp(x)")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, np.ndarray | np.generic) for x in inputs):
            raise StrictError(f"{function.__name__}: {_HOST}")
        raise StrictError(f"np.{function.__name__} on a device array: use xp.{function.__name__}, with xp = get_xp(x)")

    def __getattr__(self, name: str) -> Any:
        if name in CUPY["methods"] and not name.startswith("_"):
            raise StrictError(f"x.{name}: write xp.{name}(x), which the surface check can hold against CuPy")
        raise AttributeError(f"CuPy's arrays have no {name}")

    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    dtype = property(lambda self: self.host.dtype)
    nbytes = property(lambda self: self.host.nbytes)
    T = property(lambda self: StrictArray(self.host.T))

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Any:
        raise StrictError("iteration over a device array: one launch a row, and a wait for each")

    def get(self) -> np.ndarray:
        COUNTS["synchronisations"] += 1
        return self.host.copy()

    def _scalar(self, kind: type) -> Any:
        COUNTS["synchronisations"] += 1
        return kind(self.host)

    def __float__(self) -> float:
        return self._scalar(float)

    def __int__(self) -> int:
        return self._scalar(int)

    def __bool__(self) -> bool:
        return self._scalar(bool)

    def __format__(self, spec: str) -> str:
        return format(self._scalar(lambda x: x.item()), spec)

    def __index__(self) -> int:
        raise StrictError("a device number as a Python index: it would have to be fetched first")

    def item(self) -> Any:
        return self._scalar(lambda x: x.item())

    def tolist(self) -> Any:
        return self._scalar(lambda x: x.tolist())

    def reshape(self, *shape: Any) -> StrictArray:
        return StrictArray(self.host.reshape(*shape))

    def swapaxes(self, one: int, two: int) -> StrictArray:
        return StrictArray(self.host.swapaxes(one, two))

    def view(self, dtype: Any) -> StrictArray:
        return StrictArray(self.host.view(dtype))

    def astype(self, dtype: Any, copy: bool = True) -> StrictArray:
        COUNTS["calls"] += 1
        return StrictArray(self.host.astype(dtype, copy=copy))

    def copy(self) -> StrictArray:
        COUNTS["calls"] += 1
        return StrictArray(self.host.copy())

    def __getitem__(self, key: Any) -> StrictArray:
        taking = any(isinstance(part, StrictArray) for part in (key if isinstance(key, tuple) else (key,)))
        COUNTS["calls"] += taking  # anything else is a view
        return StrictArray(np.asarray(self.host[self._key(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        COUNTS["calls"] += 1
        key, value = self._key(key), _unwrapped(value, "assignment")
        _refuse_duplicates(key)
        _refuse_broadcast(self)
        self.host[key] = value

    def _key(self, key: Any) -> Any:
        """Ids out of range wrap around, as they do there."""
        parts = key if isinstance(key, tuple) else (key,)
        found, axis = [], 0
        for part in parts:
            part = _unwrapped(part, "an index")
            if isinstance(part, list) or (isinstance(part, np.ndarray) and part.dtype == bool):
                raise StrictError("a boolean mask or a list as an index: it must be looked at before anything is done")
            if isinstance(part, np.ndarray) and Ellipsis not in [p for p in parts if p is Ellipsis]:
                part = _around(part, self.host.shape[axis])
            axis += part is not None
            found.append(part)
        return tuple(found) if isinstance(key, tuple) else found[0]


def _around(ids: np.ndarray, size: int) -> np.ndarray:
    return ids.astype(np.int64) % size if size else ids


def _refuse_duplicates(key: Any) -> None:
    arrays = [part.reshape(-1) for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, np.ndarray)]
    if arrays:
        places = np.stack(np.broadcast_arrays(*arrays))
        if np.unique(places, axis=1).shape[1] < places.shape[1]:
            raise StrictError("assignment to ids of which some repeat: which one wins is not defined; use xp.add.at")


def _refuse_broadcast(x: StrictArray) -> None:
    if not x.host.flags.writeable:
        raise StrictError("a write into a broadcast: CuPy ignores read-only flags and writes to shared memory")


def _operator(name: str) -> Any:
    def apply(self: StrictArray, *others: Any) -> Any:
        COUNTS["calls"] += 1
        operands = [_unwrapped(other, name) for other in others]
        if name.startswith("__i") and name != "__invert__":
            _refuse_broadcast(self)
        result = getattr(self.host, name)(*operands)
        return self if result is self.host else _wrapped(result)

    return apply


_OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
]
for _name in [
    *(f"__{prefix}{op}__" for op in _OPERATORS for prefix in ("", "r", "i")),
    *(f"__{op}__" for op in ("neg", "invert", "abs", "lt", "le", "gt", "ge", "eq", "ne")),
]:
    setattr(StrictArray, _name, _operator(_name))


class _Ufunc:
    """A ufunc and the methods that CuPy's have."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self.name, getattr(np, self.name), args, kwargs)

    def __getattr__(self, method: str) -> Any:
        if method not in CUPY["of ufuncs"]:
            raise StrictError(f"CuPy's {self.name} has no {method}")
        if method == "at":
            return self._at
        f = getattr(getattr(np, self.name), method)
        return lambda *args, **kwargs: _call(f"{self.name}.{method}", f, args, kwargs)

    def _at(self, x: StrictArray, ids: StrictArray, values: Any) -> None:
        """In any order, as atomic additions are."""
        COUNTS["calls"] += 1
        where, what = _unwrapped(ids, f"{self.name}.at"), _unwrapped(values, f"{self.name}.at")
        _refuse_broadcast(x)
        order = _ORDER.permutation(len(where))
        what = np.broadcast_to(what, (*where.shape, *x.host.shape[1:]))
        getattr(np, self.name).at(x.host, _around(where[order], len(x.host)), what[order])


_SYNCHRONISE = {"flatnonzero", "nonzero", "unique", "argwhere", "array_equal", "extract", "compress", "trim_zeros"}


def _call(name: str, f: Any, args: Any, kwargs: Any) -> Any:
    known = CUPY["names"].get(name.split(".")[0], {"arguments": None})
    if known["arguments"] is not None and "." not in name:
        unknown = [k for k in kwargs if k not in known["arguments"]]
        if unknown:
            raise StrictError(f"CuPy's {name} takes no {unknown[0]}=")
    COUNTS["calls"] += 1
    COUNTS["synchronisations"] += name in _SYNCHRONISE  # the size of the result is known on the device only
    places = [_unwrapped(x, name) for x in args]
    if isinstance(kwargs.get("out"), StrictArray):
        _refuse_broadcast(kwargs["out"])
    return _wrapped(f(*places, **{k: _unwrapped(x, name) for k, x in kwargs.items()}))


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    return np.take(a, indices, axis=axis, out=out, mode="wrap")


def _take_along_axis(a: Any, indices: Any, axis: Any) -> Any:
    return np.take_along_axis(a, _around(indices, a.shape[axis]), axis)


_OTHERWISE = {"take": _take, "take_along_axis": _take_along_axis}


class _Module:
    """`xp`: CuPy's names and no others."""

    __name__ = "strict"
    ndarray = StrictArray

    def asarray(self, x: Any, dtype: Any = None) -> StrictArray:
        """The one door from the host."""
        COUNTS["transfers"] += not isinstance(x, StrictArray)
        return StrictArray(np.array(x.host if isinstance(x, StrictArray) else x, dtype=dtype))

    def empty(self, shape: Any, dtype: Any = float) -> StrictArray:
        COUNTS["calls"] += 1
        filling = np.nan if np.dtype(dtype).kind == "f" else 77
        return StrictArray(np.full(shape, filling, dtype))

    def empty_like(self, x: StrictArray, dtype: Any = None) -> StrictArray:
        return self.empty(x.shape, dtype or x.dtype)

    def __getattr__(self, name: str) -> Any:
        known = CUPY["names"].get(name)
        if name == "random":
            raise StrictError("xp.random: its streams are not NumPy's; draw on the host, or hash (ops.keep_mask)")
        if known is None:
            raise StrictError(f"CuPy has no {name}")
        if known["kind"] == "ufunc":
            return _Ufunc(name)
        f = _OTHERWISE.get(name) or getattr(np, name)
        if known["kind"] in ("class", "value"):
            return f
        return lambda *args, **kwargs: _call(name, f, args, kwargs)


strict = _Module()
