"""The interface of conventions: permitted differences of an implementation (conventions.py has them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Case = dict[str, Any]


@dataclass(frozen=True)
class Switch:
    """One convention of an implementation. The methods of this base class change nothing."""

    says: str

    def has(self, given: Case) -> bool:
        """Whether the result of this call depends on the convention: then the call is left out."""
        return False

    def has_gradient(self, case: Case) -> bool:
        """Whether the gradient of this call depends on the convention: then the gradient is left out."""
        return False

    def avoid(self, case: Case) -> Case:
        """A similar case that does not depend on the convention."""
        return case

    def given(self, given: Case) -> Case:
        """The arguments in the implementation's convention."""
        return given

    def result(self, given: Case, y: Any) -> Any:
        """The first output in the library's convention."""
        return y

    def outputs(self, given: Case, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """All outputs in the library's convention."""
        return (self.result(given, outputs[0]), *outputs[1:])

    def gradients(self, case: Case, named: Case) -> Case:
        """The gradients, by argument, in the library's convention."""
        return named


class Ties(Switch):
    """Of a metric: the rank of a target whose score other items have."""


@dataclass(frozen=True)
class OtherDefault(Switch):
    """Another default of an argument of an optimiser."""

    name: str
    value: Any
