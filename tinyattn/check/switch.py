"""What a convention is: another way of doing the same, which an implementation may follow (conventions.py has them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Case = dict[str, Any]


@dataclass(frozen=True)
class Switch:
    """One convention, followed by an implementation. Each method changes nothing unless a subclass says so."""

    says: str

    def has(self, given: Case) -> bool:
        """Whether the convention decides this call: then it is left out."""
        return False

    def has_gradient(self, case: Case) -> bool:
        """Whether the convention decides the gradient of this call: then that is left out."""
        return False

    def avoid(self, case: Case) -> Case:
        """A like case that the convention does not decide."""
        return case

    def given(self, given: Case) -> Case:
        """The arguments as the implementation wants them."""
        return given

    def result(self, given: Case, y: Any) -> Any:
        """The first output as the library would give it."""
        return y

    def gradients(self, case: Case, named: Case) -> Case:
        """The gradients, by argument, as the library would give them."""
        return named
