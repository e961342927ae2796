"""Record CuPy's names and signatures as JSON, for machines that have no CuPy:

    python tests/record_cupy.py            writes tests/cupy_surface.json

CuPy imports without a driver, so no device is needed. A test holds every `xp.name(keyword=...)` of the library to it.
"""

import inspect
import json
from operator import attrgetter
from pathlib import Path
from typing import Any

from tinyattn.files import write_atomically

SURFACE = Path(__file__).parent / "cupy_surface.json"
# Functions that are written with **kwargs and take only these.
BY_HAND = {
    "einsum": ["args", "dtype", "optimize"],
    "pad": ["array", "pad_width", "mode", "constant_values", "end_values", "reflect_type", "stat_length"],
}
MODULES = ("", "linalg", "random", "fft")
OF_CUDA = ("MemoryPool", "Stream", "get_current_stream", "runtime.runtimeGetVersion", "using_allocator")  # of hundreds


def record() -> dict[str, Any]:
    """-> {"version": .., "names": {"sum": {"kind": "function", "arguments": [..]}, ...}}; None: any keyword."""
    import importlib

    import cupy

    names: dict[str, Any] = {}
    for part in MODULES:
        module = importlib.import_module(f"cupy.{part}") if part else cupy
        for name in sorted(vars(module)):
            found = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(found):
                continue
            names[f"{part}.{name}" if part else name] = _described(found)
    names |= {f"cuda.{name}": _described(attrgetter(name)(cupy.cuda)) for name in OF_CUDA}
    for name, arguments in BY_HAND.items():
        names[name]["arguments"] = arguments
    methods = [name for name in dir(cupy.ndarray) if not name.startswith("__")]
    of_ufuncs = sorted(name for name in dir(cupy.add) if not name.startswith("_"))
    return {"version": cupy.__version__, "names": names, "methods": sorted(methods), "of ufuncs": of_ufuncs}


UFUNC = ["x", "out", "dtype", "casting"]  # what CuPy's ufuncs take: no `where`, unlike NumPy's


def _described(found: Any) -> dict[str, Any]:
    if type(found).__name__ == "ufunc":
        return {"kind": "ufunc", "arguments": UFUNC}
    if inspect.isclass(found):
        return {"kind": "class", "arguments": None}
    if not callable(found):
        return {"kind": "value", "arguments": None}
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return {"kind": "function", "arguments": None}
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return {"kind": "function", "arguments": None}
    return {"kind": "function", "arguments": [p.name for p in parameters]}


if __name__ == "__main__":
    found = record()
    write_atomically(SURFACE, (json.dumps(found, indent=0, sort_keys=True) + "\n").encode())
    print(f"CuPy {found['version']}: {len(found['names'])} names in {SURFACE}")
