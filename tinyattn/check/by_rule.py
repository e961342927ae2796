"""The change of a formula that gives the numbers of an implementation: a known slip, or a mutant by rule."""

import functools
import inspect
import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import oracles, plain
from .cases import copied, plainness
from .common import upstream, widened
from .comparing import AGREE, GRADIENTS, NUMBERS, Match, Observation, broken, case_of, compare, fails_so
from .formula import Formula, Mutant, of_backward
from .isolation import TooLongError, alarm
from .mutants import mutants_of
from .observing import copy_in_dtype
from .rules import slips_of
from .subject import Subject
from .trial import Trial
from .zoo import Bug

RULED = 3.5  # seconds for the search
NAMED = 3  # how many changes with the same numbers are named
RULE_HINTS = "Which of your lines computes this?", "What is this gradient multiplied by, and what is added to it?"


def changes_alike(match: Match, shown: Trial | None, limit: float) -> tuple[Bug, ...]:
    """The plainest changes of a formula that give the same numbers in every case, and fail the shown property, too."""
    runners = _runners(match)
    if not runners:
        return ()
    first = min(match.wrong, key=lambda i: (broken(match.seen[i]) != "", plainness(case_of(match.op, i))))
    if broken(match.seen[first]) not in ("", "overflow"):
        return ()  # every call raises, as with many changes for other reasons
    found: list[tuple[Any, Bug]] = []
    until = time.process_time() + min(limit, RULED)
    unchanged = {id(runner): runner.run(first) for runner in runners}  # a plain form may follow another convention
    for runner, rank, bug, mutants in _variants(runners, first):
        if time.process_time() > until or len(found) == NAMED or (found and (runner, rank) != found[0][0]):
            break
        with runner.formula.mutated(mutants):
            same_line = bug.name in [other.name for _, other in found]
            changed = compare(runner.run(first), unchanged[id(runner)], match.truth[first], match.aspect) != AGREE
            if changed and not same_line and match.explained_by(runner.run, first):
                found += [((runner, rank), bug)] * (shown is None or fails_so(shown, runner.subject, True))
    return tuple(bug for _, bug in found)


def _variants(runners: "list[_Runner]", i: int) -> "Iterator[tuple[_Runner, int, Bug, list[Mutant]]]":
    """The known slips, then the mutants by rule, the plainest first, then two slips at once, each with its rank."""
    slips = slips_of(runners[0].match.op.spec.name)
    for slip in slips:
        yield from _patched(runners, 0, Bug(slip.name, slip.says, slip.hint), slip.changes)
    hint = RULE_HINTS[runners[0].match.aspect == GRADIENTS]
    for runner in runners:
        for mutant in mutants_of(runner.formula, functools.partial(runner.run, i)):
            yield runner, mutant.rank, Bug(mutant.place, mutant.says, mutant.hint or hint), [mutant]
    for a, b in itertools.combinations(slips, 2):
        bug = Bug(f"{a.name} and {b.name}", f"{a.says}; and {b.says}", a.hint)
        yield from _patched(runners, 4, bug, a.changes + b.changes)


def _patched(runners: "list[_Runner]", rank: int, bug: Bug, changes: Any) -> Iterator[Any]:
    """The variant with these changes of the first formula that has all of their texts."""
    made = ((runner, rank, bug, runner.formula.patched(bug.says, changes)) for runner in runners)
    return itertools.islice((variant for variant in made if variant[-1]), 1)


def _runners(match: Match) -> "list[_Runner]":
    """The formulas to change: the plain form and the oracle for results, both backwards for gradients."""
    spec = match.op.spec
    if match.aspect == GRADIENTS:
        name, made = f"{spec.function}_backward", of_backward(spec)
        runners = [_Runner(match, *made)] if made is not None else []
        if hasattr(plain, name):
            formula = Formula(getattr(plain, name), within=plain.__name__)
            both = {spec.function: getattr(spec.ours(), spec.function), name: formula.function()}
            runners.insert(0, _Runner(match, formula, SimpleNamespace(**both)))
        return runners
    loops = spec.loops or ((spec.oracle,) if spec.oracle is not None else ())
    if not loops or (match.aspect not in NUMBERS and spec.of_loops is None):
        return []
    names, runners = [loop.__name__ for loop in loops], []
    for module in (plain, oracles):
        if all(hasattr(module, name) for name in names):
            formula = Formula(*(getattr(module, name) for name in names), within=module.__name__)
            calls = map(formula.function, range(len(names)))
            implementation = spec.of_loops(*calls) if spec.of_loops is not None else _in_its_dtype(spec, *calls)
            runners.append(_Runner(match, formula, implementation))
    return runners


def _in_its_dtype(spec: Any, formula: Any) -> SimpleNamespace:
    """The formula as an implementation, with results in the dtype of the inputs."""
    ours = getattr(spec.ours(), spec.function)
    signature = inspect.signature(ours)

    @functools.wraps(ours)
    def forward(*args: Any, **kwargs: Any) -> Any:
        case = dict(signature.bind(*args, **kwargs).arguments)
        y = formula(**widened(case))
        return tuple(copy_in_dtype(x, case) for x in y) if isinstance(y, tuple) else copy_in_dtype(y, case)

    return SimpleNamespace(**{spec.function: forward})


class _Runner:
    """Runs a formula of a spec, with the changes in force, on the cases of a match."""

    def __init__(self, match: Match, formula: Formula, implementation: Any):
        self.match, self.formula = match, formula
        self.subject = Subject(implementation, match.op.spec)
        self.arguments: dict[int, Any] = {}  # arguments of the backward, by case

    def run(self, i: int) -> Observation:
        """The observation of the formula on case i."""
        spec, case = self.match.op.spec, case_of(self.match.op, i)
        gradients = self.match.aspect == GRADIENTS
        try:
            with alarm(1.0), np.errstate(all="ignore"):
                if spec.observe is not None:
                    return spec.observe(self.subject, spec, case)
                if not gradients:
                    outputs = zip(spec.outputs, self.subject.outputs(**copied(case)), strict=True)
                    return {n: copy_in_dtype(x, case) for n, x in outputs if x is not None}
                if i not in self.arguments:
                    self.arguments[i] = self.subject.prepared(copied(case), upstream(spec, case))
                named = self.subject.name_gradients(case, self.formula.function()(**copied(self.arguments[i])))
                return {f"gradient {n}": copy_in_dtype(g, case) for n, g in named.items()}
        except (Exception, TooLongError) as error:
            says = "overflow" if isinstance(error.__cause__ or error, ArithmeticError) else "raises"
            return {"gradient's error" if gradients else "forward": says}
