"""Causes of failures that need no zoo: a patched NumPy, exchanged axes, a transposed matrix, or float32 inside."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .cases import CaseDrawer
from .common import widened
from .conventions import find_conventions
from .conventions.convention import adopt, cases_of, is_right, mends, number
from .conventions.dtypes import deaf
from .conventions.layouts import Rearranged
from .conventions.padding import paddings
from .diagnosis import Diagnosis, diagnose
from .forms import gaining
from .isolation import alarm
from .property import Case, Violation
from .specs import properties_of
from .subject import CannotRunError, MissingError, Subject, TooLongError
from .switch import FixedArgument
from .trial import Trial, trial_of
from .zoo import Bug

EPS_IN_USE = (1e-6, 1e-5, 1e-8, 1e-12)  # of norms in public code
HEADS = "axes 1 and 2 are exchanged: it is right for (batch, n, heads, d)"


def find_cause(
    op: Subject, failed: Iterable[str], limit: float = 60.0, shown: Trial | None = None, patience: float = 10.0,
    strict: bool = False,
) -> Diagnosis:  # fmt: skip
    """The cause of a failure: a bug that `diagnose` names, or a cause that needs no zoo.

    With `strict`, conventions were not detected before, and one may be the cause.
    """
    cause, ends = patched(), shown is None or shown.too_long is None
    if ends:
        cause = cause or misplaced(op, patience, ("heads_first",))  # it would explain every other failure
    cause = cause or diagnose(op, op.spec, failed, limit, shown, strict)
    if not cause and not strict:
        cause = beside_convention(op, failed, limit, shown) or cause
    if not cause or cause.how == "rule":  # any cause that explains every case is better than a rule
        if ends:
            cause = misplaced(op, patience) or single(op, patience) or cause
        cause = (strict and differing(op, patience)) or cause
    return cause


def beside_convention(op: Subject, failed: Iterable[str], limit: float, shown: Trial | None) -> Diagnosis:
    """The known bug of code that follows another convention, too, and so gives the bug's numbers in that convention
    alone. Conventions are found only in code that is right, so the usual ones are tried."""
    known = [switch.name for switch in op.conventions if isinstance(switch, FixedArgument)]
    fixed = [switch for switch in (*_values_of_eps(op), *paddings(op)) if switch.name not in known]
    switches = [*fixed, *(switch for switch in op.near if switch not in op.conventions)]
    for switch in switches:
        other, there, budget = copy.copy(op), None, limit / len(switches)
        other.conventions = [*op.conventions]
        adopt(other, switch)
        if shown is not None:  # its case is one of the library's convention
            prop = next((p for p in properties_of(other.spec) if p.name == shown.prop.name), shown.prop)
            there = trial_of(other, other.spec, prop, shrink=False, budget=budget)
        if there is not None and (not there.failed or there.too_long is not None):
            continue
        cause = diagnose(other, other.spec, failed, budget, there, strict=False)
        if cause and not any(bug.permitted for bug in cause.bugs[0]):  # or two conventions undo each other
            beside = Bug("convention", switch.says, "This alone is no failure.")
            return replace(cause, bugs=(*cause.bugs, (beside,)))
    return Diagnosis()


def _values_of_eps(op: Subject) -> Iterator[FixedArgument]:
    if "eps" in op.lacks:
        default = op.signature.parameters["eps"].default
        for eps in (value for value in EPS_IN_USE if value != default):
            yield FixedArgument(f"eps is fixed at {number(eps)}", "eps", eps, default)


def functions_of_numpy() -> dict[str, Any]:
    modules = {"np": np, "np.linalg": np.linalg}
    return {f"{module}.{name}": f for module, m in modules.items() for name, f in vars(m).items() if callable(f)}


_NUMPY = functions_of_numpy()


def replaced(before: dict[str, Any]) -> list[str]:
    """The names of the functions of NumPy that are no longer those of `before`."""
    now = functions_of_numpy()
    return [name for name, f in before.items() if now.get(name) is not f]


def patched() -> Diagnosis:
    """The functions of NumPy that were replaced after the checker was imported."""
    names = replaced(_NUMPY)
    if not names:
        return Diagnosis()
    says = f"NumPy was patched: {', '.join(names[:5])} {'is' if len(names) == 1 else 'are'} replaced"
    return _diagnosis("numpy_patched", says, "The checker computes with NumPy, too: leave its functions as they are.")


def misplaced(op: Subject, patience: float = 10.0, names: Iterable[str] = ()) -> Diagnosis:
    """The axes that are exchanged, if exchanging them back makes `op` right. Tries only the layouts `names`, if any."""
    if not op.spec.common:
        return Diagnosis()
    forms, op.forms = op.forms, []
    bare = {n: None for n, p in op.signature.parameters.items() if p.default is None}  # masks have conventions, too
    try:
        for name, says, hint, lead, switch in _layouts(op):
            if names and name not in names:
                continue
            cases = [widened(op.fit(op.spec.case(CaseDrawer.seeded(seed, (lead,))) | bare)) for seed in range(8)]
            with alarm(patience):
                if mends(op, switch, partial(is_right, op), cases):
                    return _diagnosis(name, says, hint)
    except TooLongError:
        pass
    finally:
        op.forms = forms
    return Diagnosis()


def seems_right(op: Subject) -> bool:
    """Whether one of a few calls is right."""
    return not op.spec.common or any(is_right(op, widened(case)) for case in cases_of(op, 24))


def single(op: Subject, patience: float = 10.0) -> Diagnosis:
    """Whether results in float64 have float32's error, and ignore changes below float32's precision."""
    if not op.spec.common or op.spec.dtype is not None:
        return Diagnosis()
    try:
        with alarm(patience):
            if any(deaf(op, name) for name in op.spec.wrt or op.signature.parameters):
                says = "float64 inputs are computed in float32: 7 digits of 16 are right"
                return _diagnosis("float32", says, "Which array or constant is made without a dtype, or cast?")
    except (Violation, MissingError, CannotRunError, TooLongError):
        pass
    return Diagnosis()


def differing(op: Subject, patience: float = 10.0) -> Diagnosis:
    """The conventions that `op` follows."""
    fresh = copy.copy(op)
    fresh.conventions = []
    switches = find_conventions(fresh, patience)
    says = f"another convention: {'; '.join(switch.says for switch in switches)}"
    return _diagnosis("convention", says, "Without --strict this is no failure.") if switches else Diagnosis()


def _diagnosis(name: str, says: str, hint: str) -> Diagnosis:
    return Diagnosis(((Bug(name, says, hint),),), "cause")


def _exchange(one: int, two: int, x: Any, case: Case) -> Any:
    return np.swapaxes(x, one, two) if np.ndim(x) > max(one, two, -1 - one, -1 - two) else x


def _layouts(op: Subject) -> Iterator[tuple[str, str, str, tuple[int, ...], Rearranged]]:
    """Layouts that `op` may have. -> name, sentence, hint, batch axes of the cases to try, exchange of the axes."""

    def moving(names: Iterable[str], move: Callable[..., Any], result: bool) -> Rearranged:
        moves = dict.fromkeys(names, move)
        return Rearranged("", moves, fro=move) if result else Rearranged("", moves)

    case = op.spec.case(CaseDrawer.seeded(0, ((2,),)))
    batched = gaining(op.spec.case)
    with_tokens = [n for n in batched if np.ndim(case[n]) > 2]
    matrices = [n for n, x in case.items() if n not in batched and n in op.spec.wrt and np.ndim(x) == 2]
    if {"q", "k", "v"} <= set(case):
        change = moving("qkv", partial(_exchange, 1, 2), result=True)
        yield "heads_first", HEADS, "Adapt it with np.swapaxes(x, 1, 2).", (2, 5), change
    if with_tokens:
        first, last = (moving(with_tokens, partial(_exchange, *axes), result=True) for axes in ((0, 1), (-1, -2)))
        says = "axes 0 and 1 are exchanged: it is right for (n, batch, ...)"
        yield "time_first", says, "Adapt it with np.swapaxes(x, 0, 1).", (2,), first
        says = "the last two axes are exchanged: it is right for features before tokens"
        yield "features_first", says, "Adapt it with np.swapaxes(x, -1, -2).", (2,), last
    says = "the result's last two axes are exchanged"
    yield "result_transposed", says, "Print .shape after each line.", (2,), moving((), partial(_exchange, -1, -2), True)
    some = itertools.chain.from_iterable(itertools.combinations(matrices, k) for k in {1, len(matrices)} - {0})
    for names in some if matrices else ():
        says = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} taken as (outputs, inputs): x @ {names[0]}.T"
        hint = f"The checker passes {names[0]} for x @ {names[0]}, not as torch.nn.Linear keeps it. Adapt it with .T."
        yield "weight_transposed", says, hint, (2,), moving(names, partial(_exchange, -1, -2), result=False)
