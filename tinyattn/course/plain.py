"""Specs for exercises whose function is not an op, and wrong answers made by changing a line of a right one."""

import functools
import inspect
import math
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
    """A spec with the properties that all ops have in common. Without an `oracle`, `ours` is the oracle."""
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
    """A spec with one property: the answer returns what `ours` returns. `outputs` names the results.

    `atol` is the tolerance, or a function that computes it from the case. `extremes` are more cases, in which the
    results must agree within 1e-6; `extreme` is the statement about these cases.
    """
    spec = replace(op_spec(name, says, case, ours, *outputs), common=False, oracle=None)
    states = stating(name, spec.properties)

    def compare(op: Subject, case: dict[str, Any], atol: float) -> None:
        expected = ours(**case)
        both = op.outputs(**case), expected if len(outputs) > 1 else (expected,)
        for output, got, x in zip(outputs, *both, strict=True):
            if np.any(np.isinf(x)) and np.shape(got) == np.shape(x):             # -∞ - (-∞) is NaN
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


class Changes(dict[str, Callable[..., Any]]):
    """Wrong answers by name: `functions`, and `right` with each of the changes that the chapter's TOML file lists."""

    def __init__(self, right: Callable[..., Any], /, **functions: Callable[..., Any]) -> None:
        super().__init__(functions)
        self.right = right


def changed(f: Callable[..., Any], change: str) -> Callable[..., Any]:
    """`f` with its code changed as in a zoo: "old text -> new text", or several of these joined by " && ".

    Raises ValueError if the code does not have the old text.
    """
    source = _source(f)
    for old, new in (part.split(" -> ") for part in change.split(" && ")):
        if old not in source:
            raise ValueError(f"{f.__name__} has no {old!r}, which becomes {new!r}")
        source = source.replace(old, new)
    space = {"math": math, **f.__globals__}
    exec(compile(source, f"<{f.__name__}, changed>", "exec"), space)
    function: Callable[..., Any] = space[f.__name__]
    return function


_source = functools.cache(inspect.getsource)
