"""Grades a property that the reader writes."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...check.specs import get_spec
from ...check.trial import show_case
from ...check.zoo import ZOO
from ..exercise import RIGHT, WRONG, Grade
from .calling import ALWAYS_NONE, ask_property, no_function

RUNS = 5                # calls with each implementation, as a property may draw random inputs
FEW = 30                # arguments of a call are shown if they have at most this many numbers, else their shapes
REJECTS = "It returned False. Is the statement true of this function? Compare by hand on the inputs below."
DIFFERS = "Which number differs on these inputs, or with these sizes? Should it?"
ROUNDING = "If the statement is right on paper, it may hold up to rounding only: np.allclose compares that way."


@dataclass(frozen=True)
class Property:
    """Grades a property: it must be true of every right implementation of `spec`, and false with the zoo's `bug`.

    The answer is called with the functions named in `gives`, in this order. It returns whether the property holds, or
    asserts and returns nothing. It must also be false with each of the bugs `others`, and true with each of the bugs
    `true_of`, which break something else. `to_the_bit` is True if the chapter teaches exact equality.
    """

    spec: str
    bug: str
    gives: tuple[str, ...]
    others: tuple[str, ...] = ()
    to_the_bit: bool = False
    true_of: tuple[str, ...] = ()

    asks = "a property"

    def planted(self, name: str = "") -> Any:
        """The functions in `gives` with the bug, or with the zoo's bug `name`. Raises ValueError for an unknown bug."""
        bugs = self._bugs()
        if name and name not in bugs:
            raise ValueError(f"the zoo's {self.spec} has no bug {name!r}; it has {', '.join(sorted(bugs))}")
        made = ZOO[self.spec].make(frozenset([name or self.bug]))
        functions = tuple(getattr(made, one) for one in self.gives)
        return functions[0] if len(functions) == 1 else functions

    def planted_bugs(self) -> tuple[str, list[str], list[str]]:
        """Descriptions of the bug, of the bugs in `others`, and of the bugs in `true_of`."""
        says = {name: bug.says for name, bug in self._bugs().items()}
        return says[self.bug], [says[name] for name in self.others], [says[name] for name in self.true_of]

    def _bugs(self) -> dict[str, Any]:
        """The zoo's bugs of the spec, by name. Switches that are only another convention are left out."""
        return {b.name: b for b in ZOO[self.spec].BUGS if not b.convention}

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        make = ZOO[self.spec].make
        conventions = [b.name for b in ZOO[self.spec].BUGS if b.convention]
        sound = [("the library's own", get_spec(self.spec).ours()), ("one written differently", make(frozenset()))]
        sound += [("one by another convention", make(frozenset([name]))) for name in conventions]
        for which, implementation in sound:
            for trial in (self._try(answer, implementation) for _ in range(RUNS)):
                if trial.grade is not None:
                    return trial.grade
                if not trial.holds:
                    correct = " and ".join(f"a correct `{name}`" for name in self.gives)
                    return self._false_of_right(answer, f"it also rejects {correct}: {which}.", trial)
        bugs = self._bugs()
        for name in self.true_of:
            for trial in (self._try(answer, make(frozenset([name]))) for _ in range(RUNS)):
                if trial.finds:
                    says = f"it is also false where {bugs[name].says} ({name}): the statement is true even there."
                    return self._false_of_right(answer, says, trial)
        bug, wrong = bugs[self.bug], make(frozenset([self.bug]))
        trials = []
        for rounded in (False, True):
            for _ in range(RUNS):
                trial = self._try(answer, wrong, rounded)
                if trial.grade is not None:
                    return replace(trial.grade, outcome=WRONG, says=f"where the bug is, {trial.grade.says}")
                trials.append(trial)
        if all(trial.none for trial in trials):
            return ALWAYS_NONE
        finds = sum(not trial.holds for trial in trials)
        if finds < len(trials):
            says = f"it finds the bug in {finds} of {len(trials)} runs only."
            if all(trial.holds for trial in trials[RUNS:]):
                says = "it is true of what is right, but of the bug as well."
            return Grade(WRONG, says, (f"  it should be false where {bug.says} ({bug.name})",))
        also = [name for name in bugs if name != self.bug and self._try(answer, make(frozenset([name]))).finds]
        missed = next((bugs[name] for name in self.others if name not in also), None)
        if missed is not None:
            says = f"it finds {bug.name}, as it should, but another bug passes it."
            return Grade(WRONG, says, (f"  it should be false, too, where {missed.says} ({missed.name})",), missed.hint)
        others = "another known bug" if len(also) == 1 else f"{len(also)} other known bugs"
        note = f"It also finds {others}: {', '.join(also)}." if also else ""
        return Grade(RIGHT, f"right. It is true of what is right, and false where {bug.says} ({bug.name}).", note=note)

    def _false_of_right(self, answer: Callable[..., Any], says: str, trial: "_Trial") -> Grade:
        """The grade of a property that is false where it should be true, with its message and its last call."""
        exact = _compares_exactly(answer) and not self.to_the_bit
        lines = (f"  {trial.message or REJECTS}", *([f"  {ROUNDING}"] if exact else []), *trial.last)
        return Grade(WRONG, says, lines, DIFFERS if trial.last else "")

    def _try(self, answer: Callable[..., Any], implementation: Any, rounded: bool = False) -> "_Trial":
        """Call the property with an implementation.

        With `rounded`, the implementation's results have nine decimals, so that their last bits do not matter.
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

        advice = "np.all or bool" if self.to_the_bit else "np.allclose, np.all or bool"
        holds, message = ask_property(answer, *(watched(name) for name in self.gives), advice=advice)
        if isinstance(holds, Grade):
            return _Trial(grade=holds)
        return _Trial(holds is not False, message, tuple(last), none=holds is None)


@dataclass(frozen=True)
class _Trial:
    """The result of a property for one implementation: whether it holds, its message, and its last call in lines.

    `none` is True if it returned nothing: it asserts, or lacks a `return`. `grade` is the grade of a call that failed.
    """

    holds: bool = True
    message: str = ""
    last: tuple[str, ...] = ()
    none: bool = False
    grade: Grade | None = None

    @property
    def finds(self) -> bool:
        return self.grade is None and not self.holds


def _call_in_lines(name: str, arguments: dict[str, Any]) -> list[str]:
    """Lines that show a call with its arguments, or only with their shapes if they have more than FEW numbers."""
    few = sum(np.size(x) for x in arguments.values()) <= FEW
    sizes = [f"{n}: shape {np.shape(x)}" if np.ndim(x) else f"{n} = {x}" for n, x in arguments.items()]
    shown = show_case(arguments).splitlines() if few else sizes
    return [f"  its last call, of `{name}`, was with", *("    " + line for line in shown)]


def _rounded(x: Any) -> Any:
    """x rounded to nine decimals, or each result of a tuple."""
    if isinstance(x, tuple):
        return tuple(map(_rounded, x))
    return np.round(x, 9) if getattr(np.asarray(x).dtype, "kind", "") == "f" else x


def _compares_exactly(answer: Callable[..., Any]) -> bool:
    """Whether the answer's source contains == or array_equal."""
    try:
        source = inspect.getsource(answer)
    except (OSError, TypeError):
        return True
    return "==" in source or "array_equal" in source
