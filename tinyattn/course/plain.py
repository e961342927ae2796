"""Specs of exercises that ask for a function of no op, and families of wrong answers to them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..check.cases import CaseDrawer
from ..check.property import close, stating
from ..check.spec import Spec
from ..check.subject import Subject

Cases = Callable[[CaseDrawer], dict[str, Any]]


def op_spec(
    name: str, says: str, case: Cases, ours: Callable[..., Any], *outputs: str,
    backward: Callable[..., Any] | None = None, oracle: Callable[..., Any] | None = None, **fields: Any,
) -> Spec:  # fmt: skip
    """A spec with the properties that all ops have in common. Without an `oracle`, `ours` serves as one."""
    functions = {name: ours} | ({f"{name}_backward": backward} if backward else {})
    return Spec(
        name=name,
        says=says,
        function=name,
        case=case,
        ours=lambda: SimpleNamespace(**functions),
        properties=[],
        outputs=outputs,
        oracle=oracle or ours,
        **fields,
    )


def plain_spec(
    name: str, says: str, case: Cases, ours: Callable[..., Any], *outputs: str,
    atol: float | Callable[[dict[str, Any]], float] = 1e-6, extreme: str = "", extremes: Iterable[dict[str, Any]] = (),
) -> Spec:  # fmt: skip
    """A spec whose only property is that the answer gives what `ours` gives, with results of the names `outputs`.

    `atol` is the tolerance, or a function of the case that gives it. `extremes` are further cases, which must give the
    same within 1e-6; `extreme` is the statement about them.
    """
    spec = replace(op_spec(name, says, case, ours, *outputs), common=False, oracle=None)
    states = stating(name, spec.properties)

    def compare(op: Subject, case: dict[str, Any], atol: float) -> None:
        expected = ours(**case)
        both = op.outputs(**case), expected if len(outputs) > 1 else (expected,)
        for output, got, x in zip(outputs, *both, strict=True):
            if np.any(np.isinf(x)) and np.shape(got) == np.shape(x):             # -∞ less -∞ is NaN
                got, x = (np.where(got == x, 0, one) for one in (got, x))
            close(got, x, atol, output)

    @states("rounding" if atol else "exact", says, "oracle")
    def by_hand(op: Subject, **case: Any) -> None:
        compare(op, case, atol(case) if callable(atol) else atol)

    if extreme:

        @states("rounding", extreme, "extremes", once=True)
        def in_extremes(op: Subject, **case: Any) -> None:
            for each in extremes:
                compare(op, each, 1e-6)

    return spec


def variants(f: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """`variants(f)(line=...)` is `f` with one line written otherwise; keyword-only arguments of `f` are its lines."""
    signature = inspect.signature(f)
    arguments = [p for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]

    @functools.wraps(f)
    def make(**lines: Any) -> Callable[..., Any]:
        variant: Any = functools.partial(f, **lines)
        variant.__name__, variant.__signature__ = f.__name__, signature.replace(parameters=arguments)
        return variant

    return make
