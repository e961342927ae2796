"""How the cases in which an implementation is wrong differ from the others: a hint if no bug can be named."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .property import Case

LEAST = 3  # the least number of right cases, and of wrong ones, for a condition
SIZES = (*range(1, 18), 32, 33, 64, 65, 128, 129, 256, 257, 512, 513)  # around the usual sizes of tiles
SHARE = 0.6  # the least share of wrong cases among those that do not meet a condition


def contrast(right: list[Case], wrong: list[Case]) -> str:
    """A sentence with the simplest condition under which all cases are right, if most others are wrong; or ""."""
    every = [*right, *wrong]
    if len(right) < LEAST or len(wrong) < LEAST:
        return ""
    for says, holds in _conditions(every):
        met = [holds[id(case)] for case in every]
        fine, others = sum(met[: len(right)]), met.count(False)
        if fine >= LEAST and not any(met[len(right) :]) and len(wrong) >= SHARE * others:
            return f"Yours is right wherever {says}, and {'' if len(wrong) == others else 'mostly '}wrong elsewhere."
    return ""


def _conditions(cases: list[Case]) -> Iterator[tuple[str, dict[int, bool]]]:
    """Conditions on a case, in words, and by the case's id whether they hold."""
    for name in cases[0]:
        values = {id(case): case.get(name) for case in cases}
        yield f"{name} is None", {at: x is None for at, x in values.items()}
        yield f"{name} is passed", {at: x is not None for at, x in values.items()}
        plain = {x for x in values.values() if isinstance(x, str | bool | int | float)}
        for value in sorted(plain, key=str):
            yield f"{name} is {value!r}", {at: type(x) is type(value) and x == value for at, x in values.items()}
        arrays = {at: x for at, x in values.items() if isinstance(x, np.ndarray)}
        for axis in range(-1, -1 - max((x.ndim for x in arrays.values()), default=0), -1):
            sizes = {at: x.shape[axis] if x.ndim >= -axis else 0 for at, x in arrays.items()}
            for most in range(1, 6) if sizes.keys() == values.keys() else ():
                of = f"{name}.shape[{axis}]"
                yield f"{of} is {'1' if most == 1 else f'at most {most}'}", {at: n <= most for at, n in sizes.items()}
            for rest, says in ((0, "even"), (1, "odd")) if sizes.keys() == values.keys() else ():
                yield f"{name}.shape[{axis}] is {says}", {at: n % 2 == rest for at, n in sizes.items()}
        if arrays.keys() == values.keys():
            yield f"{name} is float64", {at: x.dtype == np.float64 for at, x in arrays.items()}


def right_up_to(right: Callable[[int], bool]) -> tuple[int, int] | None:
    """The size up to which all are right, and the next one; None if all sizes are right, or not even the first."""
    fine = list(itertools.takewhile(right, SIZES))
    return (fine[-1], SIZES[len(fine)]) if 0 < len(fine) < len(SIZES) else None


def parts(wrong: dict[str, bool]) -> str:
    """A sentence with the wrong and the right ones of several results, if there are both; or ""."""
    names = {bad: [name for name, is_wrong in wrong.items() if is_wrong == bad] for bad in (True, False)}
    if not all(names.values()):
        return ""
    return f"Wrong: {', '.join(names[True])}. Right: {', '.join(names[False])}."


def resemblance(pairs: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """A sentence on how the wrong results resemble the right ones, in every pair (wrong, right); or ""."""
    pairs = [(x, y) for x, y in pairs if x.size > 1]
    if len(pairs) < LEAST or any(x.shape != y.shape or not np.all(np.isfinite(x)) for x, y in pairs):
        return ""
    for says, holds in _RESEMBLANCES:
        if all(holds(x.astype(float), y.astype(float)) for x, y in pairs):
            return says
    return ""


def _near(x: Any, y: Any) -> bool:
    return np.allclose(x, y, rtol=0, atol=1e-3 * max(1e-30, float(np.max(np.abs(y), initial=0.0))))


ZEROS = "In each case yours is 0: is the way to it cut, as by `detach`, `no_grad` or a result that is never written?"
_RESEMBLANCES: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
    (ZEROS, lambda x, y: not np.any(x)),
    ("Yours has the opposite sign.", lambda x, y: _near(x, -y)),
    ("In each case yours is the right result times one number: which factor is wrong?",
     lambda x, y: bool(np.count_nonzero(y) > 1) and _near(x, y * (np.sum(x * y) / np.sum(y * y)))),
    ("In each case yours is the right result plus one number: which term is wrong?",
     lambda x, y: _near(x - y, np.mean(x - y))),
    ("Yours has the right numbers in other places: in which order are they written, and along which axis?",
     lambda x, y: _near(np.sort(x, axis=None), np.sort(y, axis=None))),
    ("Yours is right for the first token, not for later ones: what does a token get from earlier ones?",
     lambda x, y: x.ndim > 1 and x.shape[-2] > 1 and _near(x[..., 0, :], y[..., 0, :])),
)  # fmt: skip
