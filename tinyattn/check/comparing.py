"""Compare what implementations compute on a fixed battery of cases, and find whether a bug explains their results."""

import functools
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .cases import CaseDrawer, copied
from .contrast import contrast, parts, resemblance
from .conventions.masks import DeadRows
from .forms import other_forms, with_batch
from .isolation import TooLongError, alarm
from .observing import observe_call
from .property import Violation
from .specs import SPECS
from .subject import Subject
from .trial import Trial
from .zoo import ZOO, Bug

DRAWN = 24  # number of random cases in a battery, besides the spec's special cases
MORE = 72  # number of further ones, on which a condition is tried that fits those of the battery
PATIENCE = 5.0  # seconds for a call, and for the further cases together
ENOUGH, SLACK = 0.5, 0.25  # shares of the wrong cases: at least ENOUGH must agree, at most SLACK may contradict
Observation = dict[str, Any]
Seen = dict[int, Observation]  # by case


def case_of(op: Subject, i: int) -> dict[str, Any]:
    """Case i of the battery, adapted to the calls that `op` supports."""
    case = op.fit(battery(op.spec.name)[i])
    return case if op.offers(case) or not op.forms else with_batch(op.spec, case)


@functools.cache
def battery(spec: str) -> tuple[dict[str, Any], ...]:
    """The cases for comparison: the spec's special ones, then random ones from fixed seeds; the last are MORE further
    ones."""
    known = SPECS[spec]
    special = known.special_cases()
    small = [known.case(CaseDrawer.seeded(seed, ((), (2,), (2, 3)))) for seed in range(DRAWN + MORE)]
    return (*special, *small)


def observe(op: Subject, i: int) -> Observation:
    """The observation of `op` on case i, by the spec's `observe` or `observe_call`; a timeout is one, too."""
    try:
        with alarm(PATIENCE):
            return run(op, op, i)
    except TooLongError:
        return {"forward": "does not return"}


ASPECTS = 5
OUTPUT, FURTHER, GRADIENTS, SIDE_EFFECTS, BACKWARDS_SIDE_EFFECTS = range(ASPECTS)
NUMBERS = (OUTPUT, FURTHER, GRADIENTS)
# for each aspect, the aspects seen in the same pass: 0, 1, 3 forward; 2, 4 backward
SAME_PASS = ((0, 1, 3), (0, 1, 3), (2, 4), (0, 1, 3), (2, 4))
AGREE, INCOMPARABLE, CONTRADICT = "agree", "incomparable", "contradict"
_FURTHER_OUTPUTS = {name for spec in SPECS.values() for name in spec.outputs[1:]}
# prefix of an observation's name -> its aspect; others are outputs
_ASPECT_OF_PREFIX = {"gradient ": GRADIENTS, "gradient's error": GRADIENTS, "gradient's": BACKWARDS_SIDE_EFFECTS}
_ASPECT_OF_PREFIX |= dict.fromkeys(("dtype of ", "own memory of ", "changed", "repeats"), SIDE_EFFECTS)


@functools.cache
def aspect_of(name: str) -> int:
    outputs = FURTHER if name in _FURTHER_OUTPUTS else OUTPUT
    return next((aspect for prefix, aspect in _ASPECT_OF_PREFIX.items() if name.startswith(prefix)), outputs)


