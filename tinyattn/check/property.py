"""Properties and their tolerances.

A property is a statement in one sentence and a function that raises Violation if the statement is false. The function
takes a `Subject` (an implementation, called like the library's op) and a case drawn for its spec.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

STAGES = {
    "shapes": "results have the right shape and dtype, and inputs are not changed",
    "oracle": "the numbers, against plain loops",
    "properties": "what must hold of the op whatever its inputs",
    "gradients": "the backward, against the forward and against derivatives known to be right",
    "extremes": "large and small numbers, nothing to look at, long runs",
}

EXACTNESS = {
    "exact": "to the last bit",
    "rounding": "30 u √length · the largest term, u = 1.1e-16 in float64 and 6e-8 in float32; gradients 10 times that",
    "approximate": "up to a reason that the statement gives",
    "statistical": "five standard deviations, over draws of a fixed seed",
}

GRAVITY = {
    "numbers": "wrong numbers, or a crash",
    "leak": "something moves a result that must not",
    "contract": "right numbers, but not as agreed: dtype, memory order, inputs changed, empty batches",
}

Case = dict[str, Any]  # the arguments of a call, by name
Holds = Callable[..., None]
Leads = tuple[tuple[int, ...], ...]
LEADS: Leads = ((), (1,), (2,), (2, 3))  # leading axes of a case: batch, heads, ...
EMPTY_BATCHES = ((0,), (2, 0))

FEW_ULP = 16  # units in the last place by which two ways of computing the same number may differ


class Violation(AssertionError):
    """A property does not hold. It has a message and, if known, the values got and expected.

    `gravity` overrides the property's gravity, since a wrong dtype breaks the contract in any property. `sort` is
    "values", "shape", "type" (no array of numbers), "count" (of results), "raised" or "endless" (no return in time).
    """

    def __init__(self, message: str, got: Any = None, expected: Any = None, gravity: str = "", sort: str = "values"):
        super().__init__(message)
        self.got, self.expected, self.gravity, self.sort = got, expected, gravity, sort
        self.place = ""  # FILE:LINE of the code that raised


class RoundingViolation(Violation):
    """An exact property holds up to a few units in the last place, but not to the last bit."""


@dataclass(frozen=True)
class Property:
    """`holds(op, **case)` raises Violation if the statement is false for the subject `op`.

    `stage`, `exactness` and `gravity` are keys of STAGES, EXACTNESS and GRAVITY.
    """

    spec: str
    name: str
    stage: str
    exactness: str
    statement: str
    holds: Holds = field(repr=False)
    hint: str = ""
    leads: Leads = LEADS
    once: bool = False  # tried once, on input that it makes itself
    wide: bool = False  # tried on sizes of 20 to 70, in few cases, and on 300 tokens
    gravity: str = "numbers"

    def __post_init__(self) -> None:
        assert self.stage in STAGES
        assert self.exactness in EXACTNESS
        assert self.gravity in GRAVITY

    def at_most(self, examples: int) -> int:
        """The number of cases that it is tried on, out of `examples`."""
        return 1 if self.once else min(examples, 6) if self.wide else examples


def stating(spec: str, into: list[Property], prefix: str = "") -> Callable[..., Callable[[Holds], Holds]]:
    """A decorator that registers functions as properties of `spec` in the list `into`, by their names without `prefix`.

    states = stating("softmax", PROPERTIES)

    @states("exact", "weights are never negative")
    def positive(op, s, mask): ...
    """

    def states(
        exactness: str, statement: str, stage: str = "properties", hint: str = "", name: str = "", **fields: Any
    ) -> Callable[[Holds], Holds]:
        def register(holds: Holds) -> Holds:
            title = name or holds.__name__.removeprefix(prefix)
            into.append(Property(spec, title, stage, exactness, statement, holds, hint, **fields))
            return holds

        return register

    return states


def rounding(dtype: Any, length: int, scale: float) -> float:
    """The rounding error allowed in a sum of `length` terms whose largest has size `scale`."""
    unit = 1.1e-16 if np.dtype(dtype) == np.float64 else 6e-8
    return 30 * unit * math.sqrt(max(length, 1)) * max(float(scale), 1e-30)


def demand(condition: Any, message: str) -> None:
    if not condition:
        raise Violation(message)


def close(got: Any, expected: Any, atol: Any, what: str = "result") -> None:
    """Raise Violation, naming the worst entry, if any differs by more than `atol` (a number or an array)."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        raise Violation(f"{what.strip()} has the wrong shape", got.shape, expected.shape, sort="shape")
    if not got.size:
        return
    if got.dtype.kind not in "fiub":
        raise Violation(f"{what.strip()} has dtype {got.dtype}, expected numbers", sort="type")
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        error = np.where(np.isnan(error), np.inf, error)
        excess = np.broadcast_to(error / np.maximum(atol, 1e-300), error.shape)
    if np.max(excess) > 1:
        kind = Violation
        if not np.any(atol) and got.dtype.kind == "f" and np.all(np.isfinite(error)):
            few = FEW_ULP * np.finfo(got.dtype).eps * float(np.max(np.abs(expected)))
            kind = RoundingViolation if np.max(error) <= few else Violation
        at = tuple(int(i) for i in np.unravel_index(np.argmax(excess), error.shape))
        within = float(np.broadcast_to(atol, error.shape)[at])
        place = f"{what}{list(at)}" if at else what.strip()
        raise kind(f"{place} is off by {error[at]:.2g} (allowed: {within:.1g})", got[at], expected[at])


