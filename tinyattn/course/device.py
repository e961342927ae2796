"""A simulated GPU for chapter 21: it computes with NumPy, and counts a GPU's launches, transfers and waits.

    x = device.asarray(host)           a transfer; get_xp(x) is `device`, so that functions of the library take x
    y = device.exp(x) + 1              two launches
    float(y[0]), y.get(), if y[0] > 0  the program waits

The program also waits where the size of a result depends on numbers (a boolean mask as an index, `nonzero`, `unique`).
The library's own tests use a stricter double, tests/strict.py.
"""

from collections import Counter
from functools import partialmethod
from types import ModuleType
from typing import Any

import numpy as np

from ..backend import register

_WAIT = {
    "allclose", "argwhere", "array_equal", "array_equiv", "bincount", "compress", "extract", "flatnonzero",
    "intersect1d", "item", "nonzero", "setdiff1d", "setxor1d", "tobytes", "tolist", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
}  # fmt: skip
_NO_LAUNCH = {"item", "reshape", "swapaxes", "tobytes", "tolist", "transpose", "view"}


class There:
    """An array of the device. It cannot be mixed with arrays of NumPy, nor passed to NumPy's functions."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: np.ndarray):
        self._host = host

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an array of the device where one of the host is expected: x.get() carries it over, and waits")

    def __getattr__(self, name: str) -> Any:
        """Attributes such as shape and dtype, and methods. reshape launches nothing, and item waits for a number."""
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._host, name)
        if not callable(attribute):
            return _there(attribute)
        return _Function(name, attribute, launches=name not in _NO_LAUNCH)

    def get(self) -> np.ndarray:
        device.counts.update(waits=1, transfers=1)
        return self._host.copy()

    def _number(self, kind: type) -> Any:
        """The array's one number, as bool, float or int on the host, which waits for it."""
        device.counts["waits"] += 1
        return kind(self._host)

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, key: Any) -> "There":
        parts = key if isinstance(key, tuple) else (key,)
        device.counts["waits"] += any(isinstance(part, There) and part.dtype == bool for part in parts)
        device.counts["launches"] += any(isinstance(part, There) for part in parts)
        return _there(np.asarray(self._host[_host(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        device.counts["launches"] += 1
        self._host[_host(key)] = _host(value)


def _operator(name: str) -> Any:
    return lambda self, *others: _Function(name, getattr(self._host, name))(*others)


_TWO = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_ONE = ("neg", "invert", "abs", "lt", "le", "gt", "ge", "eq", "ne")
for _name in (*(f"{side}{op}" for op in _TWO for side in ("", "r", "i")), *_ONE):
    setattr(There, f"__{_name}__", _operator(f"__{_name}__"))
for _name, _kind in (("bool", bool), ("float", float), ("int", int)):
    setattr(There, f"__{_name}__", partialmethod(There._number, _kind))


def _host(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        raise TypeError("an array of the host among those of the device: device.asarray(x) carries it over")
    if isinstance(x, list | tuple):
        return type(x)(map(_host, x))
    return x._host if isinstance(x, There) else x


def _there(x: Any) -> Any:
    return There(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


class _Function:
    """A function of NumPy on arrays of the device. A call counts as a launch if `launches` is True."""

    def __init__(self, name: str, f: Any, launches: bool = True):
        self.name, self.f, self.launches = name, f, launches

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        waits = self.name in _WAIT or (self.name == "where" and len(args) == 1)
        device.counts.update(launches=int(self.launches), waits=int(waits))
        results = self.f(*map(_host, args), **{key: _host(x) for key, x in kwargs.items()})
        return tuple(map(_there, results)) if isinstance(results, tuple) else _there(results)

    def at(self, x: There, ids: There, values: Any) -> None:
        """Atomic additions, in a random order, as on a GPU."""
        device.counts.update(launches=1, atomic=1)
        order, values = device.order.permutation(len(ids)), np.broadcast_to(_host(values), (*ids.shape, *x.shape[1:]))
        self.f.at(x._host, _host(ids)[order], values[order])

    def __getattr__(self, name: str) -> Any:
        """A method of a ufunc: reduce, accumulate, reduceat or outer."""
        if name.startswith("_"):
            raise AttributeError(name)
        return _Function(name, getattr(self.f, name))


class _Joined:
    """r_ or c_, which join arrays between brackets."""

    def __init__(self, host: Any):
        self._host = host

    def __getitem__(self, key: Any) -> There:
        return _Function("concatenate", self._host.__getitem__)(key)


class _Module:
    """A module of NumPy, such as `linalg`, whose functions compute on the device."""

    def __init__(self, host: ModuleType):
        self._host = host

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._host, name)
        if isinstance(attribute, ModuleType):
            return _Module(attribute)
        if name in ("r_", "c_"):
            return _Joined(attribute)
        return _Function(name, attribute) if callable(attribute) and not isinstance(attribute, type) else attribute


class Device:
    """NumPy's functions on the device. `counts` has the numbers of launches, waits, transfers and atomic launches."""

    __name__ = "device"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.order = np.random.default_rng(0)

    def asarray(self, x: Any, dtype: Any = None) -> There:
        self.counts["transfers"] += not isinstance(x, There)
        return There(np.array(x._host if isinstance(x, There) else x, dtype=dtype))

    def counted(self, f: Any, *args: Any) -> tuple[Any, dict[str, int]]:
        """-> f(*args), and the numbers of its launches, waits, transfers and atomic launches."""
        before = self.counts.copy()
        result = f(*args)
        return result, {name: self.counts[name] - before[name] for name in ("launches", "waits", "transfers", "atomic")}

    def __getattr__(self, name: str) -> Any:
        return _Module(np).__getattr__(name)


def run(f: Any, *args: Any) -> dict[str, Any]:
    """The counts of f(*args), whose arrays are transferred first; "error" is a message if f mixes host and device."""
    there = [device.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
    try:
        result, counts = device.counted(f, *there)
    except (TypeError, AttributeError, ValueError) as error:
        numpys = "__array_ufunc__" in str(error)                     # NumPy's message is about its internals
        return {"error": "a function of NumPy met an array of the device; take that of `xp`" if numpys else str(error)}
    return counts if isinstance(result, There) else counts | {"error": "it returns no array of the device"}


device = Device()
register(There, device)
