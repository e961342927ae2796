"""An array module that does what CuPy does, with NumPy's numbers, and nothing that CuPy does not.

It refuses NumPy's functions on its arrays; host arrays, lists and tuples beside its own; names, keywords, methods of
ufuncs and sorting algorithms that CuPy lacks; iteration over rows, boolean-mask indexing, repeated ids in an assignment
or in a sum narrower than float64, writes into a broadcast, and memory that is not aligned. It wraps ids out of range
silently, fills `empty` with NaN, adds duplicates in a shuffled order, and counts calls, synchronisations and transfers.
`backend.register(StrictArray, strict, "strict")` makes it a device.

`with Step(like=...)` refuses what could not be recorded once and launched again: a transfer, a wait, and a call that
differs from the same call of the step before in its name, in sizes, or in a Python number. `launch` does it again.
"""

import ctypes
import json
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import tinyattn
from tests.record_cupy import SURFACE

CUPY = json.loads(SURFACE.read_text())
COUNTS: Counter[str] = Counter()
_ORDER = np.random.default_rng(0)
_FIRST = _ORDER.bit_generator.state
_LIBRARY = Path(tinyattn.__file__).parent


def begin() -> None:
    """Add in the orders of a new process: a test's verdict must not depend on the tests before it."""
    _ORDER.bit_generator.state = _FIRST


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


_STEP: "Step | None" = None
_POOL: "_MemoryPool | None" = None


class Step:
    """A context that records the calls inside it as a graph would: their arrays by place, everything else by value."""

    def __init__(self, like: "Step | None" = None, captures: bool = False):
        self.like, self.captures = like, captures
        self.calls: list[Any] = []
        self.places: Counter[str] = Counter()
        self._again: list[Any] = []
        self._before: list[Any] = []

    def __enter__(self) -> "Step":
        global _STEP
        assert _STEP is None
        _STEP = self
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        global _STEP
        _STEP = None
        for host, was in reversed(self._before):  # while a stream is captured, nothing is computed
            host[...] = was
        if kind is None and self.like is not None and len(self.calls) != len(self.like.calls):
            raise StrictError(f"a step of {len(self.calls)} calls after one of {len(self.like.calls)}")

    def note(self, name: str, again: Any, arguments: Any, result: Any) -> None:
        call = name, _looks(arguments), _looks(result)
        self.calls.append(call)
        self.places[_file_that_asked()] += 1
        known = call if self.like is None else (self.like.calls[len(self.calls) - 1 :] or [None])[0]
        if known != call:
            raise StrictError(f"{call} where the step before had {known}: a recorded step would repeat the latter")
        self._again.append((again, result))

    def keep(self, x: Any) -> None:
        """What arrays hold before a call that a stream captures."""
        if isinstance(x, StrictArray) and x.host.flags.writeable:
            self._before.append((x.host, x.host.copy()))
        for part in x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ():
            self.keep(part)

    def launch(self) -> None:
        """Everything again, on the same memory, in one call."""
        COUNTS["calls"] += 1
        for again, result in self._again:
            _put(again(), result)


def _file_that_asked() -> str:
    """The file of the library from which the double was called, past the helpers that many ops share."""
    frame, library = sys._getframe(1).f_back, f"{_LIBRARY}/"
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(library) and not path.endswith("ops/shapes.py"):
            return path.removeprefix(library)
        frame = frame.f_back
    return "?"


def _refuse_in_a_step(what: str) -> None:
    if _STEP is not None:
        raise StrictError(f"{what} inside a step: a recorded one can have none")


_PRODUCTS = ("__matmul__", "__rmatmul__", "matmul", "dot", "einsum", "inner", "tensordot", "vdot")


def _refuse_product(name: str) -> None:
    if _STEP is not None and _STEP.captures and name in _PRODUCTS:
        raise NotImplementedError(f"{name}: CuPy calls no cuBLAS while it captures")


