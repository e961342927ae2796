"""What a property is, and its tolerances.

A property is a statement in one sentence and a function that raises Violation if the statement is false. The function
takes a `Subject` (an implementation, called like the library's op) and a case drawn for its spec.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

STAGES = {
    "shapes": "what comes out has the right shape and dtype, and nothing that went in is touched",
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

LEADS = ((), (1,), (2,), (2, 3))  # leading axes of a case: batch, heads, ...
EMPTY_BATCHES = ((0,), (2, 0))


class Violation(AssertionError):
    """A property does not hold: a sentence, and where known the values got and expected."""

    def __init__(self, message: str, got: Any = None, expected: Any = None):
        super().__init__(message)
        self.got, self.expected = got, expected


@dataclass(frozen=True)
class Property:
    """`holds(op, **case)` raises Violation if the statement is false for the subject `op`."""

    spec: str
    name: str
    stage: str
    exactness: str
    statement: str
    holds: Callable[..., None] = field(repr=False)
    hint: str = ""
    leads: tuple[tuple[int, ...], ...] = LEADS
    once: bool = False  # tried on one case: it is slow, or does not depend on the case
    wide: bool = False  # tried on sizes of 20 to 70, in few cases

    def at_most(self, examples: int) -> int:
        """The number of cases it is tried on if `examples` are asked for."""
        return 1 if self.once else min(examples, 6) if self.wide else examples


def stating(spec: str, into: list[Property]) -> Callable[..., Callable[[Callable[..., None]], Callable[..., None]]]:
    """A decorator that registers functions as properties of `spec` in the list `into`.

    states = stating("softmax", PROPERTIES)

    @states("exact", "weights are never negative")
    def positive(op, s, mask): ...
    """

    def states(
        exactness: str,
        statement: str,
        stage: str = "properties",
        hint: str = "",
        leads: tuple[tuple[int, ...], ...] = LEADS,
        once: bool = False,
        wide: bool = False,
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        assert exactness in EXACTNESS
        assert stage in STAGES

        def register(holds: Callable[..., None]) -> Callable[..., None]:
            into.append(Property(spec, holds.__name__, stage, exactness, statement, holds, hint, leads, once, wide))
            return holds

        return register

    return states


def rounding(dtype: Any, length: int, scale: float) -> float:
    """The rounding error allowed in a sum of `length` terms whose largest has size `scale`."""
    unit = 1.1e-16 if np.dtype(dtype) == np.float64 else 6e-8
    return 30 * unit * math.sqrt(max(length, 1)) * max(float(scale), 1e-30)


def demand(condition: Any, message: str) -> None:
    """Raise Violation with `message` unless `condition` holds."""
    if not condition:
        raise Violation(message)


def close(got: Any, expected: Any, atol: Any, what: str = "result") -> None:
    """Raise Violation, naming the worst entry, if any differs by more than `atol` (a number or an array)."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        raise Violation(f"{what.strip()} has the wrong shape", got.shape, expected.shape)
    if not got.size:
        return
    if got.dtype.kind not in "fiub":
        raise Violation(f"{what.strip()} has dtype {got.dtype}, expected numbers")
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        error = np.where(np.isnan(error), np.inf, error)
        excess = np.broadcast_to(error / np.maximum(atol, 1e-300), error.shape)
    if np.max(excess) > 1:
        at = tuple(int(i) for i in np.unravel_index(np.argmax(excess), error.shape))
        within = float(np.broadcast_to(atol, error.shape)[at])
        place = str(list(at)) if at else ""
        raise Violation(
            f"{what.strip() if not place else what}{place} is off by {error[at]:.2g} (allowed: {within:.1g})",
            got[at],
            expected[at],
        )


def same_bits(got: Any, expected: Any, what: str = "result") -> None:
    """Raise Violation if two arrays differ in any bit but the sign of a zero: 0 · v has the sign of v."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype:
        raise Violation(f"{what} has the wrong dtype", str(got.dtype), str(expected.dtype))
    if got.shape != expected.shape:
        raise Violation(f"{what} has the wrong shape", got.shape, expected.shape)
    if got.tobytes() != expected.tobytes():
        differs = (got != expected) & ~((got != got) & (expected != expected))
        places = np.argwhere(differs)
        if not len(places):
            return
        at = tuple(int(i) for i in places[0])
        place = str(list(at)) if at else ""
        raise Violation(f"{what}{place} differs", got[at], expected[at])


def largest(*arrays: Any) -> float:
    """The largest absolute value in any of the arrays, at least 1; None is skipped."""
    return max([1.0, *(float(np.max(np.abs(x))) for x in arrays if x is not None and np.size(x))])
