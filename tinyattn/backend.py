"""Which array module do these arrays belong to? The only file that imports CuPy.

An op sets `xp = get_xp(x, ...)` and writes `xp.exp(x)`; the same line then runs on the CPU or on the GPU, depending
on the arrays. There is no global switch.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any        # a NumPy or CuPy array; docstrings give its shape

_MODULES: dict[type, Any] = {np.ndarray: np, np.generic: np}      # a NumPy scalar is an array without axes
_TOGETHER: dict[tuple[type, ...], Any] = {}                       # results of `get_xp`, by the types of the arrays
_DEVICES: dict[str, Any] = {"cpu": np}
DEVICES = ["cpu", "gpu"]                                          # the names that `--device` takes


def register(array_type: type, module: Any, device: str | None = None) -> None:
    """Make `get_xp` return `module` for arrays of `array_type`. The module has NumPy's functions under NumPy's names.

    Where `device` is given, `module_for(device)` returns the module, too.
    """
    _MODULES[array_type] = module
    _TOGETHER.clear()
    if device is not None:
        _DEVICES[device] = module
        if device not in DEVICES:
            DEVICES.append(device)


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
    """The module (numpy, cupy, ...) that all the arrays belong to. None is ignored.

    Raises TypeError for anything that is not an array, and for arrays of two modules: an implicit transfer between
    host and device would be slow.
    """
    kinds = tuple(map(type, arrays))
    if (module := _TOGETHER.get(kinds)) is None:
        module = _TOGETHER[kinds] = _module_of_all(arrays)
    return module


def _module_of_all(arrays: Sequence[Any]) -> Any:
    common = None
    for x in arrays:
        if x is None:
            continue
        module = _MODULES.get(type(x)) or _module_of(x)
        if common is None:
            common = module
        elif common is not module:
            raise TypeError(f"arrays of {common.__name__} and of {module.__name__} in one call: convert one of them")
    if common is None:
        raise TypeError("expected at least one array")
    return common


def module_for(device: str) -> Any:
    """NumPy for "cpu", CuPy for "gpu". Raises ValueError, which says what is missing, if the device cannot be used."""
    if device in _DEVICES:
        return _DEVICES[device]
    if device != "gpu":
        raise ValueError(f"device is {device!r}, expected one of {', '.join(DEVICES)}")
    try:
        import cupy
    except ModuleNotFoundError:
        raise ValueError("device gpu needs CuPy: pip install -e '.[gpu]' in the checkout, or use device cpu") from None
    except ImportError as error:                                     # such as a missing CUDA library
        raise ValueError(f"device gpu: CuPy is installed and cannot be imported: {error}") from None
    count, why = 0, "none was found"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:              # such as a driver that is too old
        why = str(error)
    if count == 0:
        raise ValueError(f"device gpu: CuPy is installed but finds no CUDA device ({why}); use device cpu")
    register(cupy.ndarray, cupy, "gpu")
    return cupy


def device_name(device: str) -> str:
    """The product name of a GPU; for any other device, `device` itself. Raises ValueError as `module_for` does."""
    module = module_for(device)
    return module.cuda.runtime.getDeviceProperties(0)["name"].decode() if device == "gpu" else device


def is_numpy(xp: Any) -> bool:
    """Is `xp` NumPy? Otherwise arrays are on a device, and reading a value waits for the device."""
    return xp is np


def overflow_is_meant() -> AbstractContextManager[Any]:
    """A context in which NumPy does not warn of overflow. Other modules never do."""
    return np.errstate(over="ignore")


def asarray(x: np.ndarray | None, like: Array) -> Array:
    """The host array `x` as an array of the module of `like`; None stays None."""
    return None if x is None else get_xp(like).asarray(x)


def transfer(arrays: Sequence[np.ndarray], xp: Any) -> list[Array]:
    """Host arrays as arrays of the module `xp`. Their bytes are sent together, in one transfer; each becomes a view."""
    if is_numpy(xp):
        return list(arrays)
    sizes = [-(-a.nbytes // 8) * 8 for a in arrays]                    # multiples of 8: any dtype may begin there
    starts = (np.cumsum(sizes) - sizes).tolist()
    whole = np.zeros(sum(sizes), dtype=np.uint8)
    for start, a in zip(starts, arrays, strict=True):
        whole[start : start + a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    there = xp.asarray(whole)
    return [
        there[start : start + a.nbytes].view(a.dtype).reshape(a.shape) for start, a in zip(starts, arrays, strict=True)
    ]


def to_numpy(x: Array) -> np.ndarray:
    """`x` as a NumPy array on the host."""
    return x.get() if hasattr(x, "get") else np.asarray(x)
