"""The specs, one file each; every file here with a `SPEC` is loaded."""

import importlib
import pkgutil

from ..common import common_properties
from ..property import STAGES, Property
from ..spec import Spec


def _load() -> dict[str, Spec]:
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    specs = [module.SPEC for module in modules if hasattr(module, "SPEC")]
    return {spec.name: spec for spec in specs}


SPECS = _load()


def properties_of(spec: Spec) -> list[Property]:
    """All properties of a spec, in the order in which they are tried: by stage."""
    every = (common_properties(spec) if spec.common else []) + spec.properties
    return sorted(every, key=lambda p: list(STAGES).index(p.stage))


def get_spec(name: str) -> Spec:
    """The spec of that name. Raises ValueError, listing the known ones, for an unknown name."""
    if name not in SPECS:
        raise ValueError(f"{name!r} is no kind of implementation; known: {', '.join(SPECS)}")
    return SPECS[name]


__all__ = ["SPECS", "Spec", "get_spec", "properties_of"]
