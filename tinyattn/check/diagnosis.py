"""Name a known bug: compare the implementation's results with those of every bug in the zoo, on the same inputs.

Both are run on a fixed battery of cases. A bug is named if it gives the same results on at least half of the cases
where the implementation is wrong (a pair of bugs: on all of them), contradicts it on at most a quarter, and is itself
right wherever the implementation is right. Single bugs are tried first, then pairs. If several bugs match equally well,
all are named. Bugs whose errors vary with rounding or random draws (`noisy`) are recognised by which properties fail
and by the size of their errors.

Where no bug of the zoo matches, changes of the library's formula are tried: known slips (slips.py), then mutants by
rule (mutants.py). One of them must give the same results on all cases; on a quarter of the wrong ones both may give no
numbers. Without a match the diagnosis says in which cases, and in which results, the implementation is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .cases import CaseDrawer, copied, plainness
from .common import upstream, widened
from .contrast import contrast, parts
from .conventions.masks import DeadRows
from .forms import other_forms, with_batch
from .isolation import TooLongError, alarm
from .mutants import Formula, Mutant, of_backward
from .observing import in_dtype, observe_call
from .property import Violation
from .slips import SLIPS
from .specs import SPECS, Spec, properties_of
from .subject import Subject
from .trial import Trial
from .zoo import ZOO, Bug

FINGERPRINTS = Path(__file__).parent / "zoo" / "fingerprints.json"
ENOUGH, SLACK = 0.5, 0.25  # shares of the wrong cases: at least ENOUGH must agree, at most SLACK may contradict
DRAWN = 24  # number of random cases in a battery, besides the spec's special cases

Observation = dict[str, Any]


@dataclass(frozen=True)
class Diagnosis:
    """The bugs that explain the results. Each entry of `bugs` is a tuple of bugs that cannot be told apart; two entries
    mean that both bugs are present.
    """

    bugs: tuple[tuple[Bug, ...], ...] = ()
    how: str = ""  # "numbers", "rule", "failures", or "cause" for what needs no zoo (causes.py)
    where: str = ""  # without a name: where it is wrong, and where it is right

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the first bug and of its equivalents."""
        return tuple(b.name for b in self.bugs[0]) if self.bugs else ()

    def __bool__(self) -> bool:
        return bool(self.bugs)

    def __str__(self) -> str:
        if not self.bugs:
            return "no known bug gives these results"
        lines = []
        for opening, equals in zip(("Yours", "Yours, too"), self.bugs, strict=False):
            says = [f"{b.says} ({b.name})" for b in equals]
            if len(equals) > 1:
                says = ["one of these, with equal results in all cases tried", *(f"    {line}" for line in says)]
            lines += [f"{opening}: {says[0]}", *says[1:], f"hint: {equals[0].hint}"]
        if self.how == "failures":
            lines.append("    (recognised by which properties fail and by the size of its errors;")
            lines.append("    its numbers vary with rounding or random draws)")
        return "\n".join(lines)


def diagnose(
    op: Subject, spec: Spec, failed: Iterable[str] = (), limit: float = 60.0, shown: Trial | None = None,
    strict: bool = True,
) -> Diagnosis:  # fmt: skip
    """Name the bug of `op`, given its failed properties, in about `limit` seconds at most.

    `shown` is the failure in the report: a bug is named only if the zoo's version with it fails that property on that
    case too (and, for a match by numbers, with the same wrong value). Unless `strict`, no permitted bug is named beside
    another one.
    """
    found = _diagnosed(op, failed, limit, shown)
    if not strict:
        faults = tuple(equals for equals in found.bugs if not all(bug.permitted for bug in equals))
        found = replace(found, bugs=faults or found.bugs)
    if not found and spec.remark is not None and shown is not None:
        with contextlib.suppress(Exception, TooLongError), alarm(5.0):
            return Diagnosis(where=spec.remark(op, **copied(shown.failure().case)) or found.where)
    return found


