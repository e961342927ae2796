"""The bug zoo: implementations with a switch for every known bug, right where no switch is on.

One file per spec, with `BUGS` and `make(bugs) -> implementation`; switches can be combined.
"""

import importlib
import pkgutil
from types import ModuleType

from .bug import Bug

ZOO: dict[str, ModuleType] = {
    m.name: importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__) if m.name != "bug"
}

__all__ = ["ZOO", "Bug"]
