"""What a kind is: everything that must be known to hold an implementation against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .drawing import Pick
from .property import Property, largest

COMMON = (
    "float32 or float64, all arrays of a call alike; results in that dtype",
    "any strides: Fortran order, slices, read-only arrays",
    "leading axes none, one or several; sizes from 1; leading axes of size 0 give results of size 0",
    "results share no memory with the inputs, and inputs keep every bit",
    "equal calls give equal results, and earlier results survive later calls",
    "an error of 1e-8 in float64 is an error",
    "slow, ugly, tiled, transposed, or computed in float64 inside: all that is no fault",
)
BACKWARD = (
    "{f}_backward takes the upstream gradient first, then what it needs under the forward's names; it returns one "
    "gradient for each of {wrt}, in this order, None where the argument was None{but}. Without it the gradients are "
    "skipped"
)


def _nothing() -> list[dict[str, Any]]:
    return []


@dataclass(frozen=True)
class Kind:
    """A kind of implementation: its names, what it is tried on, what it is held to.

    `function` and `others` are the public names. `oracle` is the forward in plain loops, `ours` gives the library's
    own implementation, whose signature is the kind's. `wrt` names the arguments that have gradients.
    `specials` are cases that ordinary draws do not reach, for telling one bug from another, and `observe` says what is
    seen of a call, where that is not its results and gradients; `shown` makes of a case what the implementation was
    given, where that is not the case itself. `common` is False where the demands made of every pure function make no
    sense.
    """

    name: str
    says: str
    function: str
    case: Callable[[Pick], dict[str, Any]]
    ours: Callable[[], Any]
    properties: list[Property]
    outputs: tuple[str, ...]
    oracle: Callable[..., Any] | None = None
    wrt: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    clauses: tuple[str, ...] = ()
    common: bool = True
    scale: Callable[[dict[str, Any]], float] = field(default=lambda case: _square(case))
    specials: Callable[[], list[dict[str, Any]]] = _nothing
    observe: Callable[..., dict[str, Any]] | None = None
    shown: Callable[..., dict[str, Any]] | None = None

    def contract(self) -> list[str]:
        """The clauses that an implementation is held to, in sentences."""
        lines = [self.says, *self.clauses]
        if self.wrt:
            but = " (but db, which may always be there)" if self.name == "linear" else ""
            lines.append(BACKWARD.format(f=self.function, wrt=", ".join(self.wrt), but=but))
        return lines + list(COMMON if self.common else ())


def _square(case: dict[str, Any]) -> float:
    """The size of a product of two entries: what most ops add up."""
    return largest(*(x for x in case.values() if getattr(x, "dtype", None) is not None and x.dtype.kind == "f")) ** 2