def _looks(x: Any) -> Any:
    """An array as its size and dtype; anything else as it is."""
    if isinstance(x, StrictArray | np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    if isinstance(x, dict):
        return {key: _looks(part) for key, part in x.items()}
    return [_looks(part) for part in x] if isinstance(x, list | tuple) else repr(x)


def _put(new: Any, there: Any) -> None:
    if isinstance(there, StrictArray):
        if not np.may_share_memory(new, there.host):  # a view of its argument is there already
            there.host[...] = new
    elif isinstance(there, tuple):
        for part, into in zip(new, there, strict=True):
            _put(part, into)


def _launched(name: str, compute: Any, *arguments: Any) -> Any:
    """What `compute` returns, as arrays of the double: one call."""
    COUNTS["calls"] += 1
    if _STEP is not None and _STEP.captures:
        _STEP.keep(arguments)
    result = _wrapped(compute())
    if _STEP is not None:
        _STEP.note(name, compute, arguments, result)
    return _kept(result)


def _kept(result: Any) -> Any:
    if _POOL is not None:
        _POOL.kept.append(result)
    return result


def _unwrapped(x: Any, what: str) -> Any:
    if isinstance(x, StrictArray):
        return x.host
    if isinstance(x, np.ndarray | np.generic):
        raise StrictError(f"{what}: {_HOST}")
    if isinstance(x, list | tuple):
        kind = type(x).__name__
        raise StrictError(f"{what}: a {kind} among device arrays: CuPy takes none; xp.asarray carries it over")
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
        if not host.flags.aligned:
            raise StrictError(
                f"{host.dtype} that begins between multiples of its size: reading it there is an error that no later "
                "call of the process survives"
            )
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
    itemsize = property(lambda self: self.host.itemsize)
    strides = property(lambda self: self.host.strides)
    flags = property(lambda self: self.host.flags)
    data = property(lambda self: SimpleNamespace(ptr=self.host.ctypes.data))
    T = property(lambda self: StrictArray(self.host.T))

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Any:
        raise StrictError("iteration over a device array: one launch a row, and a wait for each")

    def get(self) -> np.ndarray:
        _refuse_in_a_step("get()")
        COUNTS["synchronisations"] += 1
        return self.host.copy()

    def _scalar(self, kind: type) -> Any:
        _refuse_in_a_step(f"{kind.__name__}() of a device array")
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

    def reshape(self, *shape: Any) -> "StrictArray":
        there = self.host.reshape(*shape)
        if np.shares_memory(there, self.host) or not there.size:
            return StrictArray(there)
        return _launched("reshape", lambda: self.host.reshape(*shape), self, shape)      # a copy

    def swapaxes(self, one: int, two: int) -> "StrictArray":
        return StrictArray(self.host.swapaxes(one, two))

    def view(self, dtype: Any) -> "StrictArray":
        return StrictArray(self.host.view(dtype))

    def astype(self, dtype: Any, copy: bool = True) -> "StrictArray":
        return _launched("astype", lambda: self.host.astype(dtype, copy=copy), self, dtype)

    def copy(self) -> "StrictArray":
        return _launched("copy", self.host.copy, self)

    def __getitem__(self, key: Any) -> "StrictArray":
        taking = any(isinstance(part, StrictArray) for part in (key if isinstance(key, tuple) else (key,)))
        if taking:
            return _launched("take", lambda: np.asarray(self.host[self._key(key)]), self, key)
        parts = key if isinstance(key, tuple) else (key,)
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)               # a single number is a view, too
        return StrictArray(self.host[self._key(parts)])

    def __setitem__(self, key: Any, value: Any) -> None:
        _unwrapped(value, "assignment")

        def assign() -> None:
            where = self._key(key)
            _refuse_duplicates(where)
            self.host[where] = _unwrapped(value, "assignment")

        _refuse_broadcast(self)
        _launched("assignment", assign, self, key, value)

    def _key(self, key: Any) -> Any:
        """Ids out of range wrap around, as they do there."""
        parts = key if isinstance(key, tuple) else (key,)
        found, axis = [], 0
        for part in parts:
            part = part if isinstance(part, list | tuple) else _unwrapped(part, "an index")
            if isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == bool):
                raise StrictError("a boolean mask or a list as an index: it must be looked at before anything is done")
            if isinstance(part, np.ndarray) and Ellipsis not in [p for p in parts if p is Ellipsis]:
                part = _around(part, self.host.shape[axis])
            axis += part is not None
            found.append(part)
        return tuple(found) if isinstance(key, tuple) else found[0]


def _around(ids: np.ndarray, size: int) -> np.ndarray:
    return ids.astype(np.int64) % size if size else ids


def _refuse_duplicates(key: Any) -> None:
    arrays = [part for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, np.ndarray)]
    if arrays:
        places = np.stack([part.reshape(-1) for part in np.broadcast_arrays(*arrays)])
        if np.unique(places, axis=1).shape[1] < places.shape[1]:
            raise StrictError("assignment to ids of which some repeat: which one wins is not defined; use xp.add.at")


def _refuse_broadcast(x: StrictArray) -> None:
    if not x.host.flags.writeable:
        raise StrictError("a write into a broadcast: CuPy ignores read-only flags and writes to shared memory")


