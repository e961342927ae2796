"""Recording calls of a device to launch all of them at once: CUDA graphs, by CuPy (`xp.cuda`).

CuPy refuses its matrix products while it records: they are calls of cuBLAS, of which it has not tested which may be
recorded. NVIDIA says that products may, so here they are made by cuBLAS without CuPy, inside a recording alone.
"""

import ctypes
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from typing import Any

from ..backend import Array

PROVEN: tuple[str, ...] = ()       # the GPUs for which benchmarks/gpu_steps.py found equal numbers
WORKSPACE = 1 << 25                # bytes; without one, cuBLAS would allocate while it is recorded
_load = cache(ctypes.CDLL)         # a library is one object: `_handle` is kept by it


class CannotRecordError(Exception):
    """The device does not record these calls; the message says why."""


def record(whole: Callable[[], None], xp: Any) -> Callable[[], None]:
    """Calls `whole`, records a second call, which computes nothing, and returns what launches the record.

    Both calls allocate from a pool that nothing else uses: a launch writes to the same memory again. Raises
    CannotRecordError where either fails; arrays may then hold what a part of the first call has written.
    """
    _forget_tables()
    xp.cuda.get_current_stream().synchronize()
    stream, pool = xp.cuda.Stream(non_blocking=True), xp.cuda.MemoryPool()
    try:
        with xp.cuda.using_allocator(pool.malloc), stream, _products(xp, stream) as kept:
            whole()                # compiles kernels, loads libraries, and fills the pool
            stream.begin_capture()
            try:
                whole()
            except BaseException:
                with suppress(Exception):
                    stream.end_capture()
                raise
            graph = stream.end_capture()
        stream.synchronize()
    except Exception as error:     # a driver, a library or too little memory: whatever it is, the step can be computed
        with suppress(Exception):
            stream.synchronize()   # else the first call might go on writing after this
        raise CannotRecordError(f"{type(error).__name__}: {error}") from error

    def launch(_: Any = (stream, pool, kept)) -> None:         # which live as long as the graph
        graph.launch()

    return launch


def _forget_tables() -> None:
    """Empty the bounded caches of this package. Tables that a step reads are then made in the pool of its recording.

    There they stay while the graph lives, also after a cache has dropped them.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("tinyattn.")]
    for f in [f for module in modules for f in vars(module).values() if hasattr(f, "cache_parameters")]:
        if f.cache_parameters()["maxsize"] is not None:
            f.cache_clear()


@contextmanager
def _products(xp: Any, stream: Any) -> Iterator[Any]:
    """A context in which `@` and `xp.matmul` of this module are `product`. -> the memory that recorded ones use."""
    library = cublas(xp)
    handle, room = _handle(library), xp.empty(WORKSPACE, dtype=xp.uint8)
    _call(library.cublasSetStream_v2, handle, ctypes.c_void_p(stream.ptr))       # first: it resets the workspace
    _call(library.cublasSetWorkspace_v2, handle, ctypes.c_void_p(room.data.ptr), ctypes.c_size_t(WORKSPACE))

    def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
        y = product(xp, library, handle, a, b)
        if out is None:
            return y
        out[...] = y
        return out

    operator, function = xp.ndarray.__matmul__, xp.matmul
    xp.ndarray.__matmul__, xp.matmul = matmul, matmul
    try:
        yield room
    finally:
        xp.ndarray.__matmul__, xp.matmul = operator, function


def cublas(xp: Any) -> Any:
    """The library that CuPy has loaded."""
    return _load(f"libcublas.so.{xp.cuda.runtime.runtimeGetVersion() // 1000}")


@cache
def _handle(library: Any) -> Any:
    """One for all recordings: each would keep memory of the device."""
    handle = ctypes.c_void_p()
    _call(library.cublasCreate_v2, ctypes.byref(handle))
    return handle


def _call(function: Any, *arguments: Any) -> None:
    if status := function(*arguments):
        raise RuntimeError(f"{getattr(function, '__name__', 'cuBLAS')} answers {status}")


def product(xp: Any, library: Any, handle: Any, a: Array, b: Array) -> Array:
    """y = a @ b, as by `numpy.matmul`, in one call of cuBLAS. Shapes: (..., n, k), (..., k, m) -> (..., n, m).

    cuBLAS numbers a matrix by columns: the memory of a row-major b is its bᵀ. So it is asked for yᵀ = bᵀ aᵀ.
    """
    if a.ndim == 1 or b.ndim == 1:
        y = product(xp, library, handle, a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b)
        y = y[..., 0, :] if a.ndim == 1 else y
        return y[..., 0] if b.ndim == 1 else y
    if a.dtype != b.dtype or a.dtype.char not in "fd":
        raise TypeError(f"a recorded product of {a.dtype} and {b.dtype}, expected float32 or float64 for both")
    axes = max(a.ndim, b.ndim) - 2
    padded = [(1,) * (axes - x.ndim + 2) + x.shape[:-2] for x in (a, b)]
    lead = tuple(two if one == 1 else one for one, two in zip(*padded, strict=True))
    n, k, m = a.shape[-2], a.shape[-1], b.shape[-1]
    y, count = xp.empty((*lead, n, m), dtype=a.dtype), math.prod(lead)
    if not k:
        y[...] = 0
    elif y.size:
        (a, is_a, lda, step_a), (b, is_b, ldb, step_b) = (_strided(xp, x, lead) for x in (a, b))
        number = ctypes.c_float if a.dtype.char == "f" else ctypes.c_double
        name = "cublasSgemmStridedBatched" if a.dtype.char == "f" else "cublasDgemmStridedBatched"
        _call(getattr(library, name), handle, is_b, is_a, m, n, k, ctypes.byref(number(1)),
              ctypes.c_void_p(b.data.ptr), ldb, ctypes.c_longlong(step_b),
              ctypes.c_void_p(a.data.ptr), lda, ctypes.c_longlong(step_a), ctypes.byref(number(0)),
              ctypes.c_void_p(y.data.ptr), m, ctypes.c_longlong(n * m), count)  # fmt: skip
    return y


def _strided(xp: Any, x: Array, lead: tuple[int, ...]) -> tuple[Array, int, int, int]:
    """-> x or a copy, with these leading axes; is it transposed? the steps from row to row, from matrix to matrix."""
    x = x if x.shape[:-2] == lead else xp.broadcast_to(x, (*lead, *x.shape[-2:]))
    if (numbers := _steps(x)) is None:
        x = xp.ascontiguousarray(x)
        numbers = _steps(x)
        assert numbers is not None
    return x, *numbers


def _steps(x: Array) -> tuple[int, int, int] | None:
    """The numbers of `_strided`, of which cuBLAS takes one each; None where it would take more."""
    *steps, row, column = (step // x.itemsize for step in x.strides)
    axes = [(size, step) for size, step in zip(x.shape[:-2], steps, strict=True) if size > 1]
    between, (height, width) = axes[-1][1] if axes else 0, x.shape[-2:]
    if between < 0 or any(one != size * two for (_, one), (size, two) in pairwise(axes)):
        return None
    if (column == 1 or width == 1) and (row >= width or height == 1):
        return 0, row if height > 1 else width, between
    if (row == 1 or height == 1) and (column >= height or width == 1):
        return 1, column if width > 1 else height, between
    return None
