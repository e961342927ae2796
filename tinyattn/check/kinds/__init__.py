"""The kinds of implementation that can be checked, one file each: a new file here is a new kind."""

from __future__ import annotations

import importlib
import pkgutil

from ..demands import demands
from ..kind import Kind
from ..property import STAGES, Property


def _found() -> dict[str, Kind]:
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    kinds = [module.KIND for module in modules if hasattr(module, "KIND")]
    return {kind.name: kind for kind in kinds}


KINDS = _found()


def properties_of(kind: Kind) -> list[Property]:
    """All properties of a kind, in the order in which they are tried: by stage."""
    every = (demands(kind) if kind.common else []) + kind.properties
    order = list(STAGES)
    return sorted(every, key=lambda p: order.index(p.stage))


def named(name: str) -> Kind:
    """Raises ValueError, naming the known ones, for an unknown name."""
    if name not in KINDS:
        raise ValueError(f"{name!r} is no kind of implementation; known: {', '.join(KINDS)}")
    return KINDS[name]


__all__ = ["KINDS", "Kind", "named", "properties_of"]