def _operator(name: str) -> Any:
    def apply(self: StrictArray, *others: Any) -> Any:
        _refuse_product(name)
        operands = [_unwrapped(other, name) for other in others]
        if name.startswith("__i") and name != "__invert__":
            _refuse_broadcast(self)
        result = _launched(name, lambda: getattr(self.host, name)(*operands), self, others)
        return self if result is not NotImplemented and result.host is self.host else result

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


_WHOLE = {"int32", "int64", "uint32", "uint64"}
# The dtypes that each ufunc's `at` takes: there is an atomic operation for these.
_AT = {
    "add": _WHOLE | {"float16", "float32", "float64"},
    "subtract": {"int32", "uint32"},
    "maximum": _WHOLE | {"float32", "float64"},
    "minimum": _WHOLE | {"float32", "float64"},
    "bitwise_and": _WHOLE,
    "bitwise_or": _WHOLE,
    "bitwise_xor": _WHOLE,
}
# The ufuncs that have a method, where not all have it, and what the method takes.
METHODS = {
    "at": (_AT.keys(), ["a", "indices", "b"]),
    "reduce": ({"add", "multiply"}, ["array", "axis", "dtype", "out", "keepdims"]),
    "accumulate": ({"add", "multiply"}, ["array", "axis", "dtype", "out"]),
    "reduceat": ({"add"}, ["array", "indices", "axis", "dtype", "out"]),
}


def has_method(ufunc: str, method: str) -> bool:
    return method in CUPY["of ufuncs"] and ufunc in METHODS.get(method, ({ufunc},))[0]


class _Ufunc:
    """A ufunc and the methods that CuPy's have."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self.name, getattr(np, self.name), args, kwargs)

    def __getattr__(self, method: str) -> Any:
        if not has_method(self.name, method):
            raise StrictError(f"CuPy's {self.name} has no {method}")
        if method == "at":
            return self._at
        f = getattr(getattr(np, self.name), method)
        return lambda *args, **kwargs: _call(f"{self.name}.{method}", f, args, kwargs)

    def _at(self, x: StrictArray, ids: StrictArray, values: Any) -> None:
        """In any order, as atomic additions are. Shapes: ids (N,), values onto (N, ...), for the first axis of x."""
        name = f"{self.name}.at"
        if str(x.dtype) not in _AT[self.name]:
            raise StrictError(f"CuPy's {name} takes no {x.dtype}")
        _refuse_broadcast(x)

        def add() -> None:
            where = _around(_unwrapped(ids, name), len(x.host))
            if self.name == "add" and x.dtype in (np.float16, np.float32) and len(np.unique(where)) < where.size:
                raise StrictError(f"{name}: {x.dtype} sums of repeated ids differ from run to run: add in float64")
            order = _ORDER.permutation(len(where))
            what = np.broadcast_to(_unwrapped(values, name), (*where.shape, *x.host.shape[1:]))
            getattr(np, self.name).at(x.host, where[order], what[order])

        _launched(name, add, x, ids, values)


# Their result's size is known on the device only, or they look at values before they go on.
_SYNCHRONISE = {
    *("argwhere", "array_equal", "bincount", "compress", "delete", "extract", "flatnonzero", "histogram"),
    *("histogram2d", "histogramdd", "mask_indices", "nanmax", "nanmin", "nonzero", "place", "trim_zeros", "unique"),
    "unravel_index",
}
# Arguments that may be a list or a tuple: of numbers, which say how to compute, or of arrays.
_SAYS_HOW = {
    *("axes", "axis", "destination", "dims", "indices_or_sections", "kth", "newshape", "pad_width", "reps", "shape"),
    *("shift", "source"),
}
_OF_ARRAYS = {"arrays", "tup"}


def _call(name: str, f: Any, args: Any, kwargs: Any) -> Any:
    method = name.partition(".")[2]
    takes = METHODS[method][1] if method in METHODS else CUPY["names"].get(name, {}).get("arguments")
    if takes is not None:
        unknown = [k for k in kwargs if k not in takes]
        if unknown:
            raise StrictError(f"CuPy's {name} takes no {unknown[0]}=")
    places = ["*"] * len(args) if takes is None or "args" in takes else [*takes, *["*"] * len(args)]
    if name in _SYNCHRONISE or (name == "where" and len(args) + len(kwargs) == 1):
        _refuse_in_a_step(name)
        COUNTS["synchronisations"] += 1
    if isinstance(kwargs.get("out"), StrictArray):
        _refuse_broadcast(kwargs["out"])
    given = [_argument(x, place, name) for place, x in zip(places, args, strict=False)]
    _refuse_product(name)
    named = {k: _argument(x, k, name) for k, x in kwargs.items()}
    return _launched(name, lambda: f(*given, **named), args, kwargs)


def _argument(x: Any, place: str, name: str) -> Any:
    """What NumPy is given for the argument x, whose name is `place`."""
    if isinstance(x, list | tuple) and place in _SAYS_HOW:
        return x
    if isinstance(x, list | tuple) and place in _OF_ARRAYS:
        return [_unwrapped(part, name) for part in x]
    return _unwrapped(x, name)


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    return np.take(a, indices, axis=axis, out=out, mode="wrap")


def _take_along_axis(a: Any, indices: Any, axis: Any) -> Any:
    return np.take_along_axis(a, _around(indices, a.shape[axis]), axis)


def _stable(name: str) -> Any:
    """`sort` or `argsort`: there is one algorithm, which keeps the order of equal values."""

    def apply(a: Any, axis: Any = -1, kind: Any = None) -> Any:
        if kind not in (None, "stable"):
            raise StrictError(f'CuPy\'s {name} takes no kind={kind!r}: None, or "stable", which is the same')
        return getattr(np, name)(a, axis=axis, kind="stable")

    return apply


_OTHERWISE = {
    "take": _take,
    "take_along_axis": _take_along_axis,
    "sort": _stable("sort"),
    "argsort": _stable("argsort"),
}


class _MemoryPool:
    """What is allocated from it is not freed before it: a graph goes by addresses."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def malloc(self) -> "_MemoryPool":
        return self


