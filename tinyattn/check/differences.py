"""Compare the gradients that a backward derives with central differences of the loss, and report both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np

from ..backend import Array

FLOAT32_TOLERANCE = 1e-3  # error allowed to a float32 backward as rounding, relative to its largest gradient
WRITTEN = "(written)"  # name of the entry for arguments that a forward or a backward wrote into
SMALLEST = 1e-12  # least step and tolerance: below it only rounding is measured, and any gradient would agree


@dataclass(frozen=True)
class Entry:
    """The worst entry of one argument's gradient."""

    name: str
    error: float  # |derived - measured| / (the largest |derived| or |measured| of this argument + noise)
    index: tuple[int, ...] = ()
    derived: float = 0.0  # by the backward
    measured: float = 0.0  # by central differences
    adjoint: float = 0.0  # the error along one random direction v, relative to Σ |derived · v| + noise
    float32_error: float = 0.0  # the float32 backward's distance from the float64 one, relative to the largest gradient
    problem: str = ""  # why there are no numbers: wrong shape, missing, not finite

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name:24} {self.problem}"
        place = f"[{', '.join(map(str, self.index))}]"
        single = f"{self.float32_error:9.1e}" if self.float32_error else "        -"
        return (
            f"{self.name:24} {self.error:8.1e} {self.adjoint:9.1e} {single}  "
            f"at {place}: derived {self.derived:.9g}, measured {self.measured:.9g}"
        )


@dataclass(frozen=True)
class GradReport:
    """One `Entry` per argument; true if all errors are within `tolerance`, and float32's within FLOAT32_TOLERANCE."""

    entries: tuple[Entry, ...]
    tolerance: float

    @property
    def worst(self) -> float:
        return max((max(e.error, e.adjoint) for e in self.entries), default=0.0)

    def agrees(self, entry: Entry) -> bool:
        within = entry.error <= self.tolerance and entry.adjoint <= self.tolerance
        return within and entry.float32_error <= FLOAT32_TOLERANCE

    def __bool__(self) -> bool:
        return bool(self.entries) and all(self.agrees(e) for e in self.entries)

    def __str__(self) -> str:
        written = any(e.name == WRITTEN for e in self.entries)
        agree = bool(self.entries) and all(self.agrees(e) for e in self.entries if e.name != WRITTEN)
        verdict = "gradients agree" + ", but" * written if agree else "gradients DIFFER"
        lines = [f"{verdict} (tolerance {self.tolerance:.0e})", "argument                    error   adjoint   float32"]
        return "\n".join(lines + [str(e) for e in self.entries])

    __repr__ = __str__


