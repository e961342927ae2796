"""An array module that records every computation with it, as a graph of ONNX operators.

A network computes with the module of its arrays (`get_xp`), so `Recorded` arrays record its graph: no layer depends on
ONNX, and a new one is exported as soon as FUNCTIONS (functions.py) has the array functions that it calls. Each array
also has its numbers, from NumPy: values that do not depend on the histories become constants, and code may not branch
on those that do.

NumPy's arrays share memory, but values of a graph do not: `x[key]` is evaluated on access, and writes into it are
writes into x. A loop over time writes row after row, so rows of the first axis are stored separately until all of x is
read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..backend import register
from .functions import FUNCTIONS
from .values import HERE, Content, NoGraphError, Value, apply, cast, get, put, reshape, transpose


class Form(NamedTuple):
    """Another form of an array in the same memory, as of `reshape`, and its inverse."""

    there: Callable[[Content], Content]
    back: Callable[[Content], Content]


class Recorded:
    """An array: its numbers (`host`, of NumPy) and its `content`."""

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None                                   # NumPy's operators leave the other side to this class

    def __init__(self, host: np.ndarray, content: Content | None = None, of: tuple[Recorded, Any] | None = None):
        self.host = host
        self._content: Content | None = host if content is None and of is None else content
        self._of = of                                        # (x, key): this is x[key], or a Form of x
        self._rows: dict[int, Content] = {}                  # rows of the first axis written since `_content` was made
        self._writes = 0                                     # number of writes, where `_of` is None
        self._known: tuple[int, Content] | None = None       # the content written into a part, and `_writes` then

    @property
    def content(self) -> Content:
        """A value of the graph, or a constant."""
        if self._of is not None:
            if self._known is not None and self._known[0] == self._memory._writes:
                return self._known[1]
            whole, key = self._of
            return key.there(whole.content) if isinstance(key, Form) else whole.part(key)
        if self._rows:
            assert self._content is not None
            rows = [self._rows.get(i, None) for i in range(self.host.shape[0])]
            parts = [get(self._content, i) if row is None else row for i, row in enumerate(rows)]
            parts = [reshape(part, (1, *part.shape)) for part in parts]
            self._content = apply("Concat", *parts, shape=self.host.shape, dtype=self.host.dtype, axis=0)
            self._rows = {}
        assert self._content is not None
        return self._content

    @property
    def _memory(self) -> Recorded:
        """The array whose part, or other form, this is."""
        return self if self._of is None else self._of[0]._memory

    def part(self, key: Any) -> Content:
        """The content of self[key]."""
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if self._of is not None or type(first) is not int:
            return get(self.content, key)
        row = self._rows.get(first % len(self.host))
        assert self._content is not None
        return get(self._content, key) if row is None else get(row, rest)

    def write(self, key: Any, new: Content) -> None:
        """self[key] = new for the content; NumPy writes the numbers."""
        if isinstance(new, Value) and self._content is self.host:
            self._content = self.host.copy()                 # NumPy will write into the host
        if self._of is not None:
            (whole, mine), new = self._of, put(self.content, key, new)
            whole.write(..., mine.back(new)) if isinstance(mine, Form) else whole.write(mine, new)
            self._known = self._memory._writes, new
            return
        self._writes += 1
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if type(first) is int and not (isinstance(new, np.ndarray) and isinstance(self._content, np.ndarray)):
            self._rows[first % len(self.host)] = put(self.part(first), rest, new)
        elif isinstance(new, np.ndarray) and isinstance(self.content, np.ndarray):
            self._content = self.host                        # NumPy will write into it
        else:
            self._content = put(self.content, key, new)

    @property
    def constant(self) -> bool:
        return isinstance(self.content, np.ndarray)

    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    dtype = property(lambda self: self.host.dtype)
    nbytes = property(lambda self: self.host.nbytes)
    T = property(lambda self: module.transpose(self))

    def __len__(self) -> int:
        return len(self.host)

    def _number(self, kind: Any) -> Any:
        if not self.constant:
            raise NoGraphError("branches on a number that is computed from the histories")
        return kind(self.host)

    def tolist(self) -> Any:
        return self._number(lambda host: host.tolist())

    def reshape(self, *shape: Any) -> Recorded:
        return module.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)

    def swapaxes(self, one: int, two: int) -> Recorded:
        return module.swapaxes(self, one, two)

    def astype(self, dtype: Any, copy: bool = True) -> Recorded:
        return Recorded(self.host.astype(dtype), cast(self.content, np.dtype(dtype)))

    def copy(self) -> Recorded:
        return Recorded(self.host.copy(), None if self.constant else self.content)

    def __getitem__(self, key: Any) -> Recorded:
        if places := _arrays(key if isinstance(key, tuple) else (key,)):
            known = self.constant and all(part.constant for part in places)
            return Recorded(self.host[_each("host", key)], None if known else get(self.content, _each("content", key)))
        return Recorded(self.host[key], of=(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Recorded) and value._of is not None and value._of[0] is self and value._of[1] == key:
            return                                           # x[key] += y: the sum has been written
        new = value.content if isinstance(value, Recorded) else np.asarray(value, dtype=self.dtype)
        self.write(_each("content", key), new)
        self.host[key] = value.host if isinstance(value, Recorded) else value

    def assign(self, result: Recorded) -> Recorded:
        """Write a result into this array, as `out=` does."""
        self.write(..., cast(result.content, self.dtype))
        self.host[...] = result.host
        return self


OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "mod",
    "pow": "power", "matmul": "matmul", "and": "logical_and", "or": "logical_or",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


def _operator(name: str, how: str) -> Any:
    forms: dict[str, Callable[..., Any]] = {
        "": lambda self, *other: getattr(module, name)(self, *other),
        "r": lambda self, other: getattr(module, name)(other, self),
        "i": lambda self, other: self.assign(getattr(module, name)(self, other)),
    }
    return forms[how]


def _conversion(kind: type) -> Any:
    return lambda self: self._number(kind)


for _short, _name in OPERATORS.items():
    for _how in ("", "r", "i") if _short not in ("lt", "le", "gt", "ge", "eq", "ne") else ("",):
        setattr(Recorded, f"__{_how}{_short}__", _operator(_name, _how))
for _short, _name in (("neg", "negative"), ("abs", "abs"), ("invert", "logical_not")):
    setattr(Recorded, f"__{_short}__", _operator(_name, ""))
for _short, _kind in (("bool", bool), ("int", int), ("float", float), ("index", int)):
    setattr(Recorded, f"__{_short}__", _conversion(_kind))


class Module:
    """`xp`: NumPy's functions under NumPy's names. NumPy computes with constants; for other values see FUNCTIONS."""

    __name__ = "recorded"
    ndarray = Recorded

    def asarray(self, x: Any, dtype: Any = None) -> Recorded:
        if isinstance(x, Recorded):
            return x if dtype is None else x.astype(dtype)
        return Recorded(np.array(x, dtype=dtype))

    def empty(self, shape: Any, dtype: Any = float) -> Recorded:
        return Recorded(np.zeros(shape, dtype))              # unread contents have to be equal in both records

    def empty_like(self, x: Recorded, dtype: Any = None) -> Recorded:
        return self.empty(x.shape, dtype or x.dtype)

    def __getattr__(self, name: str) -> Any:
        numpy = getattr(np, name)
        if not callable(numpy) or isinstance(numpy, type):
            return numpy
        return lambda *args, **kwargs: _call(name, numpy, args, kwargs)


module: Any = Module()
register(Recorded, module)


def _call(name: str, numpy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in SHARED_MEMORY_FORMS:
        return SHARED_MEMORY_FORMS[name](*args, **kwargs)
    if name == "copyto":
        there, new = args
        return there.assign(module.where(kwargs["where"], new, there) if kwargs else new)
    out = kwargs.pop("out", None)
    host = numpy(*_each("host", args), **{key: _each("host", value) for key, value in kwargs.items()})
    made_of = name not in ("zeros_like", "ones_like", "full_like") and any(not x.constant for x in _arrays(args))
    if not made_of:
        result = [Recorded(h) for h in host] if isinstance(host, list | tuple) else Recorded(np.asarray(host))
    elif name not in FUNCTIONS:
        raise NoGraphError(f"calls {name}, which FUNCTIONS of {HERE.name}/functions.py does not know")
    else:
        contents = {key: _each("content", value) for key, value in kwargs.items()}
        content = FUNCTIONS[name](np.asarray(host), *_each("content", args), **contents)
        result = Recorded(host if isinstance(host, np.ndarray) else np.array(host), content)
    return result if out is None else out.assign(result)


def _reshaped(x: Recorded, shape: Any) -> Recorded:
    host, before = x.host.reshape(shape), x.shape
    return _in_form(x, host, lambda content: reshape(content, host.shape), lambda content: reshape(content, before))


def _transposed(x: Recorded, axes: Any = None) -> Recorded:
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(axes)
    back = tuple(int(a) for a in np.argsort(axes))
    return _in_form(x, x.host.transpose(axes), lambda content: transpose(content, axes), lambda c: transpose(c, back))


def _swapped(x: Recorded, one: int, two: int) -> Recorded:
    axes = list(range(x.ndim))
    axes[one], axes[two] = axes[two], axes[one]
    return _transposed(x, axes)


def _moved(x: Recorded, source: int, destination: int) -> Recorded:
    axes = list(range(x.ndim))
    axes.insert(destination % x.ndim, axes.pop(source))
    return _transposed(x, axes)


def _in_form(x: Recorded, host: np.ndarray, there: Any, back: Any) -> Recorded:
    """x in another form, which shares its memory unless NumPy had to copy."""
    shared = np.shares_memory(host, x.host)
    return Recorded(host, of=(x, Form(there, back))) if shared else Recorded(host, there(x.content))


SHARED_MEMORY_FORMS: dict[str, Callable[..., Any]] = {
    "reshape": _reshaped, "transpose": _transposed, "swapaxes": _swapped, "moveaxis": _moved,
}  # fmt: skip


def _arrays(x: Any) -> list[Recorded]:
    if isinstance(x, Recorded):
        return [x]
    return [array for part in x for array in _arrays(part)] if isinstance(x, list | tuple) else []


def _each(attribute: str, x: Any) -> Any:
    """x with `host` or `content` in place of every array in it."""
    if isinstance(x, list | tuple):
        return type(x)(_each(attribute, part) for part in x)
    return getattr(x, attribute) if isinstance(x, Recorded) else x