@contextmanager
def _using_allocator(malloc: Any) -> Any:
    global _POOL
    before, _POOL = _POOL, malloc()
    try:
        yield
    finally:
        _POOL = before


class _Stream:
    """A stream that records. The double computes at once."""

    ptr = 1

    def __init__(self, non_blocking: bool = False):
        self._step: Step | None = None

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        _refuse_in_a_step("synchronize()")

    def begin_capture(self) -> None:
        self._step = Step(captures=True).__enter__()

    def end_capture(self) -> Step:
        self._step.__exit__(None)
        return self._step


class Cublas:
    """The calls of cuBLAS that `training.recording` makes, on the memory that it names."""

    def cublasCreate_v2(self, handle: Any) -> int:
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, room: Any, size: Any) -> int:
        return 0

    def cublasSgemmStridedBatched(self, *arguments: Any) -> int:
        return self._gemm(np.dtype("f"), *arguments)

    def cublasDgemmStridedBatched(self, *arguments: Any) -> int:
        return self._gemm(np.dtype("d"), *arguments)

    def _gemm(
        self, dtype: Any, handle: Any, is_a: int, is_b: int, m: int, n: int, k: int, alpha: Any, a: Any, lda: int,
        step_a: Any, b: Any, ldb: int, step_b: Any, beta: Any, c: Any, ldc: int, step_c: Any, count: int,
    ) -> int:  # fmt: skip
        if lda < max(1, k if is_a else m) or ldb < max(1, n if is_b else k) or ldc < max(1, m):
            return 7  # CUBLAS_STATUS_INVALID_VALUE

        def matrices(x: Any, shape: tuple[int, int], ld: int, step: Any, is_turned: int) -> np.ndarray:
            steps = [step.value, *((ld, 1) if is_turned else (1, ld))]
            size = 1 + sum((n - 1) * s for n, s in zip((count, *shape), steps, strict=True))
            raw = (ctypes.c_char * (size * dtype.itemsize)).from_address(x.value)
            return np.ndarray((count, *shape), dtype, raw, strides=[s * dtype.itemsize for s in steps])

        def compute() -> None:
            y = matrices(a, (m, k), lda, step_a, is_a) @ matrices(b, (k, n), ldb, step_b, is_b)
            matrices(c, (m, n), ldc, step_c, 0)[...] = y

        _launched("gemm", compute, dtype, is_a, is_b, m, n, k, lda, step_a.value, ldb, step_b.value, ldc, count)
        return 0


class _Module:
    """`xp`: CuPy's names and no others."""

    __name__ = "strict"
    ndarray = StrictArray
    cuda = SimpleNamespace(
        Stream=_Stream,
        MemoryPool=_MemoryPool,
        using_allocator=_using_allocator,
        get_current_stream=_Stream,
    )

    def asarray(self, x: Any, dtype: Any = None) -> StrictArray:
        """The one door from the host."""
        if not isinstance(x, StrictArray):
            _refuse_in_a_step("a transfer")
            COUNTS["transfers"] += 1
            return _kept(StrictArray(np.array(x, dtype=dtype)))
        return x if dtype in (None, x.dtype) else x.astype(dtype)

    def empty(self, shape: Any, dtype: Any = float) -> StrictArray:
        filling = np.nan if np.dtype(dtype).kind == "f" else 77
        return _launched("empty", lambda: np.full(shape, filling, dtype), shape, dtype)

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
