"""The bug zoo: right implementations, and what every known bug changes in their code.

One file per spec, with `BUGS` and `make(switches) -> implementation with these bugs`; switches can be combined.
"""

import importlib
import pkgutil
from types import ModuleType

from .bug import Bug

ZOO: dict[str, ModuleType] = {
    m.name: importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__) if m.name != "bug"
}

__all__ = ["ZOO", "Bug"]
