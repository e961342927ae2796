"""What a convention is, and how results are compared to detect one."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..binding import is_float_array
from ..cases import CaseDrawer, copied
from ..common import by_loops, widened
from ..property import LEADS, Leads, Violation, largest, rounding
from ..spec import Spec
from ..subject import CannotRunError, MissingError, Subject
from ..switch import Case, Switch

Find = Callable[[Subject], Switch | None]
NEAR = 3  # candidates of a convention beside which a bug is looked for, if none fits
LIMITS = (1e-9, 1e-5)  # the largest relative error with the right eps; the second is for float32


@dataclass(frozen=True)
class Convention:
    """A choice in which right code differs. `says` is its sentence in a contract; `find(op)` detects it.

    With `first`, it is sought before forms of calls, since code that follows it may raise on all other calls.
    """

    says: str
    find: Find
    first: bool = False


CONVENTIONS: dict[str, Convention] = {}


def convention(name: str, says: str, first: bool = False) -> Callable[[Find], Find]:
    """A decorator of a function that detects the convention `name`; a kind names it in `choices`."""

    def register(find: Find) -> Find:
        CONVENTIONS[name] = Convention(says, find, first)
        return find

    return register


@dataclass(frozen=True)
class OtherSpec(Switch):
    """The implementation follows `spec` instead of its kind's spec: a different formula, or calls of one dtype."""

    spec: Spec


def other_spec(spec: Spec, forward: Callable[..., Any], backward: Callable[..., Any], **changes: Any) -> Spec:
    """The spec of another function of the same name and arguments."""
    ours = SimpleNamespace(**{spec.function: forward, f"{spec.function}_backward": backward})
    return replace(spec, oracle=forward, ours=lambda: ours, **changes)


def cases_of(op: Subject, count: int, wanted: Callable[[Case], bool] = bool, leads: Leads = LEADS) -> list[Case]:
    """The first `count` of 400 random cases that `op` takes and that are `wanted`."""
    drawn = (op.fit(op.spec.case(CaseDrawer.seeded(seed, leads))) for seed in range(400))
    return list(itertools.islice((case for case in drawn if wanted(case) and op.offers(case)), count))


def fitting(op: Subject, candidates: Iterable[Switch]) -> Switch | None:
    """The first candidate with which `op` is right on at least two more cases, and wrong on none.

    Calls that raise do not count, since they may be of a form that `op` does not take. If no candidate fits and no case
    is right without one, the first with which far fewer calls raise is returned, so that properties can be tried.
    """
    ours = [form for form in op.spec.forms if form.ours]
    cases = [widened(case) for case in cases_of(op, 16, lambda case: not any(form.has(case) for form in ours))]
    before = [is_right(op, case) for case in cases]
    runs = None
    near: list[Switch] = []
    for switch in () if all(before) else candidates:
        near += [switch] * (len(near) < NEAR and switch.says != "")
        with trying(op, switch):
            now = list(itertools.takewhile(lambda right: right is not False, (is_right(op, case) for case in cases)))
            gained = sum(bool(right) and not already for right, already in zip(now, before, strict=False))
            if len(now) == len(cases) and gained >= 2:
                return switch
            if runs is None and True not in before and None in before:
                now = [is_right(op, case) for case in cases]
                runs = switch if _far_fewer_raise(cases, before, now) else None
    op.near += near
    return runs


def _far_fewer_raise(cases: list[Case], before: list[bool | None], now: list[bool | None]) -> bool:
    """Whether far fewer calls raise now: of all, or of those whose arrays have some number of axes, as code that takes
    (b, n, d) alone raises at every other."""
    axes = [tuple(np.ndim(x) for x in case.values()) for case in cases]
    some = [[a == of for a in axes] for of in set(axes)]
    raised = [[sum(outcome is None for outcome in itertools.compress(seen, chosen)) for seen in (before, now)]
              for chosen in ([True] * len(cases), *some)]  # fmt: skip
    return all(b <= a for a, b in raised) and any(a > 1 and 4 * b < a for a, b in raised)