def unmoved(got: Any, expected: Any, atol: Any, what: str = "result") -> None:
    """`close` for two results of one function: where both are NaN or the same infinity, nothing has changed."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape == expected.shape and got.dtype.kind == expected.dtype.kind == "f":
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        got, expected = np.where(same, 0, got), np.where(same, 0, expected)
    close(got, expected, atol, what)


def close_or_note(got: Any, expected: Any, atol: Any, loose: float, what: str = "result") -> None:
    """`close`, but an error between `atol` and `loose`, which ordinary code may have, is a RoundingViolation."""
    try:
        close(got, expected, atol, what)
    except Violation as violation:
        close(got, expected, loose, what)
        raise RoundingViolation(str(violation), violation.got, violation.expected) from None


def same_bits(got: Any, expected: Any, what: str = "result", scale: float = 0.0) -> None:
    """Raise Violation if two results differ in any bit. Signs of zeros may differ, since 0 · v has the sign of v.

    It is a RoundingViolation if they differ by no more than the rounding of numbers of their size, or of size `scale`.
    """
    violation = _difference(got, expected, what)
    if violation is None:
        return
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype.kind == "f" and np.all(np.isfinite(got) & np.isfinite(expected)):
        size = max(scale, float(np.max(np.abs(got))), float(np.max(np.abs(expected))))
        if np.max(np.abs(got - expected)) <= FEW_ULP * np.finfo(got.dtype).eps * size:
            raise RoundingViolation(*violation)
    raise Violation(*violation)


def untouched(now: Any, before: Any, what: str) -> None:
    """Raise Violation if an array that must not be written to has changed in any bit."""
    violation = _difference(now, before, what)
    if violation is not None:
        raise Violation(*violation)


def _difference(got: Any, expected: Any, what: str) -> tuple[str, Any, Any] | None:
    """The first difference of two arrays, as the arguments of a Violation; None if they are equal.

    Raises Violation if they cannot be compared.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype:
        raise Violation(f"{what} has the wrong dtype", str(got.dtype), str(expected.dtype), "contract")
    if got.shape != expected.shape:
        raise Violation(f"{what} has the wrong shape", got.shape, expected.shape, sort="shape")
    if got.tobytes() == expected.tobytes():
        return None
    differs = (got != expected) & ~((got != got) & (expected != expected))
    if not np.any(differs):
        return None
    at = tuple(int(i) for i in np.argwhere(differs)[0])
    return f"{what}{list(at) if at else ''} differs", got[at], expected[at]


def waves(like: Any, *shape: int) -> np.ndarray:
    """cos 0, cos 1, ... (numbers without a pattern) in this shape, or else in that of `like`, and in its dtype."""
    shape = shape or like.shape
    return np.cos(np.arange(math.prod(shape))).reshape(shape).astype(like.dtype)


def largest(*arrays: Any) -> float:
    """The largest absolute value in any of the arrays, at least 1; None is skipped."""
    return max([1.0, *(float(np.abs(x).max()) for x in arrays if x is not None and np.size(x))])
