"""Which known bug is it? By what comes out, on the same inputs, of the implementation and of every bug in the zoo.

Both are run on a fixed battery of cases. A bug is named where it gives the numbers that were seen: on most cases that
are wrong, and breaking none that is right. First single bugs are tried, then pairs. Where several bugs cannot be told
apart, all are named. Bugs whose numbers are rounding or chance are told by which properties fail. Where nothing fits,
nothing is named.
"""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .drawing import Pick
from .isolation import TooLongError, alarm
from .kinds import KINDS, Kind, properties_of
from .observing import standard
from .subject import Subject
from .zoo import ZOO, Bug

FINGERPRINTS = Path(__file__).parent / "zoo" / "fingerprints.json"
ENOUGH, SLACK = 0.5, 0.25  # of the wrong cases: as many must agree, as few may contradict
DRAWN = 24  # cases of a battery that are drawn, beside the kind's special ones

Observation = dict[str, Any]


@dataclass(frozen=True)
class Diagnosis:
    """The bugs that explain what was seen: each entry of `bugs` is a set of equals, two entries two bugs at once."""

    bugs: tuple[tuple[Bug, ...], ...] = ()
    how: str = ""  # "numbers" or "failures"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the first bug and its equals."""
        return tuple(b.name for b in self.bugs[0]) if self.bugs else ()

    def __bool__(self) -> bool:
        return bool(self.bugs)

    def __str__(self) -> str:
        if not self.bugs:
            return "no known bug gives these results"
        lines = []
        for i, equals in enumerate(self.bugs):
            lines.append("this is a known bug:" if i == 0 else "and, at the same time:")
            lines += [f"    {b.says} ({b.name})" for b in equals]
            if len(equals) > 1:
                lines.append("    (nothing that was tried tells these apart)")
            lines.append(f"hint: {equals[0].hint}")
        if self.how == "failures":
            lines.append("    (known by what fails: its numbers are rounding, or chance)")
        return "\n".join(lines)


def diagnose(op: Subject, kind: Kind, failed: Iterable[str] = (), limit: float = 60.0) -> Diagnosis:
    """Name the bug of `op`, whose failed properties are given, in about `limit` seconds at most."""
    if kind.name not in ZOO:
        return Diagnosis()
    until = time.monotonic() + limit
    cases = range(len(battery(kind.name)))
    seen = [observe(op, kind, i, limit=5.0) for i in cases]
    if all(s.get("forward", "overflow") != "overflow" for s in seen):
        return Diagnosis()  # it gives no numbers at all
    truth = [_of_zoo(kind.name, frozenset(), op, i) for i in cases]
    for aspect in range(ASPECTS):
        wrong = [i for i in cases if _compare(seen[i], truth[i], truth[i], aspect) != AGREE]
        if wrong:
            found = _matching(_Match(op, kind, seen, truth, wrong, aspect), until)
            return found or _by_failures(op, kind, set(failed), seen, truth)
    return _by_failures(op, kind, set(failed), seen, truth)


@dataclass(frozen=True)
class _Match:
    """What was seen of an implementation, and where it is wrong in one aspect."""

    op: Subject
    kind: Kind
    seen: list[Observation]
    truth: list[Observation]
    wrong: list[int]
    aspect: int

    def explained(self, bugs: frozenset[str]) -> int:
        """On how many of the wrong cases these bugs give what was seen; 0 where they explain too little of it.

        They must break nothing that is right, and may contradict little of what is wrong: extremes, where two ways of
        writing the same mistake part, or a second mistake that shows in few cases.
        """
        count, contradicted = len(self.wrong), 0
        agreed = 0
        for i in [*self.wrong, *(i for i in range(len(self.seen)) if i not in self.wrong)]:
            theirs = _of_zoo(self.kind.name, bugs, self.op, i)
            verdict = _compare(self.seen[i], theirs, self.truth[i], self.aspect)
            if i in self.wrong:
                agreed += verdict == AGREE
                contradicted += verdict == CONTRADICT
            if contradicted > SLACK * count or (verdict != AGREE and i not in self.wrong):
                return 0
            if any(_compare(self.seen[i], theirs, self.truth[i], a) == CONTRADICT for a in range(self.aspect)):
                return 0  # it would have shown before
        return agreed if agreed >= ENOUGH * count else 0


