"""The spec of an exercise that asks for a function of no op: all that is asked is that its numbers are right."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..check.cases import CaseDrawer
from ..check.property import Property, close, stating
from ..check.spec import Spec
from ..check.subject import Subject


def plain_spec(
    name: str, says: str, case: Callable[[CaseDrawer], dict[str, Any]], ours: Callable[..., Any], output: str
) -> Spec:
    """A spec whose only property is that the answer gives what `ours` gives, its result being called `output`."""
    properties: list[Property] = []
    states = stating(name, properties)

    @states("rounding", says, "oracle", hint="Do the example above on paper.")
    def by_hand(op: Subject, **case: Any) -> None:
        close(op(**case), ours(**case), 1e-6, output)

    return Spec(
        name=name,
        says=says,
        function=name,
        case=case,
        ours=lambda: SimpleNamespace(**{name: ours}),
        properties=properties,
        outputs=(output,),
        common=False,
    )
