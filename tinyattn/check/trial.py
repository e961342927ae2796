"""Try one property on many cases, and report the outcome."""

import contextlib
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import copied, long_cases, seeded_cases, strategy
from .isolation import alarm
from .property import EMPTY_BATCHES, Property, RoundingViolation, Violation
from .specs import Spec
from .subject import CannotRunError, MissingError, NotOfferedError, Subject, TooLongError, message_of

BATCHES = 4  # at most BATCHES · `examples` cases are drawn, if an implementation does not take all of them
PRINTED = np.get_printoptions()
OF_RESULTS = {  # hints of shape_and_dtype, by the sort of a violation
    "shape": "Print .shape after each line: which one drops, adds or exchanges an axis?",
    "count": "Return the result alone.",
    "type": "Return arrays, the result first: an adapter of a few lines takes them out of a dict or an object.",
}
NOT_OF_NOTHING = "not for an empty batch"  # the message of a property that fails for empty batches alone begins so


@dataclass(frozen=True)
class Finding:
    """The outcome of one property: "holds", "fails" or "skipped". Values and counterexample are text.

    `gravity` is that of a failure, `cause` is equal for failures of one cause, and `note` is set for an exact property
    that holds only up to rounding. The message of a property that holds names the cases that were left out.
    """

    property: str
    stage: str
    statement: str
    exactness: str
    outcome: str
    tries: int = 0
    message: str = ""
    expected: str = ""
    got: str = ""
    counterexample: str = ""
    hint: str = ""
    endless: bool = False  # a call did not return in time
    gravity: str = "numbers"
    cause: str = ""
    note: str = ""
    place: str = ""  # FILE:LINE of the code that raised
    sort: str = "values"  # as a Violation's


def trial_of(
    op: Subject, spec: Spec, prop: Property, *, examples: int = 50, seed: int = 0, shrink: bool = True,
    budget: float = 60.0, patience: float = 10.0, strict: bool = True,
) -> "Trial":  # fmt: skip
    """Try a property on `examples` cases, in `budget` seconds, each call in `patience` seconds.

    With `shrink`, hypothesis shrinks a failing case, if it is installed. With `strict`, an exact property that holds
    only up to rounding fails. Raises CannotRunError.
    """
    until = time.monotonic() + budget
    trial = Trial(op, prop, until, patience, strict)
    failed: list[Failure] = []
    wanted = prop.at_most(examples)
    batches = (seeded_cases(spec.case, wanted, seed, prop.leads, prop.wide, batch) for batch in range(BATCHES))
    for case in itertools.chain.from_iterable(batches):
        if trial.missing or trial.tries >= wanted:
            break
        with contextlib.suppress(Violation):
            trial(copied(case))
            continue
        failed.append(trial.failure())
        if trial.too_long is not None or time.monotonic() > until:
            break
    if not failed:
        with contextlib.suppress(Violation):
            for case in long_cases(spec.case, examples) if prop.wide else ():
                trial.long(case)
            return trial
        failed.append(trial.failure())
    trial.failed, trial.last_failure = True, min(failed, key=Failure.oddity)
    if trial.too_long is not None:
        return trial
    trial.flaky = not trial.fails_again()
    if shrink and not prop.once and _has_hypothesis():
        smaller = Trial(op, prop, until, patience, strict)
        _search(smaller, trial.failure(), strategy(spec.case, prop.leads, prop.wide), wanted, seed)
        smaller.tries += trial.tries
        trial = smaller if smaller.failed else trial
    return trial


def _has_hypothesis() -> bool:
    """Whether hypothesis can be imported; an implementation may have patched modules that it needs."""
    with contextlib.suppress(Exception):
        from hypothesis import given  # noqa: F401

        return True
    return False


