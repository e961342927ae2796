"""How small an error each property sees: `python -m tests.sharpness` writes sharpness.json.

One entry of each result of a function, or of its backward, is moved by 2**n of the result's size, another entry for
other arguments. sharpness.json says of each property which of the two it looks at, and at which n it begins to fail;
where it is null, errors of numbers are not what the property looks at. `tests/check/test_sharpness.py` holds every
property to its n, so that a tolerance that becomes ten times as wide, or as narrow, is noticed.

"calls" has the same of a spec's own properties, for an error in one call alone: a list for each call that the property
makes on the richest of some seeded cases, with n for the first, the second and the last entry of each part of the
result. So a clause that is dropped, or asked of one size, one gradient or the first tokens only, is noticed as well.
"""

import functools
import json
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.check.cases import CaseDrawer, copied
from tinyattn.check.property import Property, Violation
from tinyattn.check.spec import Spec
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import MissingError, Subject
from tinyattn.files import write_atomically

SHARPNESS = Path(__file__).parent / "sharpness.json"
LEAST, MOST = -52, 8


class Moved:
    """The library's implementation of a spec, where `off(name, call, part, x, seed)` stands for a part x of a result.

    Parts of a function that returns nothing are the arrays that it is given. `parts` counts those of every call so far.
    """

    def __init__(self, spec: Spec, off: Callable[..., Any]):
        ours = spec.ours()
        fields = ("dim", "vocabulary", "maxlen", "window")
        self.__dict__ |= {name: getattr(ours, name) for name in fields if hasattr(ours, name)}
        self.off, self.parts = off, list[int]()
        for name in (spec.function, f"{spec.function}_backward", *spec.others):
            f = getattr(ours, name, None)
            if f is not None:
                setattr(self, name, self._moved(f, name, len(spec.outputs) if name == spec.function else 99))

    def _moved(self, f: Callable[..., Any], name: str, most: int) -> Callable[..., Any]:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            given, seed = [y for x in (*args, *kwargs.values()) for y in (x if isinstance(x, tuple) else (x,))], 0
            for x in given:
                if not isinstance(x, dict):  # a cache, with room behind its rows that nobody has written
                    seed = zlib.crc32(x.tobytes() if isinstance(x, np.ndarray) else repr(x).encode(), seed)
            result = f(*args, **kwargs)
            arrays = [x for x in given if isinstance(x, np.ndarray)]
            parts = result if isinstance(result, tuple) else arrays if result is None else [result]
            moved = [self.off(name, len(self.parts), part, x, seed) for part, x in enumerate(parts)]
            self.parts.append(len(parts) if result is None else min(len(parts), most))
            if isinstance(result, tuple):
                return type(result)(*moved) if hasattr(result, "_fields") else tuple(moved)
            for x, other in zip(arrays, moved, strict=True) if result is None else ():
                x[...] = other
            return None if result is None else moved[0]

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

    def off(name: str, call: int, part: int, x: Any, seed: int) -> Any:
        return _off(x, size, seed) if name.endswith("_backward") == backward else x

    op = Subject(Moved(spec, off), spec)
    for seed in range(1 if prop.wide or prop.once else seeds):
        try:
            prop.holds(op, **op.fit(spec.case(CaseDrawer.seeded(seed, prop.leads, prop.wide))))
        except MissingError:
            return False
        except Violation:
            return True
    return False


def richest(spec: Spec) -> dict[str, Any]:
    """Of forty seeded cases in float64 the largest of those with the most arrays."""

    def rank(case: dict[str, Any]) -> tuple[int, ...]:
        arrays = [x for x in case.values() if isinstance(x, np.ndarray)]
        return -sum(x.dtype == np.float32 for x in arrays), len(arrays), sum(x.size for x in arrays)

    return max((spec.case(CaseDrawer.seeded(seed, ((2,),))) for seed in range(40)), key=rank)


def seen_once(spec: Spec, prop: Property, case: dict[str, Any], at: int = -1, place: int = 0, size: float = 0.0) -> Any:
    """-> whether the property fails where one entry of call `at` is off by `size`, and the parts of the calls so far.

    `place` 3 i is the first entry of part i, 3 i + 1 its second, 3 i + 2 its last.
    """

    def off(name: str, call: int, part: int, x: Any, seed: int) -> Any:
        return _off(x, size, (0, 1, -1)[place % 3]) if (call, part) == (at, place // 3) else x

    moved = Moved(spec, off)
    op = Subject(moved, spec)
    try:
        prop.holds(op, **op.fit(copied(case)))
    except Violation:
        return True, moved.parts
    return False, moved.parts


def tried(calls: int) -> list[int]:
    """The calls that are moved: all, or of many the first and the last."""
    return list(range(calls)) if calls <= 12 else [*range(8), *range(calls - 4, calls)]


def of_calls(spec: Spec) -> list[Property]:
    """The spec's own properties whose calls are moved one by one."""
    return [prop for prop in spec.properties if prop.exactness != "statistical"]


def by_call(spec: Spec, prop: Property, case: dict[str, Any]) -> list[list[int | None]]:
    """-> for each call that is moved, the n of its places."""
    _, parts = seen_once(spec, prop, case)

    def of(call: int, place: int) -> int | None:
        def seen(n: int) -> bool:
            return seen_once(spec, prop, case, call, place, 2.0**n)[0]

        n = least(seen)
        return n if n is not None and seen(n + 1) and seen(n + 2) else None

    return [[of(call, place) for place in range(3 * parts[call])] for call in tried(len(parts))]


def least(seen: Callable[[int], bool]) -> int | None:
    """The least n at which an error of 2**n is seen; None where that of 2**MOST is not."""
    low, high = LEAST - 1, MOST
    if not seen(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def measured(spec: Spec) -> dict[str, dict[str, Any]]:
    """-> by what is moved, "results" or "gradients", the properties that see the smaller errors there, and their n.

    "calls" has the n of each call of the spec's own properties.
    """
    found: dict[str, dict[str, Any]] = {"results": {}, "gradients": {}}
    for prop in properties_of(spec):
        results, gradients = (least(lambda n, b=b, p=prop: notices(spec, p, 2.0**n, b)) for b in (False, True))
        of_gradients = gradients is not None and (results is None or gradients < results)
        found["gradients" if of_gradients else "results"][prop.name] = gradients if of_gradients else results
    return found | {"calls": {prop.name: by_call(spec, prop, richest(spec)) for prop in of_calls(spec)}}


def main() -> None:
    warnings.simplefilter("ignore")
    lines = (f'  "{name}": {json.dumps(measured(spec))}' for name, spec in SPECS.items())
    write_atomically(SHARPNESS, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


if __name__ == "__main__":
    main()
