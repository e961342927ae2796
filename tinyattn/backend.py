"""Which array module do these arrays belong to? The only file that knows CuPy.

The data decides: an op asks `xp = get_xp(x, ...)` and writes `xp.exp(x)`; the same line then runs on the CPU
or on the GPU. There is no global switch that could disagree with the arrays at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any        # a NumPy or CuPy array; docstrings give its shape

_MODULES: dict[type, Any] = {np.ndarray: np, np.generic: np}      # a NumPy scalar is an array without axes
_TOGETHER: dict[tuple[type, ...], Any] = {}                       # what `get_xp` found: the types alone decide
_DEVICES: dict[str, Any] = {"cpu": np}
DEVICES = ("cpu", "gpu")


def register(array_type: type, module: Any, device: str | None = None) -> None:
    """Let arrays of `array_type` be computed by `module`, which offers NumPy's functions under NumPy's names.

    With `device`, that is the name under which `module_for` finds the module.
    """
    _MODULES[array_type] = module
    _TOGETHER.clear()
    if device is not None:
        _DEVICES[device] = module


def _module_of(x: Any) -> Any:
    for cls in type(x).__mro__:
        if cls in _MODULES:
            return _MODULES[cls]
    cupy = sys.modules.get("cupy")  # a CuPy array can only exist where CuPy has been imported
    if cupy is not None and isinstance(x, cupy.ndarray):
        register(cupy.ndarray, cupy)
        return cupy
    raise TypeError(f"expected an array, got {type(x).__name__}: convert it first, e.g. with numpy.asarray")


def get_xp(*arrays: Any) -> Any:
    """The module (numpy, cupy, ...) that all the arrays belong to. None is passed over.

    Raises TypeError for anything that is no array, and for arrays of two modules at once: a silent transfer
    between host and device would be slow where nobody looks for it.
    """
    kinds = tuple(map(type, arrays))
    found = _TOGETHER.get(kinds)
    if found is None:
        found = _TOGETHER[kinds] = _module_of_all(arrays)
    return found


def _module_of_all(arrays: Sequence[Any]) -> Any:
    found = None
    for x in arrays:
        if x is None:
            continue
        module = _MODULES.get(type(x)) or _module_of(x)
        if found is None:
            found = module
        elif found is not module:
            raise TypeError(f"arrays of {found.__name__} and of {module.__name__} in one call: convert one of them")
    if found is None:
        raise TypeError("expected at least one array")
    return found


def module_for(device: str) -> Any:
    """NumPy for "cpu", CuPy for "gpu". Raises ValueError, saying what is missing, where that cannot work."""
    if device in _DEVICES:
        return _DEVICES[device]
    if device != "gpu":
        raise ValueError(f"device is {device!r}, expected one of {', '.join(DEVICES)}")
    try:
        import cupy
    except ImportError:
        raise ValueError("device gpu needs CuPy: pip install -e '.[gpu]' in the checkout, or use device cpu") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if count == 0:
        raise ValueError("device gpu: CuPy is installed but finds no CUDA device; use device cpu")
    register(cupy.ndarray, cupy, "gpu")
    return cupy


def on_host(xp: Any) -> bool:
    """Does `xp` compute here, at once? Elsewhere a result that Python looks at has to be waited for and fetched."""
    return xp is np


def overflow_is_meant() -> AbstractContextManager[Any]:
    """A context in which NumPy does not warn where a number gets too large. Others never do."""
    return np.errstate(over="ignore")


def asarray(x: Any, like: Any) -> Any:
    """`x`, a host array, in the module of the array `like`; None stays None."""
    return None if x is None else get_xp(like).asarray(x)


def transfer(arrays: Sequence[np.ndarray], xp: Any) -> list[Any]:
    """Host arrays in the module `xp`, in one transfer: their bytes travel end to end, and each becomes a view there."""
    if on_host(xp):
        return list(arrays)
    sizes = [-(-a.nbytes // 8) * 8 for a in arrays]                    # so that each begins where any dtype may begin
    starts = (np.cumsum(sizes) - sizes).tolist()
    whole = np.zeros(sum(sizes), dtype=np.uint8)
    for start, a in zip(starts, arrays, strict=True):
        whole[start : start + a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    there = xp.asarray(whole)
    return [
        there[start : start + a.nbytes].view(a.dtype).reshape(a.shape) for start, a in zip(starts, arrays, strict=True)
    ]


def to_numpy(x: Any) -> np.ndarray:
    """`x` as a NumPy array on the host."""
    return x.get() if hasattr(x, "get") else np.asarray(x)
