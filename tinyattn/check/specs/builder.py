"""Builds the spec of one op from its properties, its equation and the clauses of its contract.

Spec files also import the types of their functions' arguments from here, CaseDrawer and Subject.
"""

from collections.abc import Callable
from typing import Any

from ... import ops
from .. import adapters, oracles
from ..cases import CaseDrawer
from ..common import tolerance
from ..property import Holds, Property, close, demand, same_bits, stating
from ..spec import Spec
from ..subject import Subject

__all__ = ["Call", "CaseDrawer", "SpecBuilder", "Subject"]


class Call(dict[str, Any]):
    """The arguments of a call: `c.x` is c["x"], and `c(x=y)` is the same call with x replaced by y."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __call__(self, **others: Any) -> "Call":
        return Call(self | others)

    def without(self, *names: str) -> "Call":
        return Call({name: x for name, x in self.items() if name not in names})


Sides = Callable[[Subject, Call], Any]


class SpecBuilder:
    """A decorator that registers properties of the spec `name`, and `spec`, which builds the Spec with them.

    relu = SpecBuilder("relu")

    @relu("exact", "relu is never negative")
    def relu_positive(op, x): ...

    relu.law("odd_part", "exact", "relu(x) - relu(-x) is x", lambda op, c: (op(c.x) - op(-c.x), c.x))

    RELU = relu.spec("y = max(x, 0)", "relu(x): x (...)", case=relu_case, wrt=("x",))

    The first property is called `positive`: its name is the function's without the kind.
    """

    def __init__(self, name: str):
        self.name = name
        self.properties: list[Property] = []
        self.states = stating(name, self.properties, f"{name}_")

    def __call__(self, *statement: Any, **options: Any) -> Callable[[Holds], Holds]:
        return self.states(*statement, **options)

    def law(
        self, name: str, exactness: str, statement: str, sides: Sides, stage: str = "properties", *, hint: str = "",
        what: str = "", times: float = 1.0, of: Callable[[Call], Any] = Call, bits: bool = False,
        derived: Sides = lambda op, c: [], **fields: Any,
    ) -> None:  # fmt: skip
        """Register the property that two sides are equal: `sides(op, c)` -> left, right.

        `sides` may also return several pairs, in a list or in a generator, which makes no call after a pair that
        differs. `of` changes the drawn case to one to which the law applies. Unless exact, the sides may differ by
        `times` the tolerance of the case. A pair may have another tolerance and name: (left, right, atol, what). With
        `bits` they are compared by `same_bits`, and atol is its scale. A pair (condition, message) is a condition that
        must hold. `derived` returns further pairs, which are compared if there is a backward.
        """

        def holds(op: Subject, **case: Any) -> None:
            c = Call(of(Call(case)))
            parts = (part(op, c) for part in (sides, derived)[: 1 + op.has_backward])
            pairs = (pair for part in parts for pair in ([part] if isinstance(part, tuple) else part))
            for left, right, *more in pairs:
                atol, called = (*more, None, None)[:2]
                if isinstance(right, str):
                    demand(left, right)
                elif bits:
                    same_bits(left, right, called or what or op.spec.outputs[0], atol or 0.0)
                else:
                    if atol is None:
                        atol = 0 if exactness == "exact" else times * tolerance(op.spec, c)
                    close(left, right, atol, called or what or op.spec.outputs[0])

        self.properties.append(Property(self.name, name, stage, exactness, statement, holds, hint, **fields))

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