@dataclass(frozen=True)
class Failure:
    """A violation, its case, and the arguments of the last call before it."""

    violation: Violation
    case: dict[str, Any]
    last: dict[str, Any]

    def oddity(self) -> tuple[bool, bool, float]:
        """A key that sorts failures: first those without NaN, then without axes of length 1, then of the largest error.

        A variance with n - 1 in its denominator is NaN for n = 1; a case with another n shows the mistake better.
        """
        return self.is_nan(), self.is_narrow(), -self.error()

    def is_nan(self) -> bool:
        got = self.violation.got
        return isinstance(got, float | np.floating) and bool(got != got)

    def cause(self) -> str:
        """A cause that failures may share: the error and its line, or "NaN"; else ""."""
        error = self.violation.__cause__
        return "NaN" * self.is_nan() if error is None else f"{type(error).__name__} {self.violation.place}"

    def is_narrow(self) -> bool:
        return any(1 in x.shape for x in self.case.values() if isinstance(x, np.ndarray))

    def error(self) -> float:
        """|got - expected| / max(1, |expected|); 0 if they are no numbers."""
        pair = self.violation.got, self.violation.expected
        if not all(isinstance(x, int | float | np.number) for x in pair):
            return 0.0
        got, expected = map(float, pair)
        error = abs(got - expected) / max(1.0, abs(expected))
        return error if math.isfinite(error) else math.inf

    def resembles(self, other: "Failure") -> bool:
        """Whether it shows the same fault as `other`: the same sort of violation, an error not much smaller."""
        alike = self.violation.sort == other.violation.sort and self.is_nan() == other.is_nan()
        return alike and self.is_narrow() <= other.is_narrow() and self.error() >= min(0.1 * other.error(), 1e-3)


def _search(trial: "Trial", like: Failure, cases: Any, examples: int, seed: int) -> None:
    """Let hypothesis draw `cases`, and shrink the first one whose failure resembles `like`."""
    import hypothesis
    from hypothesis import HealthCheck, Phase

    def tried(case: dict[str, Any]) -> None:
        before = trial.last_failure
        try:
            trial(case)
        except Violation:
            if trial.too_long is not None or trial.failure().resembles(like):
                raise
            trial.last_failure = before

    holds = hypothesis.settings(
        max_examples=examples, phases=(Phase.generate, Phase.shrink), deadline=None, database=None,
        report_multiple_bugs=False, suppress_health_check=list(HealthCheck), verbosity=hypothesis.Verbosity.quiet,
    )(hypothesis.seed(seed)(hypothesis.given(cases)(tried)))  # fmt: skip
    try:
        with _reading_no_constants():
            holds()
    except Violation:
        trial.failed = True
    except hypothesis.errors.HypothesisException:  # the same call fails only sometimes
        trial.failed = trial.flaky = True


@contextlib.contextmanager
def _reading_no_constants() -> Iterator[None]:
    """Let hypothesis read no constants from the source of local modules. It would draw them; cases do not need them.

    Where the package is installed from a checkout this saves a second or two, and a folder `.hypothesis` in the
    working directory. Which cases are drawn no longer depends on the modules that a notebook has imported.
    """
    from hypothesis.internal.conjecture import providers

    name = "_get_local_constants"
    read, none_read = getattr(providers, name, None), getattr(providers, "_local_constants", None)
    if read is None or none_read is None:  # a version that names them otherwise
        yield
        return
    setattr(providers, name, lambda: none_read)
    try:
        yield
    finally:
        setattr(providers, name, read)


