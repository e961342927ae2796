"""A specification: everything that the checker needs to know about one function."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .cases import CaseDrawer
from .property import Property, largest

COMMON = (
    "float32 or float64, all arrays of a call alike; results in that dtype",
    "any strides: Fortran order, slices, read-only arrays",
    "leading axes none, one or several; sizes from 1; leading axes of size 0 give results of size 0",
    "results share no memory with the inputs, unless they are a reshape of one, and inputs keep every bit",
    "equal calls give equal results, and earlier results survive later calls",
    "an error of 1e-8 in float64 is an error",
    "slow, ugly, tiled, transposed, or computed in float64 inside: all that is no fault",
)
BACKWARD = (
    "{f}_backward takes the upstream gradient first, then what it needs under the forward's names; it returns one "
    "gradient for each of {wrt}, in this order, None where the argument was None{but}. Without it the gradients are "
    "skipped"
)


@dataclass(frozen=True)
class Form:
    """A form of a call: its description, and whether a call has it. `rewrite` gives the call a different form."""

    says: str
    has: Callable[[dict[str, Any]], bool]
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    ours: bool = False  # this library alone uses it
    raises: bool = False  # such a form is left out only where most calls raise: numbers must be right
    fatal: bool = False  # code in C may read beyond the end of such an array: tensors of this form are never passed


@dataclass(frozen=True)
class Spec:
    """The specification of a function: its names, the cases it is tried on, its properties.

    `function` and `others` are the public names; with `any_metric`, one of them is enough. `oracle` is the forward in
    plain loops. `ours` returns the library's implementation, whose signature is the spec's. `wrt` names the arguments
    that have gradients. `special_cases` distinguish bugs that random cases do not. `forms` are forms of a call that an
    implementation need not take, beyond those that every spec has (forms.py). `together` names optional arguments that
    are passed together or not at all.
    `choices` names the conventions (conventions/) that its arguments do not imply.
    `dtype` is the only dtype of floats that is passed, or None for both. `common` is False where the common properties
    do not apply. `but` is the contract's exception about gradients. `observe` replaces `observe_call` for specs that
    are not about results and gradients. `shown` turns a case into the one that a report shows. `loops` are the oracles
    of a spec without `oracle`, and `of_loops` makes an implementation from them; diagnosis changes their formulas.
    `remark` explains a failing case where no bug can be named. `remembered` is the cache of common.py.
    """

    name: str
    says: str
    function: str
    case: Callable[[CaseDrawer], dict[str, Any]]
    ours: Callable[[], Any]
    properties: list[Property]
    outputs: tuple[str, ...]
    oracle: Callable[..., Any] | None = None
    wrt: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    any_metric: bool = False
    clauses: tuple[str, ...] = ()
    common: bool = True
    forms: tuple[Form, ...] = ()
    choices: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    but: str = ""
    dtype: Any = None
    scale: Callable[[dict[str, Any]], float] = field(default=lambda case: _square(case))
    special_cases: Callable[[], list[dict[str, Any]]] = list
    observe: Callable[..., dict[str, Any]] | None = None
    shown: Callable[..., dict[str, Any]] | None = None
    loops: tuple[Callable[..., Any], ...] = ()
    of_loops: Callable[..., Any] | None = None
    remark: Callable[..., str] | None = None
    remembered: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    @property
    def lets_more_follow(self) -> bool:
        """Whether the contract allows more results after the outputs."""
        return len(self.outputs) > 1 or any(f"-> {self.outputs[0]} first" in clause for clause in self.clauses)

    def contract(self) -> list[str]:
        """The duties of an implementation, in sentences."""
        lines = [self.says, *self.clauses]
        if self.wrt:
            lines.append(BACKWARD.format(f=self.function, wrt=", ".join(self.wrt), but=self.but))
        return lines + list(COMMON if self.common else ())


def _square(case: dict[str, Any]) -> float:
    """The largest product of two entries: the size of the terms that most ops add up."""
    return largest(*(x for x in case.values() if getattr(x, "dtype", np.dtype(int)).kind == "f")) ** 2