def zip_named(a: Observation, b: Observation) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The arrays that both have, with their names."""
    pairs = ((n, a[n], b[n]) for n in a if n in b)
    return [(n, x, y) for n, x, y in pairs if isinstance(x, np.ndarray) and isinstance(y, np.ndarray)]


def compare(a: Observation, b: Observation, truth: Observation, aspect: int) -> str:
    """Compare two observations of one case: AGREE, CONTRADICT (different numbers) or INCOMPARABLE.

    Different numbers are evidence of different bugs. An error or overflow in only one is no evidence, since two ways of
    writing one bug may fail on different inputs. Two results of wrong shape agree, even if their shapes differ.
    """
    one, two = ({n: x for n, x in seen.items() if aspect_of(n) == aspect} for seen in (a, b))
    errors = [broken(seen) for seen in (one, two)]
    if any(errors):
        return AGREE if errors[0] == errors[1] else INCOMPARABLE
    if aspect and ("forward" in a or "forward" in b):
        return INCOMPARABLE
    for n in one.keys() & two.keys():
        x, y, right = one[n], two[n], truth.get(n)
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and isinstance(right, np.ndarray):
            wrong = [value.shape != right.shape for value in (x, y)]
            if all(wrong):
                continue
            if any(wrong):
                return CONTRADICT
        if not same_numbers(x, y):
            return CONTRADICT
    return AGREE


def broken(seen: Observation) -> str:
    """ "overflow", "raises", the text of a different error, or "" if all numbers are finite."""
    error = seen.get("forward") or seen.get("gradient's error")
    floats = (x for x in seen.values() if isinstance(x, np.ndarray) and x.dtype.kind == "f")
    return error or ("" if all(np.all(np.isfinite(x)) for x in floats) else "overflow")


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two observations agree: arrays up to rounding, anything else exactly."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return bool(a == b)
    if a.shape != b.shape or not a.size:
        return a.shape == b.shape
    return a.dtype.kind in "fiub" and b.dtype.kind in "fiub" and not np.any(differing(a, b))


def differing(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The entries where two arrays of numbers, of one shape, differ by more than rounding."""
    single = np.float32 in (a.dtype, b.dtype)
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    different = ~finite & ~((x == y) | (np.isnan(x) & np.isnan(y)))
    x, y = np.where(finite, x, 0), np.where(finite, y, 0)
    tolerance = (3e-4 if single else 1e-8) * max(1.0, *(float(np.max(np.abs(z), initial=0)) for z in (x, y)))
    return different | (np.abs(x - y) > tolerance)


@functools.cache
def zoo_subject(spec: str, bugs: frozenset[str]) -> Subject:
    return Subject(ZOO[spec].make(bugs), SPECS[spec])


def run(op: Subject, like: Subject, i: int) -> Observation:
    """The observation of `op` on case i as adapted to `like`."""
    with np.errstate(all="ignore"):
        return (like.spec.observe or observe_call)(op, like.spec, case_of(like, i))


# cached zoo observations, by bugs, case, and what the subject lacks, refuses or does by convention
_ZOO_OBSERVATIONS: dict[Any, Observation] = {}


def zoo_run(bugs: Iterable[str], like: Subject, i: int) -> Observation:
    """The observation of the zoo's version with these bugs, on case i as adapted to `like`."""
    spec, bugs = like.spec, frozenset(bugs)
    forms, conventions = (tuple(x.says for x in known) for known in (like.forms, like.conventions))
    key = spec.name, spec.dtype, bugs, i, tuple(like.lacks), forms, conventions  # the case depends on these
    if key not in _ZOO_OBSERVATIONS:
        _ZOO_OBSERVATIONS[key] = run(zoo_subject(spec.name, bugs), like, i)
    return _ZOO_OBSERVATIONS[key]


def seen_by(op: Subject) -> tuple[Seen, Seen]:
    """-> the observations of `op` on each case that it takes, and the right ones."""
    cases = [i for i in range(len(battery(op.spec.name)) - MORE) if op.offers(case_of(op, i))]
    right = right_on(op, cases)
    return {i: observe(op, i) for i in cases}, right


def right_on(op: Subject, cases: list[int]) -> Seen:
    """The right observations on these cases, as adapted to `op`."""
    ours = None if op.spec.name in ZOO else Subject(op.spec.ours(), op.spec)
    return {i: zoo_run((), op, i) if ours is None else run(ours, op, i) for i in cases}