@contextlib.contextmanager
def trying(op: Subject, switch: Switch) -> Iterator[None]:
    """Within the block, `op` is taken to follow the convention."""
    spec = op.spec
    adopt(op, switch)
    try:
        yield
    finally:
        op.spec = spec
        op.conventions.remove(switch)


def adopt(op: Subject, switch: Switch) -> None:
    op.conventions.append(switch)
    op.spec = getattr(switch, "spec", None) or op.spec


def is_right(op: Subject, case: Case, call: Case | None = None, like: Case | None = None) -> bool | None:
    """Whether the first output is the oracle's for this case; None if the call raises or is left out.

    The arguments passed are `call`, and the rounding allowed is that of `like`; both are the case by default.
    """
    try:
        y = op.outputs(**copied(case if call is None else call))[0]
    except Violation as violation:
        return None if violation.__cause__ is not None else False
    except (MissingError, CannotRunError):
        return None
    except Exception:  # its result cannot be rearranged
        return False
    return near(y, oracle(op, case), like or case)


def mends(op: Subject, switch: Switch, right: Callable[[Case], bool | None], cases: list[Case]) -> bool:
    """Whether all cases are right with the switch, and not without."""
    if all(map(right, cases)):
        return False
    with trying(op, switch):
        return all(map(right, cases))


def helps(op: Subject, switch: Switch, name: str, cases: Iterable[Case]) -> Switch | None:
    """The switch, if the property of this name holds for all cases with it, and not without."""
    prop = next(prop for prop in op.spec.properties if prop.name == name)

    def holds(case: Case) -> bool:
        with contextlib.suppress(Violation):
            prop.holds(op, **copied(case))
            return True
        return False

    return switch if mends(op, switch, holds, list(cases)) else None


def oracle(op: Subject, case: Case) -> Any:
    return by_loops(op.spec, case)[0]


def near(y: Any, right: Any, case: Case) -> bool:
    size = largest(*filter(is_float_array, case.values()))
    return error(y, right) <= 100 * rounding(np.float32, 64, size**2)


def error(y: Any, right: Any) -> float:
    """The largest difference of two results; infinite where their shapes differ."""
    if np.shape(y) != np.shape(right):
        return math.inf
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(np.asarray(y, np.float64) - right), initial=0))


def fixed_eps(error: Callable[[float], float], default: float) -> float | None:
    """The eps of an implementation, with as few digits as fit: the default, or one from 1e-12 to 1e-3; or None.

    `error(eps)` is the relative error of the formula with eps. It grows on both sides of the right value.
    """
    error = functools.cache(error)
    powers = [10.0**n for n in range(-12, -2)]

    def candidates() -> Iterator[float]:
        yield from (default, *powers)
        near = min(range(len(powers)), key=lambda i: error(powers[i]))
        best = _least(error, powers[max(near - 1, 0)], powers[min(near + 1, len(powers) - 1)])
        yield from (float(f"{best:.{digits}e}") for digits in range(8))

    fits = (eps for limit in LIMITS for eps in candidates() if error(eps) <= limit)
    return next((eps for eps in fits if error(eps) <= error(1e-30)), None)  # or no eps is used


def _least(error: Callable[[float], float], low: float, high: float) -> float:
    """The minimum of an error that falls and then rises, by golden-section search over the logarithm."""
    share, a, b = (math.sqrt(5) - 1) / 2, math.log(low), math.log(high)
    for _ in range(45):
        left, right = b - share * (b - a), a + share * (b - a)
        a, b = (a, right) if error(math.exp(left)) < error(math.exp(right)) else (left, b)
    return math.exp((a + b) / 2)


def number(x: float) -> str:
    """1e-7, and not 1e-07."""
    return f"{x:g}".replace("e-0", "e-")


def relative_error(y: Any, right: Any) -> float:
    return error(y, right) / (float(np.max(np.abs(right), initial=0)) or 1.0)
