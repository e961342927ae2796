"""Dtypes other than the inputs'."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..binding import is_float_array
from ..cases import CaseDrawer, copied, in_dtype
from ..common import tolerance, widened
from ..subject import Subject
from ..switch import Case, Switch
from .convention import Convention, OtherSpec, error, near, oracle


class Wide(Switch):
    """np.sqrt(d) is a float64, and NumPy 2 makes float64 of every product with it."""

    def outputs(self, given: Case, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_narrowed(given, y) for y in outputs)

    def gradients(self, case: Case, named: Case) -> Case:
        return {name: _narrowed(case, g) for name, g in named.items()}


def _narrowed(given: Case, y: Any) -> Any:
    dtypes = {x.dtype for x in given.values() if is_float_array(x)}
    wide = getattr(y, "dtype", None) == np.float64 and dtypes == {np.dtype(np.float32)}
    return np.asarray(y, np.float32) if wide else y


def _widens(op: Subject) -> Switch | None:
    drawn = (op.fit(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) for seed in range(40))
    single = (case for case in drawn if {x.dtype for x in case.values() if is_float_array(x)} == {np.dtype(np.float32)})
    cases = list(itertools.islice(filter(op.offers, single), 4))
    results = [np.asarray(op.outputs(**case)[0]) for case in cases]
    agree = all(near(y, oracle(op, case), case) for y, case in zip(results, cases, strict=True))
    if cases and agree and all(y.dtype == np.float64 for y in results):
        return Wide("float32 arrays give float64 results")
    return None


def deaf(op: Subject, name: str, cases: Iterable[Case]) -> bool:
    """Whether `op` has float32's error, and ignores changes of an argument below float32's precision."""
    same, total, worst = 0, 0, 0.0
    for case in cases:
        if not is_float_array(case.get(name)):
            continue
        y, right = np.asarray(op.outputs(**copied(case))[0]), oracle(op, case)
        again = np.asarray(op.outputs(**copied(case | {name: case[name] * (1 + 1e-11)}))[0])
        if error(y, right) > tolerance(op.spec, in_dtype(case, np.float32)):
            return False
        worst = max(worst, error(y, right))
        moves = right != oracle(op, case | {name: case[name] * (1 + 1e-4)})
        same, total = same + int(np.sum(moves & (y == again))), total + int(np.sum(moves))
    return worst > 1e-10 and same > 0.9 * total


def _single(op: Subject) -> Switch | None:
    if op.spec.dtype is not None:
        return None
    cases = [op.fit(widened(op.spec.case(CaseDrawer.seeded(seed, ((2,),))))) for seed in range(12)]
    if deaf(op, next(iter(cases[0])), filter(op.offers, cases)):
        return OtherSpec("it computes in float32, whatever comes in", replace(op.spec, dtype=np.dtype(np.float32)))
    return None


CONVENTIONS = {
    "single": Convention("it may compute in float32, whatever comes in", _single),
    "wide": Convention("float32 arrays may give float64 results", _widens),
}
