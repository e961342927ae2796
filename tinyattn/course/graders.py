"""Graders of answers, one for each form of answer: a number, a function, a property.

They run in the reader's own process, offline; what the answer prints is discarded.
"""

from __future__ import annotations

import contextlib
import functools
import io
import reprlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from .exercise import RIGHT, UNANSWERED, WRONG, Grade

EXAMPLES = 15           # cases a property: enough to kill every bug of the zoo, in a second or two
PATIENCE = 2.0          # seconds for one call of an answer
RUNS = 5                # of a reader's property, which may draw random inputs

RETURNED_NONE = "it returned None"
ROUNDING = "If it is so on paper: it is so up to rounding, and np.allclose forgives that."
UNWRITTEN = Grade(UNANSWERED, "not answered yet")


@dataclass(frozen=True)
class Number:
    """Grades a number, or an array of numbers, by comparison with what the library computes.

    `compute() -> the right value`; `tolerance` is relative to the largest entry. `tempting` are common wrong answers:
    pairs of a function that computes one and a sentence for the reader who gives it.
    """

    compute: Callable[[], Any]
    tolerance: float
    tempting: tuple[tuple[Callable[[], Any], str], ...] = ()

    def __call__(self, answer: Any) -> Grade:
        expected = np.asarray(self.compute(), float)
        wanted = "a number" if expected.ndim == 0 else f"numbers of shape {expected.shape}"
        try:
            got = np.asarray(answer)
        except ValueError:
            return Grade(WRONG, f"{reprlib.repr(answer)} has rows of different lengths, expected {wanted}")
        if got.dtype.kind not in "iuf":
            return Grade(WRONG, f"{_described(answer)} is no answer here, expected {wanted}")
        if got.shape != expected.shape:
            return Grade(WRONG, f"wrong shape: {got.shape}, expected {wanted}")
        if not np.all(np.isfinite(got)):
            return Grade(WRONG, f"{reprlib.repr(answer)} is not finite")
        if self._near(got, expected):
            return Grade(RIGHT, f"right. The library computes {_shown(expected)}.")
        for other, says in self.tempting:
            if self._near(got, np.asarray(other(), float)):
                return Grade(WRONG, f"not {_shown(got)}.", (f"  {says}",))
        if expected.ndim == 0:
            return Grade(WRONG, f"{_shown(got)} is {'too large' if got > expected else 'too small'}.")
        at = np.unravel_index(int(np.argmax(np.abs(got - expected))), expected.shape)
        return Grade(WRONG, f"right shape, wrong values: look again at entry {[int(i) for i in at]}.")

    def _near(self, got: np.ndarray, expected: np.ndarray) -> bool:
        return got.shape == expected.shape and bool(
            np.max(np.abs(got - expected)) <= self.tolerance * max(float(np.max(np.abs(expected))), 1e-12)
        )


