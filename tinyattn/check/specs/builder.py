"""Builds the spec of one op from its properties, its equation and the clauses of its contract.

A spec file also imports the types of its functions' arguments from here: the drawer of cases, the subject under test.
"""

from collections.abc import Callable
from typing import Any

from ... import ops
from .. import adapters, oracles
from ..cases import CaseDrawer
from ..property import Property, stating
from ..spec import Spec
from ..subject import Subject

__all__ = ["CaseDrawer", "SpecBuilder", "Subject"]


class SpecBuilder:
    """A decorator that registers properties of the spec `name`, and `spec`, which builds the Spec with them.

    relu = SpecBuilder("relu")

    @relu("exact", "relu is never negative")
    def relu_positive(op, x): ...

    RELU = relu.spec("y = max(x, 0)", "relu(x): x (...)", case=relu_case, wrt=("x",))

    The property above is called `positive`: its name is the function's without the kind.
    """

    def __init__(self, name: str):
        self.name = name
        self.properties: list[Property] = []
        self.states = stating(name, self.properties, f"{name}_")

    def __call__(self, *statement: Any, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
        return self.states(*statement, **options)

    def spec(
        self, says: str, *clauses: str, function: str = "", outputs: tuple[str, ...] = ("y",), **fields: Any
    ) -> Spec:
        """The Spec of this equation, with the clauses of its contract and other fields of `Spec`.

        By default the function has the spec's name, the library's is in `ops` or else in `adapters`, and its oracle
        is in `oracles`. A spec without the common properties has no oracle.
        """
        function = function or self.name
        library = ops if function in ops.__all__ else adapters
        oracle = getattr(oracles, function) if fields.get("common", True) else None
        defaults: dict[str, Any] = {"ours": lambda: library, "oracle": oracle, "properties": self.properties}
        return Spec(self.name, says, function, outputs=outputs, clauses=clauses, **defaults | fields)
