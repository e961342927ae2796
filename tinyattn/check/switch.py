"""The interface of conventions, which are permitted differences of an implementation; conventions/ has them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .property import Case


@dataclass(frozen=True)
class Switch:
    """One convention of an implementation. The methods of this base class change nothing.

    Specs whose properties depend on the convention look it up by its `topic` (`Subject.convention`).
    """

    says: str
    topic: str = field(default="", kw_only=True)

    def has(self, call: Case) -> bool:
        """Whether the result of this call depends on the convention; such a call is left out."""
        return False

    def has_gradient(self, case: Case) -> bool:
        """Whether the gradient of this call depends on the convention; such a gradient is left out."""
        return False

    def avoid(self, case: Case) -> Case:
        """A similar case that does not depend on the convention."""
        return case

    def arguments(self, call: Case) -> Case:
        """The arguments in the implementation's convention."""
        return call

    def result(self, call: Case, y: Any) -> Any:
        """The first output in the library's convention."""
        return y

    def outputs(self, call: Case, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """All outputs in the library's convention."""
        return (self.result(call, outputs[0]), *outputs[1:])

    def upstream(self, case: Case, dy: tuple[Any, ...]) -> tuple[Any, ...]:
        """The upstream gradients in the implementation's convention."""
        return dy

    def gradients(self, case: Case, named: Case) -> Case:
        """The gradients, by argument, in the library's convention."""
        return named


@dataclass(frozen=True)
class OtherDefault(Switch):
    """A different default of an optimiser's argument."""

    name: str
    value: Any


@dataclass(frozen=True)
class FixedArgument(Switch):
    """An argument that the implementation lacks, and fixes at a value that differs from the library's default.

    `value` is the fixed value in the library's terms, or a function that computes it from the call.
    """

    name: str
    value: Any
    default: Any

    def of(self, call: Case) -> Any:
        return self.value(call) if callable(self.value) else self.value

    def has(self, call: Case) -> bool:
        return bool(call.get(self.name, self.default) != self.of(call))

    def avoid(self, case: Case) -> Case:
        return case | {self.name: self.of(case)}

    def arguments(self, call: Case) -> Case:
        return call | {self.name: self.default}  # so that it may be left out


@dataclass(frozen=True)
class Rescaled(Switch):
    """An argument that the implementation takes as `factor(call)` times the library's number; a call is left out if no
    number expresses it, `cannot(call)`."""

    name: str
    factor: Callable[[Case], float]
    default: float | None = None  # the library's number in a call without the argument
    cannot: Callable[[Case], bool] = lambda call: False

    def has(self, call: Case) -> bool:
        return self.cannot(call)

    def arguments(self, call: Case) -> Case:
        value = call.get(self.name, self.default)
        return call if value is None else call | {self.name: value * self.factor(call)}
