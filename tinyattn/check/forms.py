"""Forms of a call that an implementation does not take: detected once, reported once, and left out.

The forward is called with a few cases of every form, such as x without a batch axis or b=None. A form is not offered if
the forward raises on at least half of its cases and is right on none (some may return since sizes agree by chance).
Calls of other forms are checked; a call that raises without a form that explains it is a failure.
"""

import itertools
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from .cases import CaseDrawer, copied
from .common import ours_of, upstream
from .isolation import alarm
from .property import Violation
from .spec import Form, Spec
from .subject import CannotRunError, MissingError, NotOfferedError, Subject, TooLongError

LEADS = ((), (2,), (2, 3), (2, 1, 3))
SEEDS = 8
_BATCH = ("without a batch axis", "with one batch axis", "with two batch axes", "with three batch axes")


def find_forms(op: Subject, limit: float = 10.0, patience: float = 10.0) -> list[Form]:
    """The forms that `op` does not take. Raises CannotRunError if it takes none.

    If a call takes `patience` seconds, the list is empty; after `limit` seconds the calls made so far are evaluated.
    """
    if not op.spec.common and not op.spec.forms:
        return []
    cases = _cases(op)
    until = time.monotonic() + limit
    op.forms = _ours_refused(op, until, patience)
    left: list[tuple[dict[str, Any], str]] = []  # cases, and "right", "wrong", or the error
    for case in filter(op.offers, map(op.fit, cases)):
        try:
            with alarm(patience):
                left.append((case, _outcome(op, case)))
        except TooLongError:
            return []
        if time.monotonic() > until and not all(_raised(outcome) for _, outcome in left):
            break
    reasons = [outcome for _, outcome in left]
    if not {"right", "wrong"} & set(reasons):
        raise CannotRunError(f"nothing could be called: {max(reasons, key=reasons.count)}")
    refused = list(op.forms)
    forms = _forms(op, cases) if any(map(_raised, reasons)) else []
    while any(_raised(outcome) for _, outcome in left):
        outcomes = {form: [outcome for case, outcome in left if form.has(case)] for form in forms}
        some = [form for form in forms if not all(form.has(case) for case, _ in left)]  # a case must be left to try
        candidates = [form for form in some if _refused(op, form, left)]
        if not candidates:
            break
        # A form that always raises goes first, since another may raise only in calls that also have that form.
        first = max(candidates, key=lambda form: (all(map(_raised, outcomes[form])), len(outcomes[form])))
        refused.append(first)
        left = [(case, outcome) for case, outcome in left if not first.has(case)]
    op.forms = refused
    return refused + _orders_refused(op, [case for case, outcome in left if outcome == "right"])


def _refused(op: Subject, form: Form, tried: list[tuple[dict[str, Any], str]]) -> bool:
    """Whether calls of this form raise, and none is right; for a form with `rewrite`, whether some raise without it."""
    outcomes = [outcome for case, outcome in tried if form.has(case)]
    if form.rewrite is None:
        count = sum(map(_raised, outcomes))
        return count > 1 and 2 * count >= len(outcomes) and "right" not in outcomes
    raising = [case for case, outcome in tried if form.has(case) and _raised(outcome)]
    op.forms.append(form)
    try:
        return any(not _raised(_outcome(op, case)) for case in raising[:SEEDS])
    finally:
        op.forms.remove(form)


def _orders_refused(op: Subject, cases: list[dict[str, Any]]) -> list[Form]:
    """The form of arrays in another memory order, if `op` refuses it, as `Tensor.view` does."""
    form = Form(
        "arrays that do not lie in C order",
        lambda case: any(isinstance(x, np.ndarray) and not x.flags.c_contiguous for x in case.values()),
    )
    for case in cases if op.takes_tensors else ():
        other = {n: np.array(x, order="F") if isinstance(x, np.ndarray) else x for n, x in case.items()}
        try:
            if form.has(other):
                op.outputs_of_lent(**other)
        except Violation as violation:
            return [form] if isinstance(violation.__cause__, RuntimeError) else []
    return []


def find_backward_forms(op: Subject, limit: float = 10.0, patience: float = 10.0) -> list[Form]:
    """The form keep=None, as in evaluation, if the backward does not take it and the forward does."""
    if "keep" not in op.signature.parameters or "keep" in op.lacks or not op.spec.wrt:
        return []
    form = Form("the gradient for keep=None", partial(_is_none, "keep"))
    until = time.monotonic() + limit
    cases = [case for case in map(op.fit, (*op.spec.special_cases(), *_cases(op))) if op.offers(case)]
    if not any(map(form.has, cases)):
        return []
    for case in sorted(cases, key=form.has, reverse=True):
        if time.monotonic() > until:
            break
        try:
            with alarm(patience), np.errstate(all="ignore"):
                op.gradients(case, *upstream(op.spec, case))
            raised = False
        except Violation as violation:
            raised = violation.__cause__ is not None
        except (TooLongError, MissingError, CannotRunError):
            return []
        if raised != form.has(case):
            return []
    return [form]