def _diagnosed(op: Subject, failed: Iterable[str], limit: float, shown: Trial | None) -> Diagnosis:
    spec = op.spec
    if spec.name not in ZOO and spec.oracle is None and spec.of_loops is None:
        return Diagnosis()  # nothing to compare with: every implementation has parameters of its own
    until = time.monotonic() + limit
    cases = [i for i in range(len(battery(spec.name))) if op.offers(_case(op, i))]
    seen = {i: observe(op, i) for i in cases}
    if all(s.get("forward", "overflow") != "overflow" for s in seen.values()):
        return Diagnosis()  # it returned no numbers on any case
    truth = {i: _zoo_run((), op, i) if spec.name in ZOO else _ours_run(op, i) for i in cases}
    by_numbers = Diagnosis()
    for aspect in range(ASPECTS):
        wrong = [i for i in cases if _compare(seen[i], truth[i], truth[i], aspect) != AGREE]
        if wrong:
            again = ((observe(op, i), seen[i]) for i in wrong[:3] for _ in range(4))
            if aspect in _NUMBERS and any(_compare(now, before, before, aspect) != AGREE for now, before in again):
                break  # equal calls differ: numbers that vary could match a bug's by accident
            match = _Match(op, seen, truth, wrong, aspect)
            if spec.name in ZOO:
                by_numbers = _confirmed(shown, op, _matching(match, until))
            match = _of_plain_forms(match)
            by_numbers = by_numbers or _by_rule(match, shown, min(limit, RULED)) or Diagnosis(where=_where(match))
            break
    return by_numbers or _confirmed(shown, op, _by_failures(op, set(failed), seen, truth)) or by_numbers


