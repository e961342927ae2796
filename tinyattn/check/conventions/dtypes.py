"""Results whose dtype is not that of the inputs."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..binding import is_float_array
from ..cases import copied, in_dtype
from ..common import tolerance, widened
from ..subject import Subject
from ..switch import Case, Switch
from .convention import OtherSpec, cases_of, convention, error, oracle


class Wide(Switch):
    """Float64 results of float32 arrays: np.sqrt(d) is a float64, and so is every product with it in NumPy 2."""

    def outputs(self, call: Case, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_narrowed(call, y) for y in outputs)

    def gradients(self, case: Case, named: Case) -> Case:
        return {name: _narrowed(case, g) for name, g in named.items()}


def _dtypes(case: Case) -> set[Any]:
    return {x.dtype for x in case.values() if is_float_array(x)}


def _narrowed(call: Case, y: Any) -> Any:
    wide = getattr(y, "dtype", None) == np.float64 and _dtypes(call) == {np.dtype(np.float32)}
    return np.asarray(y, np.float32) if wide else y


@convention("wide", "float32 arrays may give float64 results")
def _widens(op: Subject) -> Switch | None:
    """np.sqrt(d) widens all results, or those without `scale`; zeros those without `h0`; counts those with `mask`."""
    cases = cases_of(op, 8, lambda case: _dtypes(case) == {np.dtype(np.float32)}, ((2,),))
    results = [np.asarray(op.outputs(**case)[0]) for case in cases]
    # right values or wrong: otherwise the dtype of wrong ones would be reported as a second failure of one bug
    numbers = all(np.isfinite(error(y, oracle(op, case))) for y, case in zip(results, cases, strict=True))
    wide = [y.dtype == np.float64 for y in results]
    options = [name for name, parameter in op.signature.parameters.items() if parameter.default is None]
    without = [[case.get(name) is None for case in cases] for name in options]
    passed = [[case.get(name) is not None for case in cases] for name in options if name not in op.spec.wrt]
    if numbers and any(wide) and (all(wide) or wide in without + passed):
        return Wide("float32 arrays give float64 results")
    return None


def deaf(op: Subject, name: str) -> bool:
    """Whether `op` errs like float32, and ignores changes of an argument below float32's precision."""
    same, total, worst = 0, 0, 0.0
    for case in (op.fit(widened(case)) for case in cases_of(op, 12, leads=((2,),))):
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


@convention("single", "it may compute in float32, whatever comes in")
def _single(op: Subject) -> Switch | None:
    if op.spec.dtype is None and deaf(op, next(iter(op.signature.parameters))):
        return OtherSpec("it computes in float32, whatever comes in", replace(op.spec, dtype=np.dtype(np.float32)))
    return None