def find_missing_gradients(op: Subject, patience: float = 10.0) -> list[str]:
    """The arguments for which the backward returns None in all of a few calls, if others get gradients."""
    none: dict[str, list[bool]] = {}
    drawn = (op.spec.case(CaseDrawer.seeded(seed, ((2,), ()))) for seed in range(SEEDS if op.spec.wrt else 0))
    for case in map(op.fit, drawn):
        try:
            with alarm(patience), np.errstate(all="ignore"):
                returned = op.backward(op.prepared(case, upstream(op.spec, case)))
                for name, g in op.by_argument(case, returned).items():
                    none.setdefault(name, []).append(g is None)
        except NotOfferedError:
            continue
        except (Violation, TooLongError, MissingError, CannotRunError):
            return []
    missing = [name for name, each in none.items() if all(each)]
    return missing if len(missing) < len(none) else []


def _outcome(op: Subject, case: dict[str, Any]) -> str:
    """The forward's outcome on a case: "right" or "wrong" by its first output, or the error."""
    try:
        y = np.asarray(op.outputs(**copied(case))[0])
    except Violation as violation:
        return str(violation) if violation.__cause__ is not None else "wrong"
    except (MissingError, CannotRunError):
        return "right"
    if not op.spec.common:
        return "wrong"  # or right, which its properties will show
    with np.errstate(all="ignore"):
        expected = np.asarray(ours_of(op.spec, case)[0])
    return "right" if y.shape == expected.shape and np.allclose(y, expected, rtol=1e-3, atol=1e-3) else "wrong"


def _raised(outcome: str) -> bool:
    return outcome not in ("right", "wrong")


