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
    name: str, says: str, case: Callable[[CaseDrawer], dict[str, Any]], ours: Callable[..., Any], *outputs: str
) -> Spec:
    """A spec whose only property is that the answer gives what `ours` gives, its results being called `outputs`."""
    properties: list[Property] = []
    states = stating(name, properties)

    @states("rounding", says, "oracle", hint="Do the example above on paper.")
    def by_hand(op: Subject, **case: Any) -> None:
        expected = ours(**case)
        both = op.outputs(**case), expected if len(outputs) > 1 else (expected,)
        for output, got, x in zip(outputs, *both, strict=True):
            close(got, x, 1e-6, output)

    return Spec(
        name=name,
        says=says,
        function=name,
        case=case,
        ours=lambda: SimpleNamespace(**{name: ours}),
        properties=properties,
        outputs=outputs,
        common=False,
    )
