"""An array module that does what CuPy does, with NumPy's numbers, and nothing that CuPy does not.

It refuses NumPy's functions on its arrays, host arrays beside its own, names and keywords that CuPy lacks, iteration
over rows and boolean-mask indexing; it wraps ids out of range silently, fills `empty` with NaN, adds duplicates in a
shuffled order, and counts calls and synchronisations. Register it with `backend.register(StrictArray, strict)`.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from tests.record_cupy import SURFACE

CUPY = json.loads(SURFACE.read_text())
COUNTS: Counter[str] = Counter()
_ORDER = np.random.default_rng(0)


class StrictError(TypeError):
    """What would fail, or silently go wrong or slow, on a device."""


def _unwrapped(x: Any, what: str) -> Any:
    if isinstance(x, StrictArray):
        return x.host
    if isinstance(x, np.ndarray | np.generic):
        raise StrictError(f"{what}: a host array or a NumPy scalar among device arrays")
    if isinstance(x, list | tuple):
        return type(x)(_unwrapped(part, what) for part in x)
    return x


def _wrapped(x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic):
        return StrictArray(np.asarray(x))
    if isinstance(x, tuple):
        return type(x)(*map(_wrapped, x)) if hasattr(x, "_fields") else tuple(map(_wrapped, x))
    return x


class StrictArray:
    """A device array. Its numbers are `host`, which only `get` may read."""

    __array_ufunc__ = None  # np.add(x, y) is refused
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: np.ndarray):
        self.host = host

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise StrictError("an implicit copy to the host: use to_numpy")

    def __array_function__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        raise StrictError(f"np.{function.__name__} on a device array: use xp.{function.__name__}")

    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    dtype = property(lambda self: self.host.dtype)
    nbytes = property(lambda self: self.host.nbytes)
    T = property(lambda self: StrictArray(self.host.T))

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Any:
        raise StrictError("iteration over a device array: one launch, and one synchronisation, a row")

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

    def __index__(self) -> int:
        raise StrictError("a device number as a Python index: it must be fetched first")

    def item(self) -> Any:
        return self._scalar(lambda x: x.item())

    def reshape(self, *shape: Any) -> StrictArray:
        return StrictArray(self.host.reshape(*shape))

    def swapaxes(self, one: int, two: int) -> StrictArray:
        return StrictArray(self.host.swapaxes(one, two))

    def astype(self, dtype: Any, copy: bool = True) -> StrictArray:
        COUNTS["calls"] += 1
        return StrictArray(self.host.astype(dtype, copy=copy))

    def copy(self) -> StrictArray:
        COUNTS["calls"] += 1
        return StrictArray(self.host.copy())

    def __getitem__(self, key: Any) -> StrictArray:
        COUNTS["calls"] += 1
        return StrictArray(np.asarray(self.host[self._key(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        COUNTS["calls"] += 1
        key, value = self._key(key), _unwrapped(value, "assignment")
        _refuse_duplicates(key, "assignment")
        if not self.host.flags.writeable:
            raise StrictError("a write into a broadcast: CuPy ignores read-only flags and writes to shared memory")
        self.host[key] = value

    def _key(self, key: Any) -> Any:
        """Ids out of range wrap around, as they do there."""
        parts = key if isinstance(key, tuple) else (key,)
        found, axis = [], 0
        for part in parts:
            part = _unwrapped(part, "an index")
            if isinstance(part, np.ndarray) and part.dtype == bool:
                raise StrictError("a boolean mask as an index: its size must be fetched from the device")
            if isinstance(part, np.ndarray) and Ellipsis not in [p for p in parts if p is Ellipsis]:
                part = part % self.host.shape[axis] if self.host.shape[axis] else part
            axis += part is not None
            found.append(part)
        return tuple(found) if isinstance(key, tuple) else found[0]


def _refuse_duplicates(key: Any, what: str) -> None:
    arrays = [part.reshape(-1) for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, np.ndarray)]
    if arrays:
        places = np.stack(np.broadcast_arrays(*arrays))
        if np.unique(places, axis=1).shape[1] < places.shape[1]:
            raise StrictError(f"{what} to ids of which some repeat: which one wins is not defined")


def _operator(name: str) -> Any:
    def apply(self: StrictArray, *others: Any) -> Any:
        COUNTS["calls"] += 1
        operands = [_unwrapped(other, name) for other in others]
        if name.startswith("__i") and name != "__invert__" and not self.host.flags.writeable:
            raise StrictError("a write into a broadcast: CuPy ignores read-only flags and writes to shared memory")
        result = getattr(self.host, name)(*operands)
        return self if result is self.host else _wrapped(result)

    return apply


_OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"]
for _name in [
    *(f"__{prefix}{op}__" for op in _OPERATORS for prefix in ("", "r", "i")),
    *(f"__{op}__" for op in ("neg", "invert", "lt", "le", "gt", "ge", "eq", "ne")),
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

    def _at(self, x: StrictArray, ids: StrictArray, values: StrictArray) -> None:
        """In any order, as atomic additions are."""
        COUNTS["calls"] += 1
        order = _ORDER.permutation(len(ids.host))
        getattr(np, self.name).at(x.host, ids.host[order] % len(x.host), values.host[order])


_SYNCHRONISE = {"flatnonzero", "nonzero", "unique", "argwhere"}  # the result's size is known on the device only


def _call(name: str, f: Any, args: Any, kwargs: Any) -> Any:
    known = CUPY["names"].get(name.split(".")[0], {"arguments": None})
    if known["arguments"] is not None and "." not in name:
        unknown = [k for k in kwargs if k not in known["arguments"]]
        if unknown:
            raise StrictError(f"CuPy's {name} takes no {unknown[0]}=")
    COUNTS["calls"] += 1
    COUNTS["synchronisations"] += name in _SYNCHRONISE
    host = {k: _unwrapped(x, name) for k, x in kwargs.items()}
    return _wrapped(f(*(_unwrapped(x, name) for x in args), **host))


class _Module:
    """`xp`: CuPy's names and no others."""

    __name__ = "strict"
    ndarray = StrictArray
    inf, nan, newaxis, pi = np.inf, np.nan, None, np.pi
    float32, float64, int32, int64, bool_ = np.float32, np.float64, np.int32, np.int64, np.bool_

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
        if known is None:
            raise StrictError(f"CuPy has no {name}")
        if known["kind"] == "ufunc":
            return _Ufunc(name)
        f = getattr(np, name)
        return lambda *args, **kwargs: _call(name, f, args, kwargs)


strict = _Module()