def fails_so(shown: Trial, other: Subject, numbers: bool) -> bool:
    """Whether another implementation fails the shown property on the shown case; if `numbers`, with the same value."""
    mine = shown.failure().violation
    try:
        with np.errstate(all="ignore"):
            shown.prop.holds(other, **copied(shown.failure().case))
    except Violation as violation:
        if not numbers:
            return True
        if (mine.__cause__ is None) != (violation.__cause__ is None):
            return False
        if mine.got is None or violation.got is None:
            return mine.got is violation.got
        return _same_value(mine.got, violation.got) or _same_value(_error(mine), _error(violation))
    except Exception:  # a result that the property cannot examine
        return False
    return False


def _error(violation: Violation) -> Any:
    """The error of the shown entry. If several entries have equal errors, rounding decides which is shown."""
    try:
        return abs(violation.got - violation.expected)
    except TypeError:
        return violation.got


def _same_value(a: Any, b: Any) -> bool:
    try:
        x, y = (np.asarray(value, np.float32) for value in (a, b))
    except (TypeError, ValueError):
        return str(a) == str(b)
    finite = [bool(np.all(np.isfinite(value))) for value in (x, y)]
    return same_numbers(x, y) if all(finite) else not any(finite)  # equivalent formulas overflow at different entries


def largest_error(seen: Seen, truth: Seen) -> float:
    pairs = ((x, y) for i in seen for _, x, y in zip_named(seen[i], truth[i]))
    errors = (np.abs(x.astype(float) - y.astype(float)) for x, y in pairs if x.shape == y.shape)
    return max((float(np.max(error)) for error in errors if error.size), default=0.0)


