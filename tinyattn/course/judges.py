"""Judges of answers, one for each form that an answer has: a number, a function, a property.

All of it runs in the reader's own process, offline, and what the answer prints is kept out of the way.
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

from .exercise import RIGHT, UNANSWERED, WRONG, Judgement

EXAMPLES = 15           # cases a property: enough to meet every bug of the zoo, and an answer within a second or two
PATIENCE = 2.0          # seconds for one call of an answer
RUNS = 5                # of a reader's property, which may draw its inputs anew each time

NOTHING = "it returned None"
ROUNDING = "If it is so on paper: it is so up to rounding, and np.allclose forgives that."
UNWRITTEN = Judgement(UNANSWERED, "not answered yet")


@dataclass(frozen=True)
class Number:
    """A number, or an array of numbers, held against what the library computes at that moment.

    `compute() -> the right value`; `tolerance` is relative to the largest entry. `tempting` are usual wrong answers:
    what gives them, and what to say to whoever gives them.
    """

    compute: Callable[[], Any]
    tolerance: float
    tempting: tuple[tuple[Callable[[], Any], str], ...] = ()

    def __call__(self, answer: Any) -> Judgement:
        expected = np.asarray(self.compute(), float)
        wanted = "a number" if expected.ndim == 0 else f"numbers of shape {expected.shape}"
        try:
            got = np.asarray(answer)
        except ValueError:
            return Judgement(WRONG, f"{reprlib.repr(answer)} has rows of different lengths, expected {wanted}")
        if got.dtype.kind not in "iuf":
            return Judgement(WRONG, f"{_kind(answer)} is no answer here, expected {wanted}")
        if got.shape != expected.shape:
            return Judgement(WRONG, f"wrong shape: {got.shape}, expected {wanted}")
        if not np.all(np.isfinite(got)):
            return Judgement(WRONG, f"{reprlib.repr(answer)} is not finite")
        if self._near(got, expected):
            return Judgement(RIGHT, f"right. The library computes {_shown(expected)}.")
        for other, says in self.tempting:
            if self._near(got, np.asarray(other(), float)):
                return Judgement(WRONG, f"not {_shown(got)}.", (f"  {says}",))
        if expected.ndim == 0:
            return Judgement(WRONG, f"{_shown(got)} is {'too large' if got > expected else 'too small'}.")
        at = np.unravel_index(int(np.argmax(np.abs(got - expected))), expected.shape)
        return Judgement(WRONG, f"right shape, wrong values: look again at entry {[int(i) for i in at]}.")

    def _near(self, got: np.ndarray, expected: np.ndarray) -> bool:
        return got.shape == expected.shape and bool(
            np.max(np.abs(got - expected)) <= self.tolerance * max(float(np.max(np.abs(expected))), 1e-12)
        )


@dataclass(frozen=True)
class Function:
    """A function, held against everything that `tinyattn.check` knows of its kind.

    `kind` is a name of `tinyattn.check.KINDS`, or a `Kind` of the exercise's own. With `part` "backward" the answer is
    the backward, judged beside the forward `beside`, by default the library's: one that takes fewer arguments asks
    less of the backward. `takes` names the optional arguments that a forward must have. Where the exercise is to find
    a bug, `names_bug` is False: the counterexample is shown, the diagnosis would be the answer. `tempting` is a small
    zoo for a kind that has none: what a reader may write instead, and what to say to whoever writes it. `besides` is
    asked last, of an answer that passed: what its kind cannot know and is still wrong, in a sentence, or "".
    """

    kind: Any
    part: str = "forward"
    beside: Callable[..., Any] | None = None
    takes: tuple[str, ...] = ()
    names_bug: bool = True
    tempting: tuple[tuple[Callable[..., Any], str], ...] = ()
    besides: Callable[[Callable[..., Any]], str] | None = None

    def __call__(self, answer: Any) -> Judgement:
        from ..check.front import hold
        from ..check.kinds import named
        from ..check.subject import CannotRunError, Subject
        from ..check.trial import describe

        kind = named(self.kind) if isinstance(self.kind, str) else self.kind
        if not callable(answer):
            return Judgement(WRONG, f"{_kind(answer)} is no answer here, expected a function")
        offered = SimpleNamespace(**{kind.function: answer})
        stages: tuple[str, ...] = ("shapes", "oracle", "properties", "extremes")
        if self.part == "backward":
            forward = self.beside or getattr(kind.ours(), kind.function)
            offered = SimpleNamespace(**{kind.function: forward, f"{kind.function}_backward": answer})
            kind = replace(kind, shown=_given_to_backward)
            stages = ("gradients", "extremes")
        with _aside():
            try:
                op = Subject(offered, kind)
                empty = _empty(answer, offered, kind, self.part)
                if empty is not None:
                    return empty
                report = hold(offered, kind, stages=stages, examples=EXAMPLES, time_limit=30.0, patience=PATIENCE)
            except CannotRunError as error:
                return Judgement(WRONG, "it cannot be called.", (f"  {error}",))
        missing = [name for name in self.takes if name in report.lacks]
        if missing:
            return Judgement(WRONG, f"it takes no `{missing[0]}`.")
        if report:
            absent = _not_returned(op, kind) if self.part == "forward" and len(kind.outputs) > 1 else []
            if absent:
                says = f"right as far as it goes, but it returns no `{absent[0]}`."
                return Judgement(WRONG, says, (f"  expected {', '.join(kind.outputs)}",))
            with _aside():
                amiss = self.besides(answer) if self.besides else ""
            if amiss:
                return Judgement(WRONG, amiss)
            held = [f for f in report.findings if f.outcome == "holds"]
            tries = sum(f.tries for f in held)
            return Judgement(RIGHT, f"right. {len(held)} properties hold, in {tries:,} tries.")
        first = report.failures[0]
        told = describe(first, report.diagnosis if self.names_bug else None)
        lines = tuple("\n".join(told).split("\n"))
        if _no_result(first):
            lines = lines[2:]  # which property it was on the way to is beside the point
        tempting = () if first.endless else self.tempting  # it would not come back here either
        known = next((says for wrong, says in tempting if self._is(op, wrong, kind)), None)
        return Judgement(WRONG, _headline(first), lines + (() if known is None else (f"  {known}",)))

    def _is(self, op: Any, wrong: Callable[..., Any], kind: Any) -> bool:
        """Whether the answer gives what `wrong` gives, on a few cases that are the same for everybody."""
        from ..check.diagnosis import same_numbers
        from ..check.drawing import Pick
        from ..check.observing import standard
        from ..check.subject import Subject

        name = f"{kind.function}_backward" if self.part == "backward" else kind.function
        other = Subject(SimpleNamespace(**vars(op.implementation) | {name: wrong}), kind)
        with _aside():
            for seed in range(RUNS):
                case = kind.case(Pick.numbered(seed))
                seen, theirs = (_numbers(standard(one, kind, one.fit(case))) for one in (op, other))
                if seen.keys() != theirs.keys() or not all(same_numbers(x, theirs[n]) for n, x in seen.items()):
                    return False
        return True


@dataclass(frozen=True)
class Property:
    """A property that the reader writes: true of every right implementation of `kind`, false of the zoo's `bug`.

    The answer is given the functions named in `gives`, in this order, and returns True where the property holds and
    False where it does not; or it asserts, and returns nothing. `others` are bugs of the zoo that it must kill as well,
    being false of them by what the exercise asks for.
    """

    kind: str
    bug: str
    gives: tuple[str, ...]
    others: tuple[str, ...] = ()

    def __call__(self, answer: Any) -> Judgement:
        from ..check.kinds import named
        from ..check.zoo import ZOO

        if not callable(answer):
            return Judgement(WRONG, f"{_kind(answer)} is no answer here, expected a function")
        make = ZOO[self.kind].make
        conventions = [b.name for b in ZOO[self.kind].BUGS if b.convention]
        sound = [("the library's own", named(self.kind).ours()), ("one written differently", make(frozenset()))]
        sound += [("one by another convention", make(frozenset([name]))) for name in conventions]
        for which, implementation in sound:
            for outcome, told in (self._ask(answer, implementation) for _ in range(RUNS)):
                if outcome == UNANSWERED:
                    return UNWRITTEN
                if outcome == "unclear":
                    return Judgement(WRONG, told)
                if outcome != "holds":
                    says = f"it accuses {' and '.join(self.gives)} where nothing is wrong: {which}."
                    return Judgement(WRONG, says, (f"  {told or ROUNDING}",))
        bug = next(b for b in ZOO[self.kind].BUGS if b.name == self.bug)
        wrong = make(frozenset([self.bug]))
        found = [self._ask(answer, wrong) for _ in range(RUNS)]
        unclear = next((told for outcome, told in found if outcome == "unclear"), None)
        if unclear is not None:
            return Judgement(WRONG, f"given the implementation with the bug, {unclear}")
        kills = sum(outcome == "fails" for outcome, _ in found)
        if all(told == NOTHING for _, told in found):
            return Judgement(WRONG, "it always returns None, expected True or False. Is the `return` missing?")
        if kills < RUNS:
            says = f"it catches the bug in {kills} of {RUNS} runs only."
            if not kills:
                says = "true of what is right, but true of the bug as well."
            return Judgement(WRONG, says, (f"  the bug lives: {bug.says} ({bug.name})", f"hint: {bug.hint}"))
        also = [b.name for b in ZOO[self.kind].BUGS if not b.convention and b.name != self.bug
                and self._ask(answer, make(frozenset([b.name])))[0] == "fails"]  # fmt: skip
        lives = next((b for b in ZOO[self.kind].BUGS if b.name in self.others and b.name not in also), None)
        if lives is not None:
            says = f"it kills {bug.name}, but it should be false of this as well."
            return Judgement(WRONG, says, (f"  the bug lives: {lives.says} ({lives.name})", f"hint: {lives.hint}"))
        lines = (f"  of the zoo's other bugs it kills {len(also)}: {', '.join(also)}",) if also else ()
        return Judgement(RIGHT, f"right. It holds of what is right, and kills {bug.name}.", lines)

    def _ask(self, answer: Callable[..., Any], implementation: Any) -> tuple[str, str]:
        """-> "holds", "fails", "unanswered" or "unclear", and what there is to say."""
        from ..check.isolation import alarm
        from ..check.subject import TooLongError, told

        try:
            with _aside(), alarm(PATIENCE), np.errstate(all="ignore"):
                holds = answer(*(getattr(implementation, name) for name in self.gives))
        except NotImplementedError:
            return UNANSWERED, ""
        except AssertionError as error:
            return "fails", told(error)
        except TooLongError:
            return "unclear", f"it had not returned after {PATIENCE:g} seconds."
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() in an answer is no reason to leave
            return "unclear", f"it raises {type(error).__name__}: {told(error)}"
        if isinstance(holds, bool | np.bool_):
            return ("holds" if holds else "fails"), ""
        if holds is None:
            return "holds", NOTHING  # it asserts, or forgot to return
        return "unclear", f"it returns {_kind(holds)}, expected True or False. np.allclose, np.all or bool around it?"


def _numbers(seen: dict[str, Any]) -> dict[str, np.ndarray]:
    """Results and gradients, of all that was observed of a call."""
    return {name: x for name, x in seen.items() if isinstance(x, np.ndarray)}


def _headline(first: Any) -> str:
    """In a sentence, how far the answer got: of what sort its first failure is."""
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


def _not_returned(op: Any, kind: Any) -> list[str]:
    """Outputs that an answer, right as it is, leaves out: `tinyattn.check` can do without, a chapter asks for all."""
    from ..check.drawing import Pick

    with _aside():
        returned = op.outputs(**op.fit(kind.case(Pick.numbered(0))))
    return [name for name, x in zip(kind.outputs, returned, strict=True) if x is None]


def _no_result(first: Any) -> bool:
    """Whether the call raised, or did not come back."""
    return first.endless or (" raised " in first.message and not first.expected)


def _empty(answer: Callable[..., Any], offered: Any, kind: Any, part: str) -> Judgement | None:
    """Where the answer is still the stub it was handed out as, or returns nothing: what to say."""
    from ..check.demands import upstream
    from ..check.drawing import Pick
    from ..check.isolation import alarm
    from ..check.property import Violation
    from ..check.subject import Subject, TooLongError

    returned = []

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        returned.append(answer(*args, **kwargs))
        return returned[-1]

    name = f"{kind.function}_backward" if part == "backward" else kind.function
    op = Subject(SimpleNamespace(**vars(offered) | {name: watched}), kind)
    case = op.fit(kind.case(Pick.numbered(0)))
    try:
        with alarm(PATIENCE):
            op.gradients(case, *upstream(kind, case)) if part == "backward" else op.outputs(**case)
    except Violation as violation:
        if isinstance(violation.__cause__, NotImplementedError):
            return UNWRITTEN
    except (TooLongError, Exception):  # told in full when the properties are tried
        return None
    if returned and all(x is None for x in returned):
        return Judgement(WRONG, f"{NOTHING}. Is the `return` missing?")
    return None


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """What an answer prints or warns of while it is tried a thousand times is not for the reader."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _given_to_backward(op: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The case, and what the backward was given beside it: what to do the example with on paper."""
    from ..check.demands import upstream

    try:
        return case | op.prepared(op.fit(case), upstream(op.kind, case))
    except Exception:  # shown without, where the forward itself fails
        return case


def _kind(x: Any) -> str:
    if callable(x):
        return f"the function `{getattr(x, '__name__', type(x).__name__)}`"
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}" if x.dtype.kind != "O" else "an array of objects"
    name = type(x).__name__
    return f"{reprlib.repr(x)} ({name})" if type(x).__module__ in ("builtins", "numpy") else f"a {name}"


def _shown(x: np.ndarray) -> str:
    return f"{float(x):.4g}" if x.ndim == 0 else np.array2string(x, precision=4)