def _matching(match: _Match, until: float) -> Diagnosis:
    """Single bugs that explain what was seen, or else pairs of them."""
    bugs = [b for b in ZOO[match.kind.name].BUGS if not b.convention and not b.noisy]
    scores = {b: max(match.explained(frozenset([name])) for name in (b.name, *b.also)) for b in bugs}
    best = max(scores.values(), default=0)
    if best:
        return Diagnosis((_narrowed(match, [b for b in bugs if scores[b] == best]),), "numbers")
    if match.aspect in (2, 4):
        return Diagnosis()  # manners are few: two bugs would explain any
    moving = [b for b in bugs if _moves(match, b)]
    for pair in itertools.combinations(moving, 2):
        if time.monotonic() > until:
            break
        if match.explained(frozenset(b.name for b in pair)) == len(match.wrong):
            first, second = sorted(pair, key=lambda b: -_alone(match, b))
            return Diagnosis(((first,), (second,)), "numbers")
    return Diagnosis()


def _narrowed(match: _Match, bugs: list[Bug]) -> tuple[Bug, ...]:
    """Of bugs that look alike in one aspect, those that fit in the later ones of the same half too, where any do."""
    for aspect in range(match.aspect + 1, 3 if match.aspect < 3 else ASPECTS):
        fitting = [b for b in bugs if any(_everywhere(match, name, aspect) for name in (b.name, *b.also))]
        bugs = fitting or bugs
    return tuple(bugs)


def _everywhere(match: _Match, bug: str, aspect: int) -> bool:
    return all(
        _compare(seen, _of_zoo(match.kind.name, frozenset([bug]), match.op, i), match.truth[i], aspect) == AGREE
        for i, seen in enumerate(match.seen)
    )


def _alone(match: _Match, bug: Bug) -> int:
    """On how many of the wrong cases one bug of a pair gives by itself what was seen."""
    theirs = [_of_zoo(match.kind.name, frozenset([bug.name]), match.op, i) for i in match.wrong]
    return sum(
        _compare(match.seen[i], t, match.truth[i], match.aspect) == AGREE
        for i, t in zip(match.wrong, theirs, strict=True)
    )


def _moves(match: _Match, bug: Bug) -> bool:
    """Whether the bug shows in this aspect, and nowhere that the implementation is right."""
    shown = [
        _compare(_of_zoo(match.kind.name, frozenset([bug.name]), match.op, i), truth, truth, match.aspect) != AGREE
        for i, truth in enumerate(match.truth)
    ]
    return any(shown) and all(i in match.wrong for i, differs in enumerate(shown) if differs)


def _by_failures(
    op: Subject, kind: Kind, failed: set[str], seen: list[Observation], truth: list[Observation]
) -> Diagnosis:
    """Noisy bugs that fail exactly these properties, of those that could be tried, and are off by about as much."""
    if not FINGERPRINTS.exists():
        return Diagnosis()
    table = json.loads(FINGERPRINTS.read_text()).get(kind.name, {})
    needs_backward = f"{kind.function}_backward" in op.lacks
    tried = {p.name for p in properties_of(kind) if not (needs_backward and p.stage == "gradients")}
    same = [
        b for b in ZOO[kind.name].BUGS if b.noisy and failed and set(table.get(b.name, ())) & tried == failed & tried
    ]
    off = _off(seen, truth)
    fitting = []
    for bug in same:
        theirs = _off([_of_zoo(kind.name, frozenset([bug.name]), op, i) for i in range(len(seen))], truth)
        if off == theirs or (min(off, theirs) > 0 and max(off, theirs) < 30 * min(off, theirs)):
            fitting.append(bug)
    return Diagnosis((tuple(fitting),), "failures") if fitting else Diagnosis()


