"""An array module that records what is computed with it as a graph of ONNX operators.

A network computes with the module of its arrays (`get_xp`), so `Recorded` arrays record its graph: no layer depends on
ONNX, and a new layer can be exported as soon as FUNCTIONS (functions.py) has the array functions that it calls. Each
array also has its NumPy values. Values that do not depend on the histories become constants; code may not branch on
other values.

A NumPy view shares memory with its base, but graph values are immutable. So x[key] keeps a reference to x: each read
looks its value up in x, and each write into it is forwarded to x. A loop over time writes row after row, so rows of
the first axis are stored separately until all of x is read.
"""

from collections.abc import Callable
from functools import partialmethod
from typing import Any, NamedTuple

import numpy as np

from ..backend import register
from .functions import FUNCTIONS
from .values import HERE, Content, NoGraphError, Value, apply, cast, get, put, reshape, transpose


class ViewMap(NamedTuple):
    """Functions that make a view's content of its base's (by reshape or transpose), and the base's of the view's."""

    forward: Callable[[Content], Content]
    inverse: Callable[[Content], Content]


class Recorded:
    """An array: its NumPy values for this run (`host`), and its `content`: a graph value or a constant."""

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None                                   # ndarray + Recorded calls Recorded.__radd__

    def __init__(self, host: np.ndarray, content: Content | None = None, of: "tuple[Recorded, Any] | None" = None):
        self.host = host
        self._content: Content | None = host if content is None and of is None else content
        self._of = of                                        # (x, key): this is x[key]; or (x, a ViewMap of x)
        self._rows: dict[int, Content] = {}                  # rows of the first axis written since `_content`
        self._writes = 0                                     # number of writes, where `_of` is None
        # (the base's `_writes` when a view was last written, the content written): valid until the next write
        self._written: tuple[int, Content] | None = None

    @property
    def content(self) -> Content:
        """A value of the graph, or a constant."""
        if self._of is not None:
            if self._written is not None and self._written[0] == self._memory._writes:
                return self._written[1]
            base, key = self._of
            return key.forward(base.content) if isinstance(key, ViewMap) else base.part(key)
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
    def _memory(self) -> "Recorded":
        """This array, or the array whose memory this view shares."""
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
        """Record self[key] = new in the content only; the caller then writes `host`."""
        if isinstance(new, Value) and self._content is self.host:
            self._content = self.host.copy()                 # keep the old constant: the caller will overwrite host
        if self._of is not None:
            (base, place), new = self._of, put(self.content, key, new)
            base.write(..., place.inverse(new)) if isinstance(place, ViewMap) else base.write(place, new)
            self._written = self._memory._writes, new
            return
        self._writes += 1
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if type(first) is int and not (isinstance(new, np.ndarray) and isinstance(self._content, np.ndarray)):
            self._rows[first % len(self.host)] = put(self.part(first), rest, new)
        elif isinstance(new, np.ndarray) and isinstance(self.content, np.ndarray):
            self._content = self.host                        # still a constant: host, which the caller will update
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

    def reshape(self, *shape: Any) -> "Recorded":
        return module.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)

    def swapaxes(self, one: int, two: int) -> "Recorded":
        return module.swapaxes(self, one, two)

    def astype(self, dtype: Any, copy: bool = True) -> "Recorded":
        return Recorded(self.host.astype(dtype), cast(self.content, np.dtype(dtype)))

    def copy(self) -> "Recorded":
        return Recorded(self.host.copy(), None if self.constant else self.content)

    def __getitem__(self, key: Any) -> "Recorded":
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

    def assign(self, result: "Recorded") -> "Recorded":
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


for _short, _name in OPERATORS.items():
    for _how in ("", "r", "i") if _short not in ("lt", "le", "gt", "ge", "eq", "ne") else ("",):
        setattr(Recorded, f"__{_how}{_short}__", _operator(_name, _how))
