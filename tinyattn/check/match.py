"""The cases on which an implementation is wrong, and whether a bug explains them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from .comparing import (
    AGREE,
    CONTRADICT,
    SAME_PASS,
    Observation,
    aspect_of,
    case_of,
    compare,
    same_numbers,
    zip_named,
    zoo_run,
)  # fmt: skip
from .contrast import contrast, parts, resemblance
from .conventions.masks import DeadRows
from .forms import other_forms
from .subject import Subject
from .zoo import Bug

ENOUGH, SLACK = 0.5, 0.25  # shares of the wrong cases: at least ENOUGH must agree, at most SLACK may contradict


@dataclass(frozen=True)
class Match:
    """An implementation's observations, and the cases on which one aspect of them is wrong."""

    op: Subject
    seen: dict[int, Observation]
    truth: dict[int, Observation]
    wrong: list[int]
    aspect: int

    def verdict(self, bugs: Iterable[str], i: int, aspect: int) -> str:
        """`_compare` the implementation with the zoo's version with these bugs, on case i."""
        return compare(self.seen[i], zoo_run(bugs, self.op, i), self.truth[i], aspect)

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
            verdict = compare(self.seen[i], changed, right, self.aspect)
            if i in self.wrong and verdict == AGREE == compare(changed, right, right, self.aspect):
                return False  # the change changes nothing, or nothing that both show
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

    def of_plain_forms(self) -> Match:
        """Without calls that right code may answer otherwise: forms that this library alone uses, and queries that may
        look at nothing.
        """
        ours: list[Any] = [form for form in other_forms(self.op) if form.ours]
        ours.append(DeadRows(""))
        plain = {i: s for i, s in self.seen.items() if not any(form.has(case_of(self.op, i)) for form in ours)}
        wrong = [i for i in self.wrong if i in plain]
        return replace(self, seen=plain, wrong=wrong) if wrong else self

    def where(self) -> str:
        """Which results are wrong, and what all cases with wrong ones have in common."""
        every = [x for i in self.wrong for x in zip_named(self.seen[i], self.truth[i])]
        names = {n for n, _, _ in every if aspect_of(n) == self.aspect}
        wrong = {name: [(x, y) for n, x, y in every if n == name and not same_numbers(x, y)] for name in sorted(names)}
        gradients = {f"d{n}": bool(wrong.get(f"gradient {n}")) for n in self.op.spec.wrt if f"gradient {n}" in wrong}
        cases = {i: case_of(self.op, i) for i in self.seen}
        right = [case for i, case in cases.items() if i not in self.wrong]
        alike = resemblance(list(itertools.chain.from_iterable(wrong.values())))
        return " ".join(filter(None, [parts(gradients), alike, contrast(right, [cases[i] for i in self.wrong])]))