@dataclass(frozen=True)
class Function:
    """Grades a function by the properties of a spec of `tinyattn.check`.

    `spec` is a name in `tinyattn.check.SPECS`, or a `Spec` of the exercise's own. With `part` "backward" the answer is
    the backward of `forward`, by default the library's; a forward that takes fewer arguments asks less of the backward.
    `takes` names the optional arguments that a forward must have. `names_bug` is False where the exercise is to find a
    bug: the counterexample is shown, but not the diagnosis, which is the answer. `tempting` are common wrong functions,
    each with a sentence for the reader who writes it. `also` is asked of an answer that passed all properties: it
    returns in a sentence what is still wrong, or "".
    """

    spec: Any
    part: str = "forward"
    forward: Callable[..., Any] | None = None
    takes: tuple[str, ...] = ()
    names_bug: bool = True
    tempting: tuple[tuple[Callable[..., Any], str], ...] = ()
    also: Callable[[Callable[..., Any]], str] | None = None

    def __call__(self, answer: Any) -> Grade:
        from ..check.report import describe
        from ..check.runner import check_in_process
        from ..check.specs import get_spec
        from ..check.subject import CannotRunError, Subject

        spec = get_spec(self.spec) if isinstance(self.spec, str) else self.spec
        if not callable(answer):
            return Grade(WRONG, f"{_described(answer)} is no answer here, expected a function")
        offered = SimpleNamespace(**{spec.function: answer})
        stages: tuple[str, ...] = ("shapes", "oracle", "properties", "extremes")
        if self.part == "backward":
            forward = self.forward or getattr(spec.ours(), spec.function)
            offered = SimpleNamespace(**{spec.function: forward, f"{spec.function}_backward": answer})
            spec = replace(spec, shown=_given_to_backward)
            stages = ("gradients", "extremes")
        with _silenced():
            try:
                op = Subject(offered, spec)
                empty = _unwritten(answer, offered, spec, self.part)
                if empty is not None:
                    return empty
                report = check_in_process(
                    offered, spec, stages=stages, examples=EXAMPLES, time_limit=30.0, patience=PATIENCE, strict=True
                )
            except CannotRunError as error:
                return Grade(WRONG, "it cannot be called.", (f"  {error}",))
        missing = [name for name in self.takes if name in report.lacks]
        if missing:
            return Grade(WRONG, f"it takes no `{missing[0]}`.")
        if report:
            absent = _not_returned(op, spec) if self.part == "forward" and len(spec.outputs) > 1 else []
            if absent:
                says = f"right as far as it goes, but it returns no `{absent[0]}`."
                return Grade(WRONG, says, (f"  expected {', '.join(spec.outputs)}",))
            with _silenced():
                still_wrong = self.also(answer) if self.also else ""
            if still_wrong:
                return Grade(WRONG, still_wrong)
            held = [f for f in report.findings if f.outcome == "holds"]
            tries = sum(f.tries for f in held)
            return Grade(RIGHT, f"right. {len(held)} properties hold, in {tries:,} tries.")
        first = report.failures[0]
        told = describe(first, report.diagnosis if self.names_bug else None)
        lines = tuple("\n".join(told).split("\n"))
        if _no_result(first):
            lines = lines[2:]  # without the property's name: every property would raise
        tempting = () if first.endless else self.tempting  # it would not return here either
        known = next((says for wrong, says in tempting if self._gives_the_same_as(op, wrong, spec)), None)
        return Grade(WRONG, _headline(first), lines + (() if known is None else (f"  {known}",)))

    def _gives_the_same_as(self, op: Any, wrong: Callable[..., Any], spec: Any) -> bool:
        """Whether the answer gives the same results as `wrong` on a few fixed cases."""
        from ..check.cases import CaseDrawer
        from ..check.diagnosis import same_numbers
        from ..check.observing import observe_call
        from ..check.subject import Subject

        name = f"{spec.function}_backward" if self.part == "backward" else spec.function
        other = Subject(SimpleNamespace(**vars(op.implementation) | {name: wrong}), spec)
        with _silenced():
            for seed in range(RUNS):
                case = spec.case(CaseDrawer.seeded(seed))
                seen, theirs = (_numbers(observe_call(one, spec, one.fit(case))) for one in (op, other))
                if seen.keys() != theirs.keys() or not all(same_numbers(x, theirs[n]) for n, x in seen.items()):
                    return False
        return True


@dataclass(frozen=True)
class Property:
    """Grades a property that the reader writes: true of every right implementation of `spec`, false of the zoo's `bug`.

    The answer is called with the functions named in `gives`, in this order. It returns whether the property holds; or
    it asserts, and returns nothing. `others` are further bugs of the zoo that it must kill.
    """

    spec: str
    bug: str
    gives: tuple[str, ...]
    others: tuple[str, ...] = ()

    def __call__(self, answer: Any) -> Grade:
        from ..check.specs import get_spec
        from ..check.zoo import ZOO

        if not callable(answer):
            return Grade(WRONG, f"{_described(answer)} is no answer here, expected a function")
        make = ZOO[self.spec].make
        conventions = [b.name for b in ZOO[self.spec].BUGS if b.convention]
        sound = [("the library's own", get_spec(self.spec).ours()), ("one written differently", make(frozenset()))]
        sound += [("one by another convention", make(frozenset([name]))) for name in conventions]
        for which, implementation in sound:
            for outcome, told in (self._ask(answer, implementation) for _ in range(RUNS)):
                if outcome == UNANSWERED:
                    return UNWRITTEN
                if outcome == "unclear":
                    return Grade(WRONG, told)
                if outcome != "holds":
                    says = f"it accuses {' and '.join(self.gives)} where nothing is wrong: {which}."
                    return Grade(WRONG, says, (f"  {told or ROUNDING}",))
        bug = next(b for b in ZOO[self.spec].BUGS if b.name == self.bug)
        wrong = make(frozenset([self.bug]))
        found = [self._ask(answer, wrong) for _ in range(RUNS)]
        unclear = next((told for outcome, told in found if outcome == "unclear"), None)
        if unclear is not None:
            return Grade(WRONG, f"given the implementation with the bug, {unclear}")
        kills = sum(outcome == "fails" for outcome, _ in found)
        if all(told == RETURNED_NONE for _, told in found):
            return Grade(WRONG, "it always returns None, expected True or False. Is the `return` missing?")
        if kills < RUNS:
            says = f"it catches the bug in {kills} of {RUNS} runs only."
            if not kills:
                says = "true of what is right, but true of the bug as well."
            return Grade(WRONG, says, (f"  the bug lives: {bug.says} ({bug.name})", f"hint: {bug.hint}"))
        also = [b.name for b in ZOO[self.spec].BUGS if not b.convention and b.name != self.bug
                and self._ask(answer, make(frozenset([b.name])))[0] == "fails"]  # fmt: skip
        lives = next((b for b in ZOO[self.spec].BUGS if b.name in self.others and b.name not in also), None)
        if lives is not None:
            says = f"it kills {bug.name}, but it should be false of this as well."
            return Grade(WRONG, says, (f"  the bug lives: {lives.says} ({lives.name})", f"hint: {lives.hint}"))
        lines = (f"  of the zoo's other bugs it kills {len(also)}: {', '.join(also)}",) if also else ()
        return Grade(RIGHT, f"right. It holds of what is right, and kills {bug.name}.", lines)

    def _ask(self, answer: Callable[..., Any], implementation: Any) -> tuple[str, str]:
        """-> "holds", "fails", "unanswered" or "unclear", and a sentence, or ""."""
        from ..check.isolation import alarm
        from ..check.subject import TooLongError, message_of

        try:
            with _silenced(), alarm(PATIENCE), np.errstate(all="ignore"):
                holds = answer(*(getattr(implementation, name) for name in self.gives))
        except NotImplementedError:
            return UNANSWERED, ""
        except AssertionError as error:
            return "fails", message_of(error)
        except TooLongError:
            return "unclear", f"it had not returned after {PATIENCE:g} seconds."
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() in an answer must not end the reader's process
            return "unclear", f"it raises {type(error).__name__}: {message_of(error)}"
        if isinstance(holds, bool | np.bool_):
            return ("holds" if holds else "fails"), ""
        if holds is None:
            return "holds", RETURNED_NONE  # it asserts, or forgot to return
        says = f"it returns {_described(holds)}, expected True or False. np.allclose, np.all or bool around it?"
        return "unclear", says