def _off(seen: list[Observation], truth: list[Observation]) -> float:
    """The largest error in any number of any case."""
    largest = 0.0
    for a, b in zip(seen, truth, strict=True):
        for n in a.keys() & b.keys():
            x, y = a[n], b[n]
            if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.shape == y.shape and x.size:
                largest = max(largest, float(np.max(np.abs(x.astype(float) - y.astype(float)))))
    return largest


@functools.cache
def battery(kind: str) -> tuple[dict[str, Any], ...]:
    """The cases that implementations are compared on, the same everywhere: simple ones first."""
    known = KINDS[kind]
    special = known.specials()
    small = [known.case(Pick.numbered(seed, ((), (2,), (2, 3)))) for seed in range(DRAWN)]
    return (*special, *small)


def observe(op: Subject, kind: Kind, i: int, limit: float = 60.0) -> Observation:
    """Everything that can be seen of one call: results, dtypes, gradients, changed inputs, whether a call repeats."""
    try:
        with alarm(limit):
            return (kind.observe or standard)(op, kind, op.fit(battery(kind.name)[i]))
    except TooLongError:
        return {"forward": "does not return"}


ASPECTS = 5  # the answer, what else is returned, manners, gradients, the backward's manners
AGREE, APART, CONTRADICT = "agree", "apart", "contradict"
_SAVED = {name for kind in KINDS.values() for name in kind.outputs[1:]}
_MANNERS = ("dtype of ", "own memory of ", "changed", "repeats")


def _aspect(name: str) -> int:
    if name.startswith("gradient "):
        return 3
    if name.startswith("gradient's"):
        return 3 if name == "gradient's error" else 4
    if name.startswith(_MANNERS):
        return 2
    return 1 if name in _SAVED else 0


def _compare(a: Observation, b: Observation, truth: Observation, aspect: int) -> str:
    """What two implementations show of one case: the same; other numbers; or what cannot be compared.

    Numbers that contradict tell two bugs apart. An error or an overflow in one of them alone does not: where a wrong
    computation breaks down depends on how it is written. Two results of wrong shape are alike, whatever the shapes.
    """
    one, two = ({n: x for n, x in seen.items() if _aspect(n) == aspect} for seen in (a, b))
    broken = [_broken(seen) for seen in (one, two)]
    if any(broken):
        return AGREE if broken[0] == broken[1] else APART
    if aspect and ("forward" in a or "forward" in b):
        return APART
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
    """ "overflow", "raises", another complaint, or "" where there are numbers."""
    said = seen.get("forward") or seen.get("gradient's error")
    if said:
        return said
    blown = any(isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.all(np.isfinite(x)) for x in seen.values())
    return "overflow" if blown else ""


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two observations agree: arrays up to what another order of summing does, anything else exactly."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return bool(a == b)
    if a.shape != b.shape:
        return False
    if not a.size:
        return True
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return False
    single = np.float32 in (a.dtype, b.dtype)
    x, y = a.astype(np.float64), b.astype(np.float64)
    tolerance = (3e-4 if single else 1e-8) * max(1.0, float(np.max(np.abs(x))), float(np.max(np.abs(y))))
    return bool(np.max(np.abs(x - y)) <= tolerance)


@functools.cache
def _zoo_subject(kind: str, bugs: frozenset[str]) -> Subject:
    return Subject(ZOO[kind].make(bugs), KINDS[kind])


@functools.cache
def _of_zoo_case(kind: str, bugs: frozenset[str], i: int, without: tuple[str, ...]) -> Observation:
    op = _zoo_subject(kind, bugs)
    known = KINDS[kind]
    with np.errstate(all="ignore"):
        case = battery(kind)[i]
        parameters = op.signature.parameters
        case = {n: parameters[n].default if n in without else x for n, x in case.items()}
        return (known.observe or standard)(op, known, case)


def _of_zoo(kind: str, bugs: frozenset[str], like: Subject, i: int) -> Observation:
    """What the zoo's implementation shows of case i, with only the arguments that `like` takes."""
    without = tuple(n for n in like.lacks if n in like.signature.parameters)
    return _of_zoo_case(kind, bugs, i, without)
