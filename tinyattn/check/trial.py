"""Try one property on many cases; the finding; and the report of all findings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .cases import strategy
from .isolation import alarm
from .property import STAGES, Property, Violation
from .specs import Spec
from .subject import CannotRunError, MissingError, Subject, TooLongError, message_of


@dataclass(frozen=True)
class Finding:
    """The outcome of one property: "holds", "fails" or "skipped". Values and counterexample are text."""

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


@dataclass(frozen=True)
class Report:
    """All findings, in order of trial; true if none fails and at least one holds. `kind` is the name of the spec."""

    kind: str
    implementation: str
    findings: tuple[Finding, ...]
    lacks: tuple[str, ...] = ()
    examples: int = 0
    seed: int = 0
    diagnosis: Any = None
    not_run: int = 0  # properties not tried, after a crash or two endless calls
    problem: str = ""  # why it could not run

    @property
    def failures(self) -> list[Finding]:
        return [f for f in self.findings if f.outcome == "fails"]

    def __bool__(self) -> bool:
        return not self.problem and not self.failures and any(f.outcome == "holds" for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As plain dictionaries and lists."""
        whole = asdict(self) | {"holds": bool(self), "failures": [f.property for f in self.failures]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in whole.items()}

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__


def try_property(
    op: Subject,
    spec: Spec,
    prop: Property,
    *,
    examples: int = 50,
    seed: int = 0,
    shrink: bool = True,
    budget: float = 60.0,
    patience: float = 10.0,
) -> Finding:
    """Try a property on `examples` cases drawn by hypothesis. Raises CannotRunError, ImportError without hypothesis."""
    cases = strategy(spec.case, prop.leads, prop.wide)  # raises ImportError without hypothesis
    import hypothesis
    from hypothesis import HealthCheck, Phase

    trial = _Trial(op, prop, time.monotonic() + budget, patience)

    def tried(case: dict[str, Any]) -> None:
        trial(case)

    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    holds = hypothesis.settings(
        max_examples=prop.at_most(examples), phases=phases, deadline=None, database=None,
        report_multiple_bugs=False, suppress_health_check=list(HealthCheck), verbosity=hypothesis.Verbosity.quiet,
    )(hypothesis.seed(seed)(hypothesis.given(cases)(tried)))  # fmt: skip
    failed = False
    try:
        holds()
    except Violation:
        failed = True
    except hypothesis.errors.HypothesisException:  # it fails on some calls only
        failed = True
        trial.flaky = True
    return trial.finding(failed)


class _Trial:
    """A property as a function of one case; it keeps the last violation and the number of tries."""

    def __init__(self, op: Subject, prop: Property, until: float, patience: float):
        self.op, self.prop, self.until, self.patience = op, prop, until, patience
        self.tries, self.flaky = 0, False
        self.missing = ""
        self.violation: Violation | None = None
        self.shown = ""
        self.too_long: Violation | None = None

    def __call__(self, case: dict[str, Any]) -> None:
        if self.too_long is not None:
            raise self.too_long  # no shrinking: every smaller case might take as long
        if time.monotonic() > self.until:
            if self.violation is not None:
                raise self.violation  # out of time: stop shrinking
            return
        if self.missing:
            return
        self.tries += 1
        case = self.op.fit(case)
        given = {n: x for n, x in case.items() if n not in self.op.lacks}
        shown = show_case(self.op.spec.shown(self.op, given) if self.op.spec.shown else given)
        try:
            with alarm(max(self.patience, self.until - time.monotonic()) if self.prop.once else self.patience):
                self.prop.holds(self.op, **case)
        except MissingError as missing:
            self.missing = str(missing)
        except CannotRunError:
            raise
        except TooLongError:
            self.too_long = Violation(f"it had not returned after {self.patience:g} seconds")
            self._failed(shown, self.too_long)
        except Violation as violation:
            self._failed(shown, violation)
        except Exception as error:  # the result could not be examined
            self._failed(shown, Violation(f"its result cannot be used: {type(error).__name__}: {message_of(error)}"))

    def _failed(self, shown: str, violation: Violation) -> None:
        self.shown, self.violation = shown, violation
        raise violation

    def finding(self, failed: bool) -> Finding:
        prop = self.prop
        common = (prop.name, prop.stage, prop.statement, prop.exactness)
        if not failed:
            if self.missing:
                return Finding(*common, "skipped", self.tries, message=self.missing)
            return Finding(*common, "holds", self.tries)
        violation = self.violation or Violation("it fails on some calls and not on others")
        hint = prop.hint
        if violation.__cause__ is not None:
            hint = "What does that line do with this input?"
        if violation is self.too_long:
            hint = "Which loop does not end, and for which input?"
        message = str(violation) + (" (not at every call: equal calls give different results)" if self.flaky else "")
        got, expected = ("" if x is None else show_value(x) for x in (violation.got, violation.expected))
        return Finding(
            *common, "fails", self.tries, message, expected, got, self.shown, hint, violation is self.too_long
        )


def show_case(case: dict[str, Any]) -> str:
    """Every argument of a case that is not None; arrays with dtype and shape."""
    lines = []
    for name, x in case.items():
        if x is None:
            continue
        if isinstance(x, np.ndarray):
            text = np.array2string(x, precision=6, separator=", ", threshold=60, max_line_width=100)
            text = text.replace("\n", "\n" + " " * (len(name) + 3))
            lines.append(f"{name} = {text}   {x.dtype} {x.shape}")
        else:
            lines.append(f"{name} = {x!r}")
    return "\n".join(lines)


def show_value(x: Any) -> str:
    if isinstance(x, np.floating | float):
        return f"{float(x):.10g}"
    return str(x)


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.implementation} as {report.kind}"
    for stage in STAGES:
        found = [f for f in report.findings if f.stage == stage]
        held, failed = (sum(f.outcome == outcome for f in found) for outcome in ("holds", "fails"))
        skipped = len(found) - held - failed
        if found:
            text = f"{held} of {len(found)} hold"
            text += f", {failed} FAIL" if failed else ""
            text += f", {skipped} skipped" if skipped else ""
            yield f"  {stage:11} {text}"
    if report.lacks:
        yield f"  not offered, and so not looked at: {', '.join(report.lacks)}"
    if report.failures:
        yield ""
        yield from describe(report.failures[0], report.diagnosis)
        others = [f.property for f in report.failures[1:]]
        if others:
            yield f"also fails: {', '.join(others)}"
        if report.not_run:
            yield f"not run after that: {report.not_run} properties"
    if report.problem:
        yield f"could not run: {report.problem}"
    elif report:
        tries = sum(f.tries for f in report.findings)
        yield f"all hold, in {tries:,} tries"


_HELD_TO = {
    "exact": "to the last bit",
    "rounding": "up to rounding",
    "approximate": "approximately",
    "statistical": "up to five standard deviations",
}


def describe(first: Finding, diagnosis: Any = None) -> Iterator[str]:
    """A failure in lines of text: the statement, the smallest counterexample, expected against got, and a hint."""
    yield f"FAILS  {first.statement}"
    yield f"       ({first.stage}: {first.property}, {_HELD_TO[first.exactness]})"
    if first.counterexample:
        yield "smallest counterexample:"
        yield from ("    " + line for line in first.counterexample.splitlines())
    yield f"{first.message}"
    if first.expected:
        yield f"    expected  {first.expected}"
        yield f"    got       {first.got}"
    if diagnosis:
        yield str(diagnosis)
    elif first.hint:
        yield f"hint: {first.hint}"