@dataclass(frozen=True)
class Match:
    """An implementation's observations, and the right ones, compared in one aspect."""

    op: Subject
    seen: Seen
    truth: Seen
    aspect: int

    @functools.cached_property
    def wrong(self) -> list[int]:
        """The cases on which the implementation is wrong."""
        return [i for i, x in self.seen.items() if compare(x, self.truth[i], self.truth[i], self.aspect) != AGREE]

    def verdict(self, bugs: Iterable[str], i: int, aspect: int) -> str:
        """`compare` the implementation with the zoo's version with these bugs, on case i."""
        return compare(self.seen[i], zoo_run(bugs, self.op, i), self.truth[i], aspect)

    def varies(self) -> bool:
        """Whether equal calls differ, on one of the first wrong cases."""
        again = ((observe(self.op, i), self.seen[i]) for i in self.wrong[:3] for _ in range(4))
        return any(compare(now, before, before, self.aspect) != AGREE for now, before in again)

    def explained(self, *bugs: str, enough: float = ENOUGH) -> int:
        """The number of wrong cases on which these bugs give the same result as the implementation, or 0.

        It is 0 unless they agree on every right case, and on a share `enough` of the wrong ones. On a share of up to
        SLACK of the wrong cases they may give different numbers: two ways of writing one mistake differ at extremes, or
        there is a second mistake.
        """
        count = len(self.wrong)
        agreed = missed = contradicted = 0
        for i in [*self.wrong, *(i for i in self.seen if i not in self.wrong)]:
            verdict = self.verdict(bugs, i, self.aspect)
            if i in self.wrong:
                agreed += verdict == AGREE
                missed += verdict != AGREE
                contradicted += verdict == CONTRADICT
            if contradicted > SLACK * count or (verdict != AGREE and i not in self.wrong):
                return 0
            if count - missed < enough * count:
                return 0  # even if all remaining cases agree
            if any(self.verdict(bugs, i, aspect) == CONTRADICT for aspect in range(self.aspect)):
                return 0  # these bugs contradict the implementation in an earlier aspect
        return agreed

    def explained_by(self, run: Callable[[int], Observation], first: int) -> bool:
        """Whether `run` gives the results of the implementation, on `first`, then on all cases.

        On a share of up to SLACK of the wrong cases both may fail to give numbers, in different ways.
        """
        missed = 0
        for i in [first, *(i for i in self.wrong if i != first), *(i for i in self.seen if i not in self.wrong)]:
            changed, right = run(i), self.truth[i]
            verdict = compare(self.seen[i], changed, right, self.aspect)
            if i in self.wrong and verdict == AGREE == compare(changed, right, right, self.aspect):
                return False  # no difference between the changed formula and the right one shows
            missed += verdict != AGREE
            if verdict == CONTRADICT or missed > SLACK * len(self.wrong) or (missed and i == first):
                return False
        return True

    def narrowed(self, bugs: list[Bug]) -> tuple[Bug, ...]:
        """Of equally good bugs, those that match later aspects of the same pass on every case; if none does, all."""

        def fits(name: str, aspect: int) -> bool:
            return all(self.verdict([name], i, aspect) == AGREE for i in self.seen)

        for aspect in (a for a in SAME_PASS[self.aspect] if a > self.aspect):
            bugs = [b for b in bugs if any(fits(name, aspect) for name in (b.name, *b.also))] or bugs
        return tuple(bugs)

    def could_be_part(self, bug: str) -> bool:
        """Whether the bug changes this aspect, and only on cases where the implementation is wrong."""

        def changes(i: int) -> bool:
            truth = self.truth[i]
            return compare(zoo_run([bug], self.op, i), truth, truth, self.aspect) != AGREE

        return not any(changes(i) for i in self.truth if i not in self.wrong) and any(map(changes, self.wrong))

    def of_plain_forms(self) -> "Match":
        """The match without calls for which right code may return other results: those of forms that this library
        alone uses, unless the implementation is right on one, and of queries that may look at nothing."""
        cases = {i: case_of(self.op, i) for i in self.seen}
        right = [case for i, case in cases.items() if i not in self.wrong]
        ours: list[Any] = [form for form in other_forms(self.op) if form.ours and not any(map(form.has, right))]
        ours.append(DeadRows(""))
        plain = {i: s for i, s in self.seen.items() if not any(form.has(cases[i]) for form in ours)}
        return replace(self, seen=plain) if any(i in plain for i in self.wrong) else self

    def where(self) -> str:
        """Sentences on which results are wrong, and on what the wrong cases have in common."""
        wrong = self.wrong_results()
        gradients = {f"d{n}": bool(wrong.get(f"gradient {n}")) for n in self.op.spec.wrt if f"gradient {n}" in wrong}
        alike = self.resembles()
        condition = self.condition() and self.with_more().condition()
        return " ".join(filter(None, [parts(gradients), alike, condition]))

    def wrong_results(self) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
        """By name, the results of this aspect in the wrong cases, each with the right one, where they differ."""
        every = [x for i in self.wrong for x in zip_named(self.seen[i], self.truth[i])]
        names = {n for n, _, _ in every if aspect_of(n) == self.aspect}
        return {name: [(x, y) for n, x, y in every if n == name and not same_numbers(x, y)] for name in sorted(names)}

    def resembles(self) -> str:
        """A sentence on what wrong results have in common with the right ones, or ""."""
        return resemblance(list(itertools.chain.from_iterable(self.wrong_results().values())))

    def condition(self) -> str:
        """A sentence on where the implementation is right, or ""."""
        cases = {i: case_of(self.op, i) for i in self.seen}
        return contrast([case for i, case in cases.items() if i not in self.wrong], [cases[i] for i in self.wrong])

    def with_more(self) -> "Match":
        """The match with the further cases of the battery as well, as many as PATIENCE allows."""
        count, until, more = len(battery(self.op.spec.name)), time.monotonic() + PATIENCE, Seen()
        for i in range(count - MORE, count):
            if self.op.offers(case_of(self.op, i)) and time.monotonic() < until:
                more[i] = observe(self.op, i)
        return replace(self, seen=self.seen | more, truth=self.truth | right_on(self.op, list(more))).of_plain_forms()
