"""Grades a property that the reader writes."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...check.specs import get_spec
from ...check.subject import message_of
from ...check.trial import show_case
from ...check.zoo import ZOO
from ..exercise import RIGHT, WRONG, Grade
from .calling import described, no_function, run_answer

RUNS = 5                # of a property, which may draw random inputs
FEW = 30                # numbers of a property's last call that are shown; of more, their shapes
REJECTS = "It returned False for it. Is the statement true of it? Compare by hand on the inputs below."
DIFFERS = "Which number differs on these inputs, or with these sizes, and should it?"
ROUNDING = "If the statement is right on paper, it may hold up to rounding only: np.allclose compares that way."


@dataclass(frozen=True)
class Property:
    """Grades a property that the reader writes: true of every right implementation of `spec`, false of the zoo's `bug`.

    The answer is called with the functions named in `gives`, in this order. It returns whether the property holds; or
    it asserts, and returns nothing. `others` are further bugs of the zoo that it must kill, and `lives` are bugs of
    which it must be true all the same: they break something else. `to_the_bit` is True where equality is what the
    chapter teaches.
    """

    spec: str
    bug: str
    gives: tuple[str, ...]
    others: tuple[str, ...] = ()
    to_the_bit: bool = False
    lives: tuple[str, ...] = ()

    asks = "a property"

    def planted(self, name: str = "") -> Any:
        """The functions in `gives` with the bug, or with another of the zoo's. Raises ValueError for an unknown one."""
        known = {b.name for b in ZOO[self.spec].BUGS if not b.convention}
        if name and name not in known:
            raise ValueError(f"the zoo's {self.spec} has no bug {name!r}; it has {', '.join(sorted(known))}")
        made = ZOO[self.spec].make(frozenset([name or self.bug]))
        functions = tuple(getattr(made, one) for one in self.gives)
        return functions[0] if len(functions) == 1 else functions

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        make = ZOO[self.spec].make
        conventions = [b.name for b in ZOO[self.spec].BUGS if b.convention]
        sound = [("the library's own", get_spec(self.spec).ours()), ("one written differently", make(frozenset()))]
        sound += [("one by another convention", make(frozenset([name]))) for name in conventions]
        for which, implementation in sound:
            for asked in (self._ask(answer, implementation) for _ in range(RUNS)):
                if asked.grade is not None:
                    return asked.grade
                if not asked.holds:
                    return self._rejects(answer, which, asked)
        bugs = {b.name: b for b in ZOO[self.spec].BUGS if not b.convention}
        for name in self.lives:
            for asked in (self._ask(answer, make(frozenset([name]))) for _ in range(RUNS)):
                if asked.finds:
                    says = f"it is also false where {bugs[name].says} ({name}): the statement is true even there."
                    return Grade(WRONG, says, self._why(answer, asked), DIFFERS if asked.last else "")
        bug, wrong = bugs[self.bug], make(frozenset([self.bug]))
        found = []
        for rounded in (False, True):
            for _ in range(RUNS):
                asked = self._ask(answer, wrong, rounded)
                if asked.grade is not None:
                    return replace(asked.grade, outcome=WRONG, says=f"where the bug is, {asked.grade.says}")
                found.append(asked)
        if all(asked.none for asked in found):
            return Grade(WRONG, "it always returns None, expected True or False. Is the `return` missing?")
        finds = sum(not asked.holds for asked in found)
        if finds < len(found):
            says = f"it finds the bug in {finds} of {len(found)} runs only."
            if all(asked.holds for asked in found[RUNS:]):
                says = "it is true of what is right, but of the bug as well."
            return Grade(WRONG, says, (f"  it should be false where {bug.says} ({bug.name})",))
        also = [name for name in bugs if name != self.bug and self._ask(answer, make(frozenset([name]))).finds]
        missed = next((bugs[name] for name in self.others if name not in also), None)
        if missed is not None:
            says = f"it finds {bug.name}, as it should, but another bug passes it."
            return Grade(WRONG, says, (f"  it should be false, too, where {missed.says} ({missed.name})",), missed.hint)
        others = "another known bug" if len(also) == 1 else f"{len(also)} other known bugs"
        note = f"It also finds {others}: {', '.join(also)}." if also else ""
        return Grade(RIGHT, f"right. It is true of what is right, and false where {bug.says} ({bug.name}).", note=note)

    def _rejects(self, answer: Callable[..., Any], which: str, asked: _Asked) -> Grade:
        """The grade of a property that is false of a correct implementation."""
        says = f"it also rejects {' and '.join(f'a correct `{name}`' for name in self.gives)}: {which}."
        return Grade(WRONG, says, self._why(answer, asked), DIFFERS if asked.last else "")

    def _why(self, answer: Callable[..., Any], asked: _Asked) -> tuple[str, ...]:
        """What a property that is false where it should be true said, and its last call."""
        exact = _compares_exactly(answer) and not self.to_the_bit
        return (f"  {asked.told or REJECTS}", *([f"  {ROUNDING}"] if exact else []), *asked.last)

    def _ask(self, answer: Callable[..., Any], implementation: Any, rounded: bool = False) -> _Asked:
        """Call the property with an implementation.

        With `rounded` the implementation's results have nine decimals: what is false of their last bits only is true.
        """
        last: list[str] = []

        def watched(name: str) -> Callable[..., Any]:
            f = getattr(implementation, name)

            @functools.wraps(f)
            def call(*args: Any, **kwargs: Any) -> Any:
                with contextlib.suppress(TypeError, ValueError):
                    last[:] = _call_in_lines(name, dict(inspect.signature(f).bind(*args, **kwargs).arguments))
                result = f(*args, **kwargs)
                return _rounded(result) if rounded else result

            return call

        try:
            holds = run_answer(answer, *(watched(name) for name in self.gives))
        except AssertionError as error:
            return _Asked(holds=False, told=message_of(error), last=tuple(last))
        if isinstance(holds, Grade):
            return _Asked(grade=holds)
        if isinstance(holds, bool | np.bool_):
            return _Asked(holds=bool(holds), last=tuple(last))
        if holds is None:
            return _Asked(none=True)  # it asserts, or forgot to return
        close = "" if self.to_the_bit else "np.allclose, "
        says = f"it returns {described(holds)}, expected True or False. {close}np.all or bool around it?"
        return _Asked(grade=Grade(WRONG, says))