@dataclass(frozen=True)
class Differences:
    """Central differences of `loss`, whose arrays are moved in place; `size` is the sum of the loss's |terms|.

    Rounding leaves an error of about 4e-16 · size / step in a difference. `floor` is this error divided by the
    tolerance; much smaller gradients cannot be checked.
    """

    loss: Callable[[], float]
    rng: np.random.Generator
    step: float
    tolerance: float
    size: float
    entries: int | None = None  # places per array; None: all

    @property
    def floor(self) -> float:
        return 4e-16 * self.size / self.step / self.tolerance

    def compare(
        self, arrays: dict[str, Any], gradients: dict[str, Any], float32: dict[str, Any] | None = None
    ) -> GradReport:
        """Compare each array's gradient with differences, and with its `float32` gradient, if there is one."""
        compared = []
        for name, x in arrays.items():
            g = gradients.get(name)
            problem = _problem(g, x)
            if problem:
                compared.append(Entry(name, np.inf, problem=problem))
            elif x.size:
                worst = self.worst_entry(name, x, np.asarray(g))
                adjoint, narrow = self.adjoint_error(x, np.asarray(g)), self.float32_error((float32 or {}).get(name), g)
                compared.append(replace(worst, adjoint=adjoint, float32_error=narrow))
        return GradReport(tuple(compared), self.tolerance)

    def float32_error(self, g32: Any, g: Any) -> float:
        """The largest |g32 - g|, relative to the largest |g| plus float32's noise."""
        if g32 is None or np.shape(g32) != np.shape(g):
            return 0.0
        noise = float(np.finfo(np.float32).eps) * self.size / FLOAT32_TOLERANCE
        largest = (float(np.max(np.abs(g))) + noise) or 1.0
        error = float(np.max(np.abs(np.asarray(g32, np.float64) - g))) / largest
        return error if np.isfinite(error) else np.inf

    def worst_entry(self, name: str, x: Array, g: Array) -> Entry:
        """The entry whose gradient is furthest from its central difference."""
        places = _places(self.rng, g, self.entries)
        if not places:
            return Entry(name, 0.0)
        derived = np.array([g[i] for i in places])
        largest = float(np.max(np.abs(derived)))
        slopes = []
        for i in places:
            direction = np.zeros(x.shape)
            direction[i] = 1
            h = self.step * max(1.0, abs(x[i]))
            slopes.append(self.slope(x, direction, h, g[i], self.tolerance * (largest + self.floor)))
        measured = np.array(slopes)
        scale = max(np.max(np.abs(measured)), largest) + self.floor
        errors = np.abs(derived - measured) / scale if scale else np.zeros(len(places))
        worst = int(np.argmax(errors))
        return Entry(name, float(errors[worst]), places[worst], float(derived[worst]), float(measured[worst]))

    def adjoint_error(self, x: Array, g: Array) -> float:
        """|<J v, u> - <v, Jᵀ u>| for a random v, relative to the sum of |terms| of the second."""
        v = self.rng.uniform(0.5, 1, x.shape) * self.rng.choice([-1, 1], x.shape)
        derived = float(np.sum(g * v))
        scale = float(np.sum(np.abs(g * v))) + self.floor
        h = self.step * max(1.0, float(np.max(np.abs(x))))
        return abs(derived - self.slope(x, v, h, derived, self.tolerance * scale)) / scale if scale else 0.0

    def slope(self, x: Array, direction: Array, h: float, derived: float, slack: float) -> float:
        """The loss's slope along a direction; at a kink, the number between both sides' slopes nearest to `derived`."""

        def loss_at(t: float) -> float:
            before = x.copy()
            np.add(x, t * direction, out=x)
            value = self.loss()
            x[...] = before
            return value

        above, below = loss_at(h), loss_at(-h)
        measured = (above - below) / (2 * h)
        if abs(derived - measured) <= slack:
            return measured
        here = loss_at(0)
        gap = abs((above - here) - (here - below)) / h
        sides = (loss_at(h / 4) - here) * 4 / h, (here - loss_at(-h / 4)) * 4 / h
        near_gap = abs(sides[0] - sides[1])
        if near_gap > gap / 2 and near_gap > slack:  # the slopes of the two sides do not converge: a kink
            return float(np.clip(derived, min(sides), max(sides)))
        if gap > 8 * near_gap:  # a kink beside the point: between h / 4 and h from it
            return (sides[0] + sides[1]) / 2
        return measured


def _problem(g: Any, x: Array) -> str:
    """The reason why `g` cannot be compared with differences by x, or ""."""
    if g is None:
        return "no gradient was returned"
    if not hasattr(g, "dtype") and not isinstance(g, Number):
        return f"a {type(g).__name__} was returned, expected an array {x.shape}"
    if np.shape(g) != x.shape:
        return f"wrong shape: gradient {np.shape(g)}, argument {x.shape}"
    if np.asarray(g).dtype.kind not in "biuf":
        return f"the gradient is {np.asarray(g).dtype}, expected real numbers"
    return "" if np.all(np.isfinite(g)) else "the gradient is not finite"


def _places(rng: np.random.Generator, g: Array, entries: int | None) -> list[tuple[int, ...]]:
    """Indices to check: all, or `entries` of them, half where |g| is largest and half at random."""
    flat = np.arange(g.size)
    if entries is not None and entries < g.size:
        largest = np.argsort(-np.abs(g), axis=None)[: entries // 2]
        flat = np.unique(np.concatenate([largest, rng.choice(g.size, entries - len(largest), replace=False)]))
    return [tuple(int(j) for j in np.unravel_index(i, g.shape)) for i in flat]
