"""Masks, and queries that may look at nothing."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..binding import is_float_array
from ..cases import CaseDrawer
from ..common import widened
from ..subject import Subject
from ..switch import Case, Switch
from .convention import cases_of, convention, is_right, near, oracle, trying

FILLED = 4000.0  # a finite fill of masked logits is a bug unless it is less than logits of this size
LARGE = 5000.0  # logits of this size may be less than a finite fill


@dataclass(frozen=True)
class MaskMeaning(Switch):
    translate: Callable[[np.ndarray, Any], np.ndarray] = lambda mask, dtype: mask

    def arguments(self, call: Case) -> Case:
        if call.get("mask") is None:
            return call
        dtype = next((x.dtype for x in call.values() if is_float_array(x)), np.float64)
        return call | {"mask": self.translate(call["mask"], dtype)}


MEANINGS = (
    MaskMeaning("a mask that is True where a query may not look", lambda mask, dtype: ~np.asarray(mask)),
    MaskMeaning(
        "a mask that is added to the logits, 0 and -inf",
        lambda mask, dtype: np.where(mask, 0, -np.inf).astype(dtype),
    ),
)


@convention("mask", "masks may mean the opposite, True = may not look, or be added to the logits, as 0 and -inf")
def _mask(op: Subject) -> Switch | None:
    """A different meaning of the mask, if it is right on all cases, and the library's meaning is wrong on two or more.

    Both may be right on a case: after a layer norm of two features only a sign is left.
    """
    if "mask" in op.lacks:
        return None
    cases = []
    for case in cases_of(op, 6, lambda case: _is_long(case["mask"], -1)):
        mask = case["mask"]
        places = np.add.outer(np.arange(math.prod(mask.shape[:-1])), np.arange(mask.shape[-1]))
        cases.append(case | {"mask": (places % 2 == 0).reshape(mask.shape)})
    if sum(not is_right(op, case) for case in cases) < 2:
        return None
    fitting = (meaning for meaning in MEANINGS if all(is_right(op, case, meaning.arguments(case)) for case in cases))
    meaning = next(fitting, None)
    op.near += () if meaning else MEANINGS
    return meaning


def _is_long(mask: Any, axis: int) -> bool:
    return isinstance(mask, np.ndarray) and mask.ndim >= -axis and mask.shape[axis] > 1


@dataclass(frozen=True)
class DeadRows(Switch):
    finite: bool = False

    def has(self, call: Case) -> bool:
        mask = call.get("mask")
        if not isinstance(mask, np.ndarray) or not mask.size:
            return False
        return bool(np.any(~np.any(mask, axis=-1))) or (self.finite and _logits(call) >= LARGE)

    def avoid(self, case: Case) -> Case:
        mask = case.get("mask")
        if not isinstance(mask, np.ndarray):
            return case
        return case | {"mask": mask | ~np.any(mask, axis=-1, keepdims=True)}


@convention("dead rows", "a query that may look at nothing may get NaN, or an average, which a finite fill gives")
def _dead_rows(op: Subject) -> Switch | None:
    """The result of a query that may look at nothing, if it is not 0 and the other queries get numbers."""
    if "mask" in op.lacks:
        return None
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    cases = cases_of(op, 6, lambda case: _is_long(case["mask"], -2))
    for case, others in itertools.product(cases, (True, False)):  # a transposed mask is seen where all rows are dead
        mask = np.full_like(case["mask"], others)
        mask[..., 0, :] = False
        case = widened(case | {"mask": mask})
        y, right = (np.asarray(value, np.float64) for value in (op.outputs(**case)[0], oracle(op, case)))
        if y.shape != right.shape or (others and not np.all(np.isfinite(y[..., 1:, :]))):
            return None
        dead = y[..., 0, :]
        if np.all(np.isnan(dead)):
            seen[others].add("a query that may look at nothing gets NaN, not zeros")
        elif np.all(np.isfinite(dead)) and not near(dead, right[..., 0, :], case):
            if not _is_average(dead, case):
                return None
            seen[others].add("a query that may look at nothing gets an average, not zeros: masked logits are finite")
        elif not np.all(np.isfinite(dead)):
            return None
    if len(seen[True]) != 1 or seen[True] != seen[False]:
        return None
    switch = DeadRows(seen[True].pop())
    if "average" not in switch.says:
        return switch
    moderate = [switch.avoid(case) for case in cases]
    small = any(is_right(op, case) and not is_right(op, _with_logits(case, FILLED), like=case) for case in moderate)
    return None if small else replace(switch, finite=True)


def _is_average(dead: np.ndarray, case: Case) -> bool:
    """Whether a row may be an average: weights sum to 1; outputs lie within the values, where these are known."""
    if "s" in case:
        return np.allclose(np.sum(dead, axis=-1), 1)
    if "v" in case:
        low, high = np.min(case["v"], axis=-2) - 1e-6, np.max(case["v"], axis=-2) + 1e-6
        return bool(np.all((dead >= low) & (dead <= high)))
    return True


def _logits(call: Case) -> float:
    """A bound on the logits: of softmax, of attention, or of a layer that projects its queries and keys."""
    if "s" in call:
        return _size(call["s"])
    if "q" in call:
        return _size(call["q"]) * _size(call["k"]) * math.sqrt(call["q"].shape[-1])
    x, memory = call["x"], call.get("memory", call["x"])
    return _size(x @ call["W_q"]) * _size(memory @ call["W_k"]) * math.sqrt(call["W_q"].shape[1])


def _with_logits(case: Case, size: float) -> Case:
    """The case with queries, or logits, scaled so that the logits have this size."""
    name = next(name for name in ("s", "q", "W_q") if name in case)
    factor = case[name].dtype.type(size / max(_logits(case), 1e-3))
    return case | {name: case[name] * factor}


def _size(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0))


@convention("causal", "without `causal` it may look at all keys, or at earlier ones alone")
def _direction(op: Subject) -> Switch | None:
    """Whether an implementation without an argument `causal` does what the library does with the opposite default."""
    default = op.causal
    if default is None:
        return None
    drawn = (op.spec.case(CaseDrawer.seeded(seed, ((2,),))) for seed in range(200))
    square = (op.fit(case) for case in drawn if case["causal"] and case["q"].shape[-2] > 1)  # as many keys as queries
    cases = list(itertools.islice(square, 4))
    if any(is_right(op, case | {"causal": default}) for case in cases):
        return None
    other = Switch("it looks at all keys" if default else "it looks at earlier keys alone", topic="causal")
    with trying(op, other):
        return other if all(is_right(op, case | {"causal": not default}) for case in cases) else None