@dataclass(frozen=True)
class _Asked:
    """What a property said of one implementation: whether it holds, its message, and its last call in lines.

    `none` says that it returned nothing. `grade` stands in place of all where it cannot be said.
    """

    holds: bool = True
    told: str = ""
    last: tuple[str, ...] = ()
    none: bool = False
    grade: Grade | None = None

    @property
    def finds(self) -> bool:
        return self.grade is None and not self.holds


def _call_in_lines(name: str, given: dict[str, Any]) -> list[str]:
    """A call with its arguments; arrays of many numbers by their shapes."""
    few = sum(np.size(x) for x in given.values()) <= FEW
    sizes = [f"{n}: shape {np.shape(x)}" if np.ndim(x) else f"{n} = {x}" for n, x in given.items()]
    shown = show_case(given).splitlines() if few else sizes
    return [f"  its last call, of `{name}`, was with", *("    " + line for line in shown)]


def _rounded(x: Any) -> Any:
    """With nine decimals: an array, a number, or each of a tuple."""
    if isinstance(x, tuple):
        return tuple(map(_rounded, x))
    return np.round(x, 9) if getattr(np.asarray(x).dtype, "kind", "") == "f" else x


def _compares_exactly(answer: Callable[..., Any]) -> bool:
    """Whether its source compares with == or np.array_equal."""
    try:
        source = inspect.getsource(answer)
    except (OSError, TypeError):
        return True
    return "==" in source or "array_equal" in source