def _cases(op: Subject) -> list[dict[str, Any]]:
    """Cases with every number of batch axes, also with all optional arguments, and a few of each other form."""
    cases = [op.spec.case(CaseDrawer.seeded(seed, (lead,))) for seed in range(SEEDS) for lead in LEADS]
    if not op.spec.common:
        return cases
    name = next(iter(gaining(op.spec.case)), next(iter(cases[0])))
    full: dict[int, list[dict[str, Any]]] = {}  # cases with all arguments, by axes of the first batched one
    for seed, lead in itertools.product(range(SEEDS, 5 * SEEDS), LEADS):
        case = op.spec.case(CaseDrawer.seeded(seed, (lead,)))
        if all(x is not None for x in case.values()):
            full.setdefault(np.ndim(case[name]), []).append(case)
    cases += [case for alike in full.values() for case in alike[: SEEDS // 2]]
    cases += op.spec.special_cases()
    drawn = cache(lambda seed: op.spec.case(CaseDrawer.seeded(seed, LEADS)))
    for form in other_forms(op):
        others = map(drawn, range(SEEDS, 20 * SEEDS))
        cases += itertools.islice((case for case in others if form.has(case)), SEEDS)
    return cases


def _forms(op: Subject, cases: list[dict[str, Any]]) -> list[Form]:
    """All forms: by batch axes of `cases`, by arguments left out, by masks and heads, and those of the spec."""
    forms = other_forms(op)
    if not op.spec.common:
        return forms
    for name in gaining(op.spec.case)[:1]:
        without = {np.ndim(op.spec.case(CaseDrawer.seeded(seed, ((),)))[name]) for seed in range(SEEDS)}
        words = {min(without) + batch: text for batch, text in enumerate(_BATCH)} if len(without) == 1 else {}
        for axes in {np.ndim(case[name]) for case in cases}:
            forms.append(Form(f"{name} {words.get(axes, f'with {axes} axes')}", partial(_has_axes, name, axes)))
    arguments = [name for name in op.signature.parameters if name not in op.lacks]
    chosen = {(name, case[name]) for name in arguments for case in cases if isinstance(case[name], bool | str)}
    forms += [Form(f"{name}={value!r}", partial(_is_value, name, value)) for name, value in sorted(chosen)]
    return forms + [Form(f"{name}=None", partial(_is_none, name)) for name in arguments]


def _ours_refused(op: Subject, until: float, patience: float) -> list[Form]:
    """The forms that this library alone uses and that `op` does not compute, although it computes other calls.

    Such a call need not raise: `np.where(mask, ...)` takes an object of an unknown class for True.
    """
    every = [form for form in other_forms(op) if form.ours]
    refused = [form for form in every if form.fatal and op.takes_tensors]
    forms = [form for form in every if form not in refused]
    drawn = [op.fit(op.spec.case(CaseDrawer.seeded(seed))) for seed in range(20 * SEEDS if forms else 0)]
    drawn = [case for case in drawn if op.offers(case) and not any(form.has(case) for form in refused)]

    def outcomes(form: Form | None) -> list[str]:
        """The outcomes of calls that have this form and no other of `forms`; for None, of calls that have none."""
        each = []
        for case in itertools.islice((c for c in drawn if all(f.has(c) == (f is form) for f in forms)), 2 * SEEDS):
            try:
                with alarm(patience):
                    each.append(_outcome(op, case))
            except TooLongError:
                return []
            if time.monotonic() > until:
                break
        return each

    plain = outcomes(None) if forms else []
    for form in forms:
        tried = outcomes(form)
        raises = bool(tried) and bool(plain) and all(map(_raised, tried)) and not any(map(_raised, plain))
        of_others = _share_right(plain)
        few = bool(tried) and _share_right(tried) < 0.5 * of_others and of_others >= 0.5  # some are right by chance
        if raises or (few and (not form.raises or 2 * sum(map(_raised, tried)) >= len(tried))):
            refused.append(form)
    return refused


def _share_right(outcomes: list[str]) -> float:
    return outcomes.count("right") / max(len(outcomes), 1)


def other_forms(op: Subject) -> list[Form]:
    """The forms of the spec, and the common forms of calls with a mask or with heads."""
    names = op.signature.parameters
    forms = list(op.spec.forms)
    if "mask" in names:
        has_one = partial(_has_axes, "mask", 1)
        forms.append(Form("a mask of one axis", has_one, lambda case: case | {"mask": case["mask"][None]}))
        forms += [BROADCAST, FEW_AXES] if "W_q" in names else [BROADCAST]
    if {"q", "k", "v"} <= set(names):
        forms.append(Form(
            "values of another width than keys",
            lambda case: np.shape(case["v"])[-1] != np.shape(case["k"])[-1], ours=True, raises=True,
        ))  # fmt: skip
    if "heads" in names and "W_q" in names:
        forms.append(Form("heads of odd size", lambda case: case["W_q"].shape[1] // case["heads"] % 2 == 1))
    return forms


def _has_axes(name: str, axes: int, case: dict[str, Any]) -> bool:
    return np.ndim(case.get(name, 0)) == axes


def _scores_shape(case: dict[str, Any]) -> tuple[int, ...]:
    """The shape of the scores that the mask is for: (n, m) where there are heads."""
    if "x" in case:
        return case["x"].shape[-2], case.get("memory", case["x"]).shape[-2]
    return (*case["q"].shape[:-1], case["k"].shape[-2]) if "q" in case else case["s" if "s" in case else "A"].shape


BROADCAST = Form(
    "a mask that is broadcast",
    lambda case: isinstance(case.get("mask"), np.ndarray) and case["mask"].shape != _scores_shape(case),
    lambda case: case | {"mask": np.broadcast_to(case["mask"], _scores_shape(case)).copy()},
)
FEW_AXES = Form(
    "a mask of fewer than four axes",
    lambda case: isinstance(case.get("mask"), np.ndarray) and case["mask"].ndim < 4,
    lambda case: case | {"mask": case["mask"][(None,) * (4 - case["mask"].ndim)]},
)


def _is_value(name: str, value: Any, case: dict[str, Any]) -> bool:
    return isinstance(case.get(name), bool | str) and case[name] == value


def _is_none(name: str, case: dict[str, Any]) -> bool:
    return name in case and case[name] is None


@cache
def gaining(case: Callable[[CaseDrawer], dict[str, Any]]) -> list[str]:
    """The arguments of these cases that always gain an axis with each batch axis."""
    pairs = [[case(CaseDrawer.seeded(seed, (lead,))) for lead in ((), (2,))] for seed in range(4)]
    return [n for n in pairs[0][0] if all(np.ndim(b[n]) == np.ndim(a[n]) + 1 for a, b in pairs if a[n] is not None)]


def with_batch(spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """The case as a batch of one."""
    batched = gaining(spec.case)
    return {n: x[None] if n in batched and isinstance(x, np.ndarray) else x for n, x in case.items()}
