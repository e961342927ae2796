"""The specs, a file for each group of kinds; every `Spec` of a file here is loaded."""

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..common import common_properties
from ..property import STAGES, Property
from ..spec import Spec


def _load() -> dict[str, Spec]:
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    specs = {x.name: x for module in modules for x in vars(module).values() if isinstance(x, Spec)}
    return dict(sorted(specs.items()))


SPECS = _load()


def properties_of(spec: Spec) -> list[Property]:
    """All properties of a spec, in the order in which they are tried: by stage."""
    every = (common_properties(spec) if spec.common else []) + spec.properties
    return sorted(every, key=lambda p: list(STAGES).index(p.stage))


def get_spec(name: str, dtype: str | None = None) -> Spec:
    """The spec of that name, for floats of `dtype`, or of both dtypes. Raises ValueError for an unknown name."""
    if name not in SPECS:
        raise ValueError(f"{name!r} is no kind of implementation; {near(name, SPECS)}")
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"dtype is {dtype!r}, expected float32 or float64")
    return SPECS[name] if dtype is None else replace(SPECS[name], dtype=np.dtype(dtype))


def refuse_unknown_properties(names: Iterable[str], kinds: Iterable[str]) -> None:
    """Raise ValueError for a property that none of the kinds has."""
    kinds = list(kinds)
    known = {prop.name for kind in kinds for prop in properties_of(get_spec(kind))}
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no property of {' or '.join(dict.fromkeys(kinds))}; {near(name, sorted(known))}")


def near(name: str, known: Iterable[str]) -> str:
    """Which of the known names may be meant: those that resemble `name`, or else all."""
    known = list(known)
    close = difflib.get_close_matches(name, known)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"


__all__ = ["SPECS", "Spec", "get_spec", "near", "properties_of", "refuse_unknown_properties"]
