"""The form of a property, the list of all of them, and the tolerances they are held to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = {
    "exact": "to the last bit",
    "rounding": "up to rounding: 30 u √length · the largest term, u = 1.1e-16 or 6e-8",
    "approximate": "up to a reason that the statement gives",
    "statistical": "over many draws of a fixed seed",
}


@dataclass(frozen=True)
class Property:
    """`holds(ops, **case)` raises AssertionError where the statement is false of the implementation `ops`."""

    op: str
    name: str
    kind: str
    statement: str
    holds: Callable[..., None]


PROPERTIES: list[Property] = []


def states(op: str, kind: str, statement: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the decorated function as a property of `op`."""
    assert kind in KINDS

    def register(holds: Callable[..., None]) -> Callable[..., None]:
        PROPERTIES.append(Property(op, holds.__name__, kind, statement, holds))
        return holds

    return register


def rounding(dtype: Any, length: int, scale: float) -> float:
    """The error that rounding may leave in a sum of `length` terms of which the largest has size `scale`."""
    unit = 1.1e-16 if np.dtype(dtype) == np.float64 else 6e-8
    return 30 * unit * math.sqrt(max(length, 1)) * max(float(scale), 1e-30)


def close(got: Any, expected: Any, atol: float, what: str = "result") -> None:
    """Raise AssertionError, naming the worst place, where any entry differs by more than `atol`."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what} has shape {got.shape}, expected {expected.shape}"
    if not got.size:
        return
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    error = np.where(np.isnan(error), np.inf, error)
    if np.max(error) > atol:
        at = tuple(int(i) for i in np.unravel_index(np.argmax(error), error.shape))
        raise AssertionError(f"{what}{list(at)} is {got[at]!r}, expected {expected[at]!r} to within {atol:.1e}")


def same_bits(got: Any, expected: Any, what: str = "result") -> None:
    """Raise AssertionError where two arrays differ in any bit."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype, f"{what} has dtype {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what} has shape {got.shape}, expected {expected.shape}"
    assert got.tobytes() == expected.tobytes(), f"{what} differs"