def _numbers(seen: dict[str, Any]) -> dict[str, np.ndarray]:
    """Results and gradients among a call's observations."""
    return {name: x for name, x in seen.items() if isinstance(x, np.ndarray)}


def _headline(first: Any) -> str:
    """One sentence on the sort of the first failure."""
    if first.endless:
        return "it does not come back."
    if _no_result(first) and not first.property.endswith("_of_nothing"):
        return "it raises an error."
    if "_backward returned " in first.message:
        return "a gradient is missing, or there is one too many."
    if "expected an array of numbers" in first.message or " returned None for " in first.message:
        return "wrong type."
    if first.property in ("shape_and_dtype", "gradient_shapes") or "wrong shape" in first.message:
        return "wrong dtype." if "dtype" in first.message else "wrong shape."
    if "unchanged" in first.property or first.property == "own_memory":
        return "it changes or gives back what it was given."
    if first.stage == "extremes" or first.property.endswith("_of_nothing"):
        return "right in ordinary cases, wrong in an extreme one."
    return "right shape, wrong values."


def _not_returned(op: Any, spec: Any) -> list[str]:
    """Outputs that a right answer leaves out: optional in `tinyattn.check`, required in a chapter."""
    from ..check.cases import CaseDrawer

    with _silenced():
        returned = op.outputs(**op.fit(spec.case(CaseDrawer.seeded(0))))
    return [name for name, x in zip(spec.outputs, returned, strict=True) if x is None]


def _no_result(first: Any) -> bool:
    """Whether the call raised, or did not return."""
    return first.endless or (" raised " in first.message and not first.expected)


def _unwritten(answer: Callable[..., Any], offered: Any, spec: Any, part: str) -> Grade | None:
    """The grade of an answer that is still the stub, or returns None; else None."""
    from ..check.cases import CaseDrawer
    from ..check.common import upstream
    from ..check.isolation import alarm
    from ..check.property import Violation
    from ..check.subject import Subject, TooLongError

    returned = []

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        returned.append(answer(*args, **kwargs))
        return returned[-1]

    name = f"{spec.function}_backward" if part == "backward" else spec.function
    op = Subject(SimpleNamespace(**vars(offered) | {name: watched}), spec)
    case = op.fit(spec.case(CaseDrawer.seeded(0)))
    try:
        with alarm(PATIENCE):
            op.gradients(case, *upstream(spec, case)) if part == "backward" else op.outputs(**case)
    except Violation as violation:
        if isinstance(violation.__cause__, NotImplementedError):
            return UNWRITTEN
    except (TooLongError, Exception):  # reported in full when the properties are tried
        return None
    if returned and all(x is None for x in returned):
        return Grade(WRONG, f"{RETURNED_NONE}. Is the `return` missing?")
    return None


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Discard what the answer prints and warns of in the block."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _given_to_backward(op: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The case and the backward's other arguments: all that is needed to do the example on paper."""
    from ..check.common import upstream

    try:
        return case | op.prepared(op.fit(case), upstream(op.spec, case))
    except Exception:  # the forward itself failed
        return case


def _described(x: Any) -> str:
    if callable(x):
        return f"the function `{getattr(x, '__name__', type(x).__name__)}`"
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}" if x.dtype.kind != "O" else "an array of objects"
    name = type(x).__name__
    return f"{reprlib.repr(x)} ({name})" if type(x).__module__ in ("builtins", "numpy") else f"a {name}"


def _shown(x: np.ndarray) -> str:
    return f"{float(x):.4g}" if x.ndim == 0 else np.array2string(x, precision=4)
