"""How small an error each property sees: `python -m tests.sharpness` writes sharpness.json.

One entry of each result of a function, or of its backward, is moved by 2**n of the result's size, another entry for
other arguments. sharpness.json says of each property which of the two it looks at, and at which n it begins to fail;
where it is null, errors of numbers are not what the property looks at. `tests/check/test_sharpness.py` holds every
property to its n, so that a tolerance that becomes ten times as wide, or as narrow, is noticed.
"""

from __future__ import annotations

import functools
import json
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.check.cases import CaseDrawer
from tinyattn.check.property import Property, Violation
from tinyattn.check.spec import Spec
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import MissingError, Subject
from tinyattn.files import write_atomically

SHARPNESS = Path(__file__).parent / "sharpness.json"
LEAST, MOST = -52, 8


class Moved:
    """The library's implementation of a spec; the results of its forward, or of its backward, are off by `size`."""

    def __init__(self, spec: Spec, size: float, backward: bool):
        ours = spec.ours()
        self.__dict__ |= {name: getattr(ours, name) for name in ("dim", "vocabulary", "maxlen") if hasattr(ours, name)}
        for name in (spec.function, f"{spec.function}_backward", *spec.others):
            f = getattr(ours, name, None)
            if f is not None:
                setattr(self, name, _moved(f, size) if name.endswith("_backward") == backward else f)


def _moved(f: Callable[..., Any], size: float) -> Callable[..., Any]:
    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        given, seed = (*args, *kwargs.values()), 0
        arrays = [x for x in given if isinstance(x, np.ndarray)]
        for x in given:
            seed = zlib.crc32(x.tobytes() if isinstance(x, np.ndarray) else repr(x).encode(), seed)
        before = [x.copy() for x in arrays]
        result = _off(f(*args, **kwargs), size, seed)
        for x, old in zip(arrays, before, strict=True):
            if not np.array_equal(x, old, equal_nan=x.dtype.kind == "f"):        # what it is asked to write into
                x[...] = _off(x, size, seed)
        return result

    return call


def _off(x: Any, size: float, seed: int) -> Any:
    if isinstance(x, tuple):
        parts = [_off(part, size, seed) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if not isinstance(x, np.ndarray | float | np.floating) or np.asarray(x).dtype.kind != "f" or not np.size(x):
        return x
    y = np.array(x)
    step = size * np.max(np.abs(y), where=np.isfinite(y), initial=1.0)
    y.reshape(-1)[seed % y.size] += step if seed & 2**20 else -step
    return y if isinstance(x, np.ndarray) else type(x)(y)


def notices(spec: Spec, prop: Property, size: float, backward: bool, seeds: int = 2) -> bool:
    """Whether the property fails on one of a few seeded cases where results, or gradients, are off by `size`."""
    op = Subject(Moved(spec, size, backward), spec)
    for seed in range(1 if prop.wide or prop.once else seeds):
        try:
            prop.holds(op, **op.fit(spec.case(CaseDrawer.seeded(seed, prop.leads, prop.wide))))
        except MissingError:
            return False
        except Violation:
            return True
    return False


def begins(spec: Spec, prop: Property, backward: bool) -> int | None:
    """The least n at which an error of 2**n is noticed; None where that of 2**MOST is not."""
    low, high = LEAST - 1, MOST
    if not notices(spec, prop, 2.0**high, backward):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if notices(spec, prop, 2.0**middle, backward) else (middle, high)
    return high


def measured(spec: Spec) -> dict[str, dict[str, int | None]]:
    """-> by what is moved, "results" or "gradients", the properties that see the smaller errors there, and their n."""
    found: dict[str, dict[str, int | None]] = {"results": {}, "gradients": {}}
    for prop in properties_of(spec):
        results, gradients = begins(spec, prop, False), begins(spec, prop, True)
        of_gradients = gradients is not None and (results is None or gradients < results)
        found["gradients" if of_gradients else "results"][prop.name] = gradients if of_gradients else results
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    lines = (f'  "{name}": {json.dumps(measured(spec))}' for name, spec in SPECS.items())
    write_atomically(SHARPNESS, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


if __name__ == "__main__":
    main()
