"""Name a known bug: compare the implementation's results with those of every bug in the zoo, on the same inputs.

The implementation and each buggy version are run on a fixed battery of cases. A bug is named on three conditions:
- its results equal the implementation's on half of the wrong cases, or more (for a pair of bugs, on all of them);
- its results contradict the implementation's on at most a quarter of the wrong cases;
- its results are right wherever the implementation is right.
Single bugs are tried first, then pairs. If several bugs match equally well, all are named. Bugs whose errors vary with
rounding or random draws (`noisy`) are recognised by the properties that fail and by the size of their errors.

If no bug of the zoo matches, changes of the formula are tried: known slips (slips.toml), then mutants by rule
(mutants.py). A change is named if its results equal the implementation's on all cases; on up to a quarter of the wrong
cases both may also give no numbers. Without a match the diagnosis states in which cases, and in which results, the
implementation is wrong.
"""

import contextlib
import itertools
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from .by_rule import changes_alike
from .cases import copied
from .comparing import AGREE, ASPECTS, NUMBERS, Match, Seen, fails_so, largest_error, seen_by, zoo_run, zoo_subject
from .contrast import ZEROS
from .isolation import TooLongError, alarm
from .specs import Spec, properties_of
from .subject import Subject
from .trial import Trial
from .zoo import ZOO, Bug

FINGERPRINTS = Path(__file__).parent / "zoo" / "fingerprints.json"
LAYOUTS = {"memory_layout", "backward_memory_layout"}    # with another BLAS, the same bug may fail them or not


@dataclass(frozen=True)
class Diagnosis:
    """The bugs that explain the results. Each entry of `bugs` is a tuple of bugs that cannot be told apart; two entries
    mean that both bugs are present, and the last may be a convention."""

    bugs: tuple[tuple[Bug, ...], ...] = ()
    how: str = ""  # found by "numbers", "rule", "failures", or as a "cause" that needs no zoo (causes.py)
    where: str = ""  # if no bug is named: where the implementation is wrong, and where it is right

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
        for opening, equals in zip(("Yours", "Yours, too", "Yours, too"), self.bugs, strict=False):
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

    `shown` is the failure in the report. A bug is named only if the zoo's buggy version fails the same property on the
    same case; for a match by numbers, with the same wrong value. Unless `strict`, a permitted bug is named only if no
    other one is.
    """
    diagnosis = _diagnosed(op, failed, limit, shown)
    if not strict:
        faults = tuple(equals for equals in diagnosis.bugs if not all(bug.permitted for bug in equals))
        diagnosis = replace(diagnosis, bugs=faults or diagnosis.bugs)
    if not diagnosis and spec.remark is not None and shown is not None:
        with contextlib.suppress(Exception, TooLongError), alarm(5.0):
            return Diagnosis(where=spec.remark(op, **copied(shown.failure().case)) or diagnosis.where)
    return diagnosis


def _diagnosed(op: Subject, failed: Iterable[str], limit: float, shown: Trial | None) -> Diagnosis:
    spec = op.spec
    if spec.name not in ZOO and spec.oracle is None and spec.of_loops is None:
        return Diagnosis()  # nothing to compare with: implementations differ in their parameters
    until = time.monotonic() + limit
    seen, truth = seen_by(op)
    if all(s.get("forward", "overflow") != "overflow" for s in seen.values()):
        return Diagnosis()  # it returned no numbers on any case
    by_numbers = Diagnosis()
    for aspect in range(ASPECTS):
        match = Match(op, seen, truth, aspect)
        if match.wrong:
            if aspect in NUMBERS and match.varies():
                break  # numbers that vary could match a bug's by accident
            if spec.name in ZOO:
                by_numbers = _confirmed(shown, op, _matching(match, until))
            match = match.of_plain_forms()
            alike = () if by_numbers or match.resembles() == ZEROS else changes_alike(match, shown, limit)
            by_numbers = by_numbers or (Diagnosis((alike,), "rule") if alike else Diagnosis(where=match.where()))
            break
    return by_numbers or _confirmed(shown, op, _by_failures(op, set(failed), seen, truth)) or by_numbers


def _confirmed(shown: Trial | None, op: Subject, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without bugs whose buggy versions do not fail the shown property on the shown case (`fails_so`)."""
    if shown is None or not diagnosis:
        return diagnosis

    def fails(*bugs: str) -> bool:
        return fails_so(shown, zoo_subject(op.spec.name, frozenset(bugs)), diagnosis.how == "numbers")

    if len(diagnosis.bugs) > 1:
        return diagnosis if fails(*(b[0].name for b in diagnosis.bugs)) else Diagnosis()
    kept = tuple(b for b in diagnosis.bugs[0] if any(map(fails, (b.name, *b.also))))
    return replace(diagnosis, bugs=(kept,)) if kept else Diagnosis()


def _matching(match: Match, until: float) -> Diagnosis:
    """The single bugs that explain the observations, or else a pair of them."""
    bugs = [b for b in ZOO[match.op.spec.name].BUGS if not b.convention and not b.noisy]
    scores = {b: max(match.explained(name) for name in (b.name, *b.also)) for b in bugs}
    best = max(scores.values(), default=0)
    if best:
        return Diagnosis((match.narrowed([b for b in bugs if scores[b] == best]),), "numbers")
    if match.aspect not in NUMBERS:
        return Diagnosis()  # side effects are booleans: some pair always matches by accident

    def agreements(bug: Bug) -> int:
        return sum(match.verdict([bug.name], i, match.aspect) == AGREE for i in match.wrong)

    for pair in itertools.combinations([b for b in bugs if match.could_be_part(b.name)], 2):
        if time.monotonic() > until:
            break
        if match.explained(*(b.name for b in pair), enough=1):
            first, second = sorted(pair, key=agreements, reverse=True)
            return Diagnosis(((first,), (second,)), "numbers")
    return Diagnosis()


def _by_failures(op: Subject, failed: set[str], seen: Seen, truth: Seen) -> Diagnosis:
    """The noisy bugs that fail the same properties, LAYOUTS aside, and have errors of about the same size."""
    spec = op.spec
    if not failed or spec.name not in ZOO:
        return Diagnosis()
    table = json.loads(FINGERPRINTS.read_text()).get(spec.name, {})
    tried = {p.name for p in properties_of(spec) if op.has_backward or p.stage != "gradients"} - LAYOUTS
    error = largest_error(seen, truth)
    matching = []
    for bug in ZOO[spec.name].BUGS:
        if bug.noisy and set(table.get(bug.name, ())) & tried == failed & tried:
            theirs = largest_error({i: zoo_run([bug.name], op, i) for i in seen}, truth)
            if error == theirs or (min(error, theirs) > 0 and max(error, theirs) < 30 * min(error, theirs)):
                matching.append(bug)
    return Diagnosis((tuple(matching),), "failures") if matching else Diagnosis()