def _confirmed(shown: Trial | None, op: Subject, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis, with only the bugs that fail the shown property on the shown case as `_fails_so` says."""
    if shown is None or not diagnosis:
        return diagnosis

    def fails(*bugs: str) -> bool:
        return _fails_so(shown, _zoo_subject(op.spec.name, frozenset(bugs)), diagnosis.how == "numbers")

    if len(diagnosis.bugs) > 1:
        return diagnosis if fails(*(b[0].name for b in diagnosis.bugs)) else Diagnosis()
    kept = tuple(b for b in diagnosis.bugs[0] if any(map(fails, (b.name, *b.also))))
    return replace(diagnosis, bugs=(kept,)) if kept else Diagnosis()


def _fails_so(shown: Trial, other: Subject, numbers: bool) -> bool:
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
    """How far off the shown entry is: of several that are equally far off, rounding decides which is shown."""
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


def _case(op: Subject, i: int) -> dict[str, Any]:
    """Case i of the battery, adapted to the calls that `op` supports."""
    case = op.fit(battery(op.spec.name)[i])
    return case if op.offers(case) or not op.forms else with_batch(op.spec, case)


@dataclass(frozen=True)
class _Match:
    """An implementation's observations, and the cases on which one aspect of them is wrong."""

    op: Subject
    seen: dict[int, Observation]
    truth: dict[int, Observation]
    wrong: list[int]
    aspect: int

    def verdict(self, bugs: Iterable[str], i: int, aspect: int) -> str:
        """`_compare` the implementation with the zoo's version with these bugs, on case i."""
        return _compare(self.seen[i], _zoo_run(bugs, self.op, i), self.truth[i], aspect)

    def explained(self, *bugs: str, enough: float = ENOUGH) -> int:
        """The number of wrong cases on which these bugs give the same result as the implementation, or 0.

        It is 0 unless they agree on every right case, and on a share `enough` of the wrong ones. On up to SLACK of the
        wrong cases they may give different numbers: two ways of writing one mistake differ at extremes, or there is a
        second mistake.
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
                return 0  # whatever the remaining cases show
            if any(self.verdict(bugs, i, aspect) == CONTRADICT for aspect in range(self.aspect)):
                return 0  # these bugs contradict the implementation in an earlier aspect
        return agreed


    def explained_by(self, run: Callable[[int], Observation], first: int) -> bool:
        """Whether `run` gives the results of the implementation, on `first`, then on all cases.

        On a quarter of the wrong cases both may fail to give numbers, in different ways.
        """
        missed = 0
        for i in [first, *(i for i in self.wrong if i != first), *(i for i in self.seen if i not in self.wrong)]:
            changed, right = run(i), self.truth[i]
            verdict = _compare(self.seen[i], changed, right, self.aspect)
            if i in self.wrong and verdict == AGREE == _compare(changed, right, right, self.aspect):
                return False  # the change changes nothing, or nothing that both show
            missed += verdict != AGREE
            if verdict == CONTRADICT or missed > SLACK * len(self.wrong) or (missed and i == first):
                return False
        return True


def _matching(match: _Match, until: float) -> Diagnosis:
    """The single bugs that explain the observations, or else a pair of them."""
    bugs = [b for b in ZOO[match.op.spec.name].BUGS if not b.convention and not b.noisy]
    scores = {b: max(match.explained(name) for name in (b.name, *b.also)) for b in bugs}
    best = max(scores.values(), default=0)
    if best:
        return Diagnosis((_narrowed(match, [b for b in bugs if scores[b] == best]),), "numbers")
    if match.aspect not in _NUMBERS:
        return Diagnosis()  # side effects are booleans: some pair always matches by accident

    def agreements(bug: Bug) -> int:
        return sum(match.verdict([bug.name], i, match.aspect) == AGREE for i in match.wrong)

    for pair in itertools.combinations([b for b in bugs if _could_be_part(match, b)], 2):
        if time.monotonic() > until:
            break
        if match.explained(*(b.name for b in pair), enough=1):
            first, second = sorted(pair, key=agreements, reverse=True)
            return Diagnosis(((first,), (second,)), "numbers")
    return Diagnosis()


def _narrowed(match: _Match, bugs: list[Bug]) -> tuple[Bug, ...]:
    """Of equally good bugs, those that match later aspects of the same pass on every case; if none does, all."""

    def fits(name: str, aspect: int) -> bool:
        return all(match.verdict([name], i, aspect) == AGREE for i in match.seen)

    for aspect in (a for a in _SAME_PASS[match.aspect] if a > match.aspect):
        bugs = [b for b in bugs if any(fits(name, aspect) for name in (b.name, *b.also))] or bugs
    return tuple(bugs)


def _could_be_part(match: _Match, bug: Bug) -> bool:
    """Whether the bug changes this aspect, and only on cases where the implementation is wrong."""

    def changes(i: int) -> bool:
        truth = match.truth[i]
        return _compare(_zoo_run([bug.name], match.op, i), truth, truth, match.aspect) != AGREE

    return not any(changes(i) for i in match.truth if i not in match.wrong) and any(map(changes, match.wrong))


def _of_plain_forms(match: _Match) -> _Match:
    """Without calls that right code may answer otherwise: forms that this library alone uses, and queries that may
    look at nothing.
    """
    ours: list[Any] = [form for form in other_forms(match.op) if form.ours]
    ours += [DeadRows("")] * (match.op.spec.name not in ZOO)
    plain = {i: s for i, s in match.seen.items() if not any(form.has(_case(match.op, i)) for form in ours)}
    wrong = [i for i in match.wrong if i in plain]
    return replace(match, seen=plain, wrong=wrong) if wrong else match


ORACLES = __name__.rpartition(".")[0]  # the oracles' package, and that of the conventions, which have others
RULED = 5.0  # seconds for the search among mutants by rule
NAMED = 3  # how many mutants with the same numbers are named


def _by_rule(match: _Match, shown: Trial | None, limit: float) -> Diagnosis:
    """The plainest changes of the formula that give the same numbers in every case, where no bug of the zoo does."""
    work = _Workshop.of(match)
    if work is None:
        return Diagnosis()
    first = min(match.wrong, key=lambda i: (_broken(match.seen[i]) != "", plainness(_case(match.op, i))))
    if _broken(match.seen[first]) not in ("", "overflow"):
        return Diagnosis()  # every call raises: so do many changes, for other reasons
    found: list[tuple[int, Bug]] = []
    until = time.process_time() + limit
    for rank, bug, mutants in work.variants(first):
        if time.process_time() > until or len(found) == NAMED or (found and rank > found[0][0]):
            break
        with work.formula.mutated(mutants):
            same_line = bug.name in [other.name for _, other in found]
            if not same_line and match.explained_by(work.run, first):
                found += [(rank, bug)] * (shown is None or _fails_so(shown, work.subject, True))
    return Diagnosis((tuple(bug for _, bug in found),), "rule") if found else Diagnosis()


def _where(match: _Match) -> str:
    """Which results are wrong, and what all cases with wrong ones have in common."""
    some: dict[str, bool] = {}
    for i, n in itertools.product(match.wrong, match.op.spec.wrt if match.aspect == _GRADIENTS else ()):
        mine, right = (seen[i].get(f"gradient {n}") for seen in (match.seen, match.truth))
        if mine is not None and right is not None:
            some[f"d{n}"] = some.get(f"d{n}", False) or not same_numbers(mine, right)
    cases = {i: _case(match.op, i) for i in match.seen}
    right = [case for i, case in cases.items() if i not in match.wrong]
    return " ".join(filter(None, [parts(some), contrast(right, [cases[i] for i in match.wrong])]))


class _Workshop:
    """A formula of a spec, its variants, and their observations of the cases of a match."""

    def __init__(self, match: _Match, formula: Formula, implementation: Any):
        self.match, self.formula = match, formula
        self.subject = Subject(implementation, match.op.spec)
        self.takes: dict[int, Any] = {}  # arguments of the backward, by case

    @classmethod
    def of(cls, match: _Match) -> _Workshop | None:
        """The oracle for results; for gradients the library's backward, where that is a function with a source."""
        spec = match.op.spec
        if match.aspect == _GRADIENTS:
            made = of_backward(spec)
            return cls(match, *made) if made else None
        if spec.of_loops is not None:
            formula = Formula(*spec.loops, within=ORACLES)
            return cls(match, formula, spec.of_loops(*map(formula.function, range(len(spec.loops)))))
        if match.aspect not in _NUMBERS or spec.oracle is None:
            return None
        formula, ours = Formula(spec.oracle, within=ORACLES), getattr(spec.ours(), spec.function)
        signature = inspect.signature(ours)

        @functools.wraps(ours)
        def forward(*args: Any, **kwargs: Any) -> Any:
            case = dict(signature.bind(*args, **kwargs).arguments)
            y = formula.function()(**widened(case))
            return tuple(in_dtype(x, case) for x in y) if isinstance(y, tuple) else in_dtype(y, case)

        return cls(match, formula, SimpleNamespace(**{spec.function: forward}))

    def run(self, i: int) -> Observation:
        """The observation of the formula as it is at present, on case i."""
        spec, case = self.match.op.spec, _case(self.match.op, i)
        gradients = self.match.aspect == _GRADIENTS
        try:
            with alarm(1.0), np.errstate(all="ignore"):
                if spec.observe is not None:
                    return spec.observe(self.subject, spec, case)
                if not gradients:
                    outputs = self.subject.outputs(**copied(case))
                    return {n: in_dtype(x, case) for n, x in zip(spec.outputs, outputs, strict=True) if x is not None}
                if i not in self.takes:
                    self.takes[i] = self.subject.prepared(copied(case), upstream(spec, case))
                named = self.subject.name_gradients(case, self.formula.function()(**copied(self.takes[i])))
                return {f"gradient {n}": in_dtype(g, case) for n, g in named.items()}
        except (Exception, TooLongError) as error:
            says = "overflow" if isinstance(error.__cause__ or error, ArithmeticError) else "raises"
            return {"gradient's error" if gradients else "forward": says}

    def variants(self, i: int) -> Iterator[tuple[int, Bug, list[Mutant]]]:
        """The known slips, then the mutants by rule, the plainest first, then two slips at once, each with its rank."""
        slips = SLIPS.get(self.match.op.spec.name, ())
        for slip in slips:
            mutants = self.formula.patched(slip.says, slip.changes)
            if mutants:
                yield 0, Bug(slip.name, slip.says, slip.hint), mutants
        for mutant in self.formula.mutants(lambda: self.run(i)):
            yield mutant.rank, Bug(mutant.place, mutant.says, RULE_HINT), [mutant]
        for a, b in itertools.combinations(slips, 2):
            mutants = self.formula.patched(a.says, a.changes + b.changes)
            if mutants:
                yield 4, Bug(f"{a.name} and {b.name}", f"{a.says}; and {b.says}", a.hint), mutants


RULE_HINT = "Which of your lines computes this?"


def _by_failures(
    op: Subject, failed: set[str], seen: dict[int, Observation], truth: dict[int, Observation]
) -> Diagnosis:
    """The noisy bugs that fail exactly the same properties and have errors of about the same size."""
    spec = op.spec
    if not failed or spec.name not in ZOO:
        return Diagnosis()
    table = json.loads(FINGERPRINTS.read_text()).get(spec.name, {})
    without_backward = f"{spec.function}_backward" in op.lacks
    tried = {p.name for p in properties_of(spec) if not (without_backward and p.stage == "gradients")}
    error = _largest_error(seen, truth)
    matching = []
    for bug in ZOO[spec.name].BUGS:
        if bug.noisy and set(table.get(bug.name, ())) & tried == failed & tried:
            theirs = _largest_error({i: _zoo_run([bug.name], op, i) for i in seen}, truth)
            if error == theirs or (min(error, theirs) > 0 and max(error, theirs) < 30 * min(error, theirs)):
                matching.append(bug)
    return Diagnosis((tuple(matching),), "failures") if matching else Diagnosis()


def _largest_error(seen: dict[int, Observation], truth: dict[int, Observation]) -> float:
    pairs = [(seen[i][n], truth[i][n]) for i in seen for n in seen[i].keys() & truth[i].keys()]
    arrays = [(x, y) for x, y in pairs if isinstance(x, np.ndarray) and isinstance(y, np.ndarray)]
    errors = (np.abs(x.astype(float) - y.astype(float)) for x, y in arrays if x.shape == y.shape)
    return max((float(np.max(error)) for error in errors if error.size), default=0.0)


@functools.cache
def battery(spec: str) -> tuple[dict[str, Any], ...]:
    """The cases for comparison: the spec's special ones, then random ones from fixed seeds."""
    known = SPECS[spec]
    special = known.special_cases()
    small = [known.case(CaseDrawer.seeded(seed, ((), (2,), (2, 3)))) for seed in range(DRAWN)]
    return (*special, *small)


def observe(op: Subject, i: int) -> Observation:
    """The observation of `op` on case i, by the spec's `observe` or `observe_call`; a timeout counts as one."""
    try:
        with alarm(5.0):
            return (op.spec.observe or observe_call)(op, op.spec, _case(op, i))
    except TooLongError:
        return {"forward": "does not return"}


ASPECTS = 5
_OUTPUT, _FURTHER, _GRADIENTS, _SIDE_EFFECTS, _BACKWARDS_SIDE_EFFECTS = range(ASPECTS)
_NUMBERS = (_OUTPUT, _FURTHER, _GRADIENTS)
# for each aspect, the aspects seen in the same pass: 0, 1, 3 forward; 2, 4 backward
_SAME_PASS = ((0, 1, 3), (0, 1, 3), (2, 4), (0, 1, 3), (2, 4))
AGREE, INCOMPARABLE, CONTRADICT = "agree", "incomparable", "contradict"
_FURTHER_OUTPUTS = {name for spec in SPECS.values() for name in spec.outputs[1:]}
# prefix of an observation's name -> its aspect; others are outputs
_ASPECT_OF_PREFIX = {"gradient ": _GRADIENTS, "gradient's error": _GRADIENTS, "gradient's": _BACKWARDS_SIDE_EFFECTS}
_ASPECT_OF_PREFIX |= dict.fromkeys(("dtype of ", "own memory of ", "changed", "repeats"), _SIDE_EFFECTS)


def _aspect(name: str) -> int:
    outputs = _FURTHER if name in _FURTHER_OUTPUTS else _OUTPUT
    return next((aspect for prefix, aspect in _ASPECT_OF_PREFIX.items() if name.startswith(prefix)), outputs)


def _compare(a: Observation, b: Observation, truth: Observation, aspect: int) -> str:
    """Compare two observations of one case: AGREE, CONTRADICT (different numbers) or INCOMPARABLE.

    Different numbers are evidence of different bugs. An error or overflow in only one is no evidence: two ways of
    writing one bug may fail on different inputs. Two results of wrong shape agree, whatever the shapes.
    """
    one, two = ({n: x for n, x in seen.items() if _aspect(n) == aspect} for seen in (a, b))
    broken = [_broken(seen) for seen in (one, two)]
    if any(broken):
        return AGREE if broken[0] == broken[1] else INCOMPARABLE
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


def _broken(seen: Observation) -> str:
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
def _zoo_subject(spec: str, bugs: frozenset[str]) -> Subject:
    return Subject(ZOO[spec].make(bugs), SPECS[spec])


def _ours_run(like: Subject, i: int) -> Observation:
    """The observation of the library's own implementation, on case i as adapted to `like`."""
    with np.errstate(all="ignore"):
        return (like.spec.observe or observe_call)(Subject(like.spec.ours(), like.spec), like.spec, _case(like, i))


# cached zoo observations, by bugs, case, and what the subject lacks, refuses or does by convention
_ZOO_OBSERVATIONS: dict[Any, Observation] = {}


def _zoo_run(bugs: Iterable[str], like: Subject, i: int) -> Observation:
    """The observation of the zoo's version with these bugs, on case i as adapted to `like`."""
    spec, bugs = like.spec, frozenset(bugs)
    forms, conventions = (tuple(x.says for x in known) for known in (like.forms, like.conventions))
    key = spec.name, spec.dtype, bugs, i, tuple(like.lacks), forms, conventions  # the case depends on these
    if key not in _ZOO_OBSERVATIONS:
        with np.errstate(all="ignore"):
            _ZOO_OBSERVATIONS[key] = (spec.observe or observe_call)(_zoo_subject(spec.name, bugs), spec, _case(like, i))
    return _ZOO_OBSERVATIONS[key]