class Trial:
    """A property as a function of one case. It keeps the last failure, and the number of tries."""

    def __init__(self, op: Subject, prop: Property, until: float, patience: float, strict: bool):
        self.op, self.prop, self.until, self.patience, self.strict = op, prop, until, patience, strict
        self.tries, self.flaky, self.failed = 0, False, False
        self.missing = self.not_offered = self.note = self.note_of_long = ""
        self.last_failure: Failure | None = None
        self.too_long: Violation | None = None

    def __call__(self, case: dict[str, Any]) -> None:
        if self.too_long is not None:
            raise self.too_long  # no shrinking: every smaller case might take as long
        if time.monotonic() > self.until:
            if self.last_failure is not None:
                raise self.last_failure.violation  # out of time: stop shrinking
            return
        if self.missing:
            return
        case = self.op.fit(case)
        left_out = self.op.left_out(case)
        if left_out:
            self.not_offered = left_out
            return
        self.tries += 1
        before, self.op.last = copied(case), {}  # before anything writes into it
        try:
            with alarm(max(self.patience, self.until - time.monotonic()) if self.prop.once else self.patience):
                self.prop.holds(self.op, **case)
        except NotOfferedError as missing:
            self.tries -= 1
            self.not_offered = str(missing)
        except MissingError as missing:
            self.missing = str(missing)
        except CannotRunError:
            raise
        except TooLongError:
            if self.prop.once:  # a training run may take longer than the limit
                self.missing = "it did not end in time: --time-limit allows more"
                return
            self.too_long = Violation(f"it had not returned after {self.patience:g} seconds", sort="endless")
            self._failed(self.too_long, before)
        except RoundingViolation as violation:
            if self.strict:
                self._failed(violation, before)
            self.note = f"{violation}: {show_value(violation.expected)}, and {show_value(violation.got)}"
        except Violation as violation:
            self._failed(violation, before)
        except Exception as error:  # the result could not be examined
            says = f"its result cannot be used: {type(error).__name__}: {message_of(error)}"
            self._failed(Violation(says, sort="type"), before)

    def failure(self) -> Failure:
        """The last failure, also after calls that did not fail."""
        return self.last_failure or Failure(Violation("it fails on some calls and not on others"), {}, {})

    def fails_again(self) -> bool:
        """Whether an equal call fails, too."""
        shown = self.failure()
        try:
            self(copied(shown.case))
        except Violation:
            return True
        finally:
            self.last_failure = shown
        return False

    def _passed(self, failure: Failure) -> dict[str, Any]:
        """The arguments of the last call, if the property is about the function that it called; else the case."""
        is_backward = bool(failure.last.keys() - self.op.signature.parameters.keys())
        last = failure.last and is_backward == (self.prop.stage == "gradients")
        return self._without_lacking(failure.last if last else failure.case)

    def _without_lacking(self, case: dict[str, Any]) -> dict[str, Any]:
        return {n: x for n, x in case.items() if n not in self.op.lacks}

    def long(self, case: dict[str, Any]) -> None:
        """Try a case of 300 tokens. A call that takes too long is no failure, but ends such cases."""
        if self.note_of_long:
            return
        try:
            self(case)
        except Violation:
            if self.too_long is None:
                raise
            self.too_long = self.last_failure = None
            self.note_of_long = f"300 tokens took more than {self.patience:g} seconds, and are left out"

    def _failed(self, violation: Violation, case: dict[str, Any]) -> None:
        self.last_failure = Failure(violation, case, self.op.last)
        raise violation

    def finding(self) -> Finding:
        prop = self.prop
        common = (prop.name, prop.stage, prop.statement, prop.exactness)
        if self.failed and self.prop.leads == EMPTY_BATCHES and not self.strict:
            return Finding(*common, "holds", self.tries, message=f"{NOT_OF_NOTHING}: {self.failure().violation}")
        if not self.failed:
            if self.missing or not self.tries:
                reason = self.missing or self.not_offered or "there was no time left"
                return Finding(*common, "skipped", self.tries, message=reason)
            says = self.note_of_long or str(self.op.remembered.get(prop.name, ""))
            return Finding(*common, "holds", self.tries, message=says, note=self.note)
        failure = self.failure()
        violation = failure.violation
        hint = OF_RESULTS.get(violation.sort, prop.hint) if prop.name == "shape_and_dtype" else prop.hint
        if violation.__cause__ is not None:
            hint = "What does that line do with this input?"
        if violation is self.too_long:
            hint = "Which loop does not end, and for which input?"
        message = str(violation) + (" (not at every call: equal calls give different results)" if self.flaky else "")
        got, expected = ("" if x is None else show_value(x) for x in (violation.got, violation.expected))
        shown_by, whole = self.op.spec.shown, self._without_lacking(failure.case)
        case = shown_by(self.op, whole) if shown_by else self._passed(failure)
        shown = "" if prop.once else show_case(case)  # the statement names the input that such a property makes
        return Finding(
            *common, "fails", self.tries, message, expected, got, shown, hint, violation is self.too_long,
            gravity=violation.gravity or ("numbers" if self.too_long else prop.gravity), cause=failure.cause(),
            place=violation.place, sort=violation.sort,
        )  # fmt: skip


def show_case(case: dict[str, Any], digits: int = 6) -> str:
    """Every argument of a case that is not None; arrays with dtype, shape, and at most `digits` decimal places."""
    lines = []
    for name, x in case.items():
        if isinstance(x, np.ndarray):
            with np.printoptions(**PRINTED):  # the checked code may have changed them
                text = np.array2string(x, precision=digits, separator=", ", threshold=60, max_line_width=100)
            text = text.replace("\n", "\n" + " " * (len(name) + 3))
            lines.append(f"{name} = {text}   {x.dtype} {x.shape}")
        elif x is not None:
            lines.append(f"{name} = {x!r}")
    return "\n".join(lines)


def show_value(x: Any) -> str:
    """All digits of a number: two that differ never look alike."""
    return repr(x.item()) if isinstance(x, np.generic) and x.dtype != np.float32 else str(x)
