"""Builds the spec of one op from its properties, its equation and the clauses of its contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops
from .. import adapters, oracles
from ..property import Property, stating
from ..spec import Spec


class SpecBuilder:
    """A decorator that registers properties of the spec `name`, and `spec`, which builds the Spec with them.

    states = SpecBuilder("relu")

    @states("exact", "relu is never negative")
    def positive(op, x): ...

    SPEC = states.spec("y = max(x, 0)", "relu(x): x (...)", case=case, outputs=("y",), wrt=("x",))
    """

    def __init__(self, name: str):
        self.name = name
        self.properties: list[Property] = []
        self.states = stating(name, self.properties)

    def __call__(self, *statement: Any, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
        return self.states(*statement, **options)

    def spec(self, says: str, *clauses: str, function: str = "", **fields: Any) -> Spec:
        """The Spec: its equation, the clauses of its contract, and further fields of `Spec`.

        By default the function has the spec's name, the library's is in `ops` or else in `adapters`, and its oracle
        in `oracles`; a spec without the common properties has no oracle.
        """
        function = function or self.name
        library = ops if function in ops.__all__ else adapters
        oracle = getattr(oracles, function) if fields.get("common", True) else None
        defaults = {"ours": lambda: library, "oracle": oracle}
        return Spec(self.name, says, function, properties=self.properties, clauses=clauses, **defaults | fields)