for _short, _name in (("neg", "negative"), ("abs", "abs"), ("invert", "logical_not")):
    setattr(Recorded, f"__{_short}__", _operator(_name, ""))
for _short, _kind in (("bool", bool), ("int", int), ("float", float), ("index", int)):
    setattr(Recorded, f"__{_short}__", partialmethod(Recorded._number, _kind))


class Module:
    """`xp`: NumPy's functions under NumPy's names. NumPy computes with constants; for other values see FUNCTIONS."""

    __name__ = "recorded"
    ndarray = Recorded

    def asarray(self, x: Any, dtype: Any = None) -> Recorded:
        if isinstance(x, Recorded):
            return x if dtype is None else x.astype(dtype)
        return Recorded(np.array(x, dtype=dtype))

    def empty(self, shape: Any, dtype: Any = float) -> Recorded:
        return Recorded(np.zeros(shape, dtype))              # zeros: both runs (graphs.py) need equal constants

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
    if name in VIEWS:
        return VIEWS[name](*args, **kwargs)
    if name == "copyto":
        target, new = args
        return target.assign(module.where(kwargs["where"], new, target) if kwargs else new)
    out = kwargs.pop("out", None)
    host = numpy(*_each("host", args), **{key: _each("host", value) for key, value in kwargs.items()})
    is_computed = name not in ("zeros_like", "ones_like", "full_like") and any(not x.constant for x in _arrays(args))
    if not is_computed:
        result = [Recorded(h) for h in host] if isinstance(host, list | tuple) else Recorded(np.asarray(host))
    elif name not in FUNCTIONS:
        raise NoGraphError(f"calls {name}, which FUNCTIONS of {HERE.name}/functions.py does not know")
    else:
        contents = {key: _each("content", value) for key, value in kwargs.items()}
        content = FUNCTIONS[name](np.asarray(host), *_each("content", args), **contents)
        result = Recorded(host if isinstance(host, np.ndarray) else np.array(host), content)
    return result if out is None else out.assign(result)


def _reshaped(x: Recorded, shape: Any) -> Recorded:
    host, old = x.host.reshape(shape), x.shape
    return _view(x, host, lambda content: reshape(content, host.shape), lambda content: reshape(content, old))


def _transposed(x: Recorded, axes: Any = None) -> Recorded:
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(axes)
    inverse = tuple(int(a) for a in np.argsort(axes))
    return _view(x, x.host.transpose(axes), lambda content: transpose(content, axes), lambda c: transpose(c, inverse))


def _swapped(x: Recorded, one: int, two: int) -> Recorded:
    axes = list(range(x.ndim))
    axes[one], axes[two] = axes[two], axes[one]
    return _transposed(x, axes)


def _moved(x: Recorded, source: int, destination: int) -> Recorded:
    axes = list(range(x.ndim))
    axes.insert(destination % x.ndim, axes.pop(source))
    return _transposed(x, axes)


def _view(x: Recorded, host: np.ndarray, forward: Any, inverse: Any) -> Recorded:
    """A view of x by a ViewMap; where NumPy had to copy, a new array."""
    shared = np.shares_memory(host, x.host)
    return Recorded(host, of=(x, ViewMap(forward, inverse))) if shared else Recorded(host, forward(x.content))


VIEWS: dict[str, Callable[..., Any]] = {
    "reshape": _reshaped, "transpose": _transposed, "swapaxes": _swapped, "moveaxis": _moved,
}  # fmt: skip


def _arrays(x: Any) -> list[Recorded]:
    if isinstance(x, Recorded):
        return [x]
    return [array for part in x for array in _arrays(part)] if isinstance(x, list | tuple) else []


def _each(attribute: str, x: Any) -> Any:
    """x with every `Recorded` in it replaced by its `host` or `content`."""
    if isinstance(x, list | tuple):
        return type(x)(_each(attribute, part) for part in x)
    return getattr(x, attribute) if isinstance(x, Recorded) else x
