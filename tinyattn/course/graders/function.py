"""Grades a function by the properties of a spec of `tinyattn.check`."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...check.cases import CaseDrawer
from ...check.common import upstream
from ...check.comparing import same_numbers
from ...check.isolation import alarm
from ...check.observing import observe_call
from ...check.property import Violation
from ...check.report import Report
from ...check.runner import check_in_process
from ...check.spec import Spec
from ...check.specs import get_spec
from ...check.subject import CannotRunError, Subject, TooLongError
from ...check.trial import NOT_OF_NOTHING, Finding
from ..exercise import RIGHT, WRONG, Grade
from . import calling
from .calling import RETURNED_NONE, UNWRITTEN, Listed, TolerantCall, as_truth, no_function, run_answer, silenced
from .words import compared, in_lines, in_words_of

EXAMPLES = 15           # cases for each property: enough to find every bug of the zoo, in a second or two
SEED = 0                # draws these cases
BRIEF = False           # whether to shorten the search for a small example and for a cause
ALIKE = 30              # the most cases on which an answer is compared with a tempting one

# Remarks on a right answer. Only the first that applies is shown.
REMARKS = {
    "dtype": "float32 in, float64 out: somewhere a float64 came in, as np.zeros or np.sqrt(d) make it.",
    "floats": "It returns floats where whole numbers are asked for, and floats cannot be used as indices: dtype=int.",
    "numbers": "It returns numbers where True and False are asked for: dtype=bool.",
    "list": "It returns a list; np.array(...) around it would make it an array.",
    "writes": "It writes into its argument; a library works on a copy.",
    "empty": "It fails on a batch of size 0, which a library would take.",
    "contract": "The numbers are right. `tinyattn check` would ask for more: {}.",
}
HEADLINES = {
    "values": "right shape, wrong values.",
    "shape": "wrong shape.",
    "type": "wrong type.",
    "count": "a gradient is missing, or there is one too many.",
    "raised": "it raises an error.",
    "endless": "it does not return in time: is there a loop without end, or one over every entry?",
}
EXCHANGED = "right results, in another order."
ROUNDED = "Is there a float32 on the way, a constant with few digits, or a small number added to a denominator?"
# Questions about other faults than wrong values. For wrong values the exercise has its own question.
QUESTIONS = {
    "shape": "Call your function on this example and print the shape after each line: which is the first that you did "
    "not expect? (check shows no prints.)",
    "count": "How many results does the task ask for, and in which order?",
    "raised": "Which line raises that? Call your function on this example and print the shapes before that line (check "
    "shows no prints).",
}
FEW = 5                 # cases on which results in another order are looked for
NO_TRUTH = "it returned None; expected True or False."
NO_RESULT = ("raised", "endless")


@dataclass(frozen=True)
class Function:
    """Grades a function by the properties of a spec of `tinyattn.check`.

    `spec` is a name in `tinyattn.check.SPECS`, or the exercise's own `Spec`. With `part` "backward" the answer is the
    backward of `forward`, by default the library's. If `forward` takes fewer arguments than the library's, the backward
    returns fewer gradients. `takes` names the optional arguments that a forward must have. `conventions` is False if an
    answer must follow the library's convention. `names` are pairs: an output's name in the library, and in the task.
    `tempting` are common wrong functions, each with a question and perhaps a diagnosis. `missing_steps` are functions
    of a wrong answer's results that make them right, also with question and diagnosis. `last_test` is called with an
    answer that has all properties; it returns a sentence or a `Grade` that says what is wrong, or nothing. With
    `may_assert` the answer is a property that may assert, and return nothing, instead of returning True or False. With
    `in_place` the task asks for a function that overwrites its argument, and nothing is remarked about that.
    """

    spec: Any
    part: str = "forward"
    forward: Callable[..., Any] | None = None
    takes: tuple[str, ...] = ()
    tempting: Listed = ()
    conventions: bool = True
    names: tuple[tuple[str, str], ...] = ()
    last_test: Callable[[Callable[..., Any]], str | Grade | None] | None = None
    missing_steps: Listed = ()
    may_assert: bool = False
    in_place: bool = False

    asks = "a function"

    @property
    def known(self) -> Spec:
        return get_spec(self.spec) if isinstance(self.spec, str) else self.spec

    @property
    def function(self) -> str:
        """The library's name for the function that the task asks for."""
        return self.known.function + ("_backward" if self.part == "backward" else "")

    def reference(self) -> Callable[..., Any]:
        """The library's function; a backward returns only the gradients that the task asks for."""
        spec = self.known
        ours: Callable[..., Any] = getattr(spec.ours(), self.function)
        if self.part == "forward" or self.forward is None:
            return ours
        lacks = Subject(SimpleNamespace(**{spec.function: self.forward}), spec).lacks
        places = [i for i, name in enumerate(spec.wrt) if name not in lacks]

        @functools.wraps(ours)
        def fewer(*args: Any, **kwargs: Any) -> Any:
            gradients = ours(*args, **kwargs)
            return tuple(gradients[i] for i in places)

        return ours if len(places) == len(spec.wrt) else fewer

    def wrapped(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        """An accepted answer for later cells: it gets copies of arguments, and returns arrays of their dtype."""
        return self._tolerant(as_truth(answer) if self.may_assert else answer).call

    def _tolerant(self, answer: Callable[..., Any]) -> TolerantCall:
        if self.part == "backward":  # of fewer arguments, perhaps
            return TolerantCall(answer, len(self.known.wrt), self.reference(), self.known.wrt)
        names = [dict(self.names).get(name, name) for name in self.known.outputs]
        return TolerantCall(answer, len(names), self.reference(), names, all_names=True)

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        answer = as_truth(answer) if self.may_assert else answer
        spec = self.known
        stages: tuple[str, ...] = ("shapes", "oracle", "properties", "extremes")
        tolerant = self._tolerant(answer)
        offered = SimpleNamespace(**{self.function: tolerant.call})
        if self.part == "backward":
            setattr(offered, spec.function, self.forward or getattr(spec.ours(), spec.function))
            spec, stages = replace(spec, shown=_backward_arguments), ("gradients", "extremes")
        how: dict[str, Any] = {"stages": stages, "examples": EXAMPLES, "seed": SEED, "brief": BRIEF, "time_limit": 30.0,
                               "patience": calling.PATIENCE}  # fmt: skip
        with silenced():
            try:
                op = Subject(offered, spec)
                refusal = self._unwritten(answer, offered, spec) or self._disordered(answer)
                if refusal is not None:
                    return refusal
                tolerant.remarks.clear()
                try:
                    report = check_in_process(offered, spec, **how)
                    refused = report.not_offered or (report.conventions and not self.conventions)
                except CannotRunError:  # every call raises
                    refused = True
                if refused:  # try again, strictly, so that the report has an example
                    report = check_in_process(offered, spec, **how, strict=True)
            except CannotRunError as error:
                says = re.sub(r"which (the library's|is neither) .*", "which the task does not give it", str(error))
                return Grade(WRONG, "it cannot be called.", (f"  {in_words_of(answer, spec.function, says)}",))
        missing = next((name for name in self.takes if name in report.lacks), "")
        if missing:
            return Grade(WRONG, f"it takes no `{missing}`, which later cells pass by that name.")
        tried = _Tried(self, answer, tolerant, op, report)
        return tried.right() if report.verdict in ("right", "contract") else tried.wrong()

    def _unwritten(self, answer: Callable[..., Any], offered: Any, spec: Spec) -> Grade | None:
        """The grade of an answer that is still the stub, or returns None. None for other answers."""
        returned = []

        @functools.wraps(answer)
        def watched(*args: Any, **kwargs: Any) -> Any:
            returned.append(answer(*args, **kwargs))
            return returned[-1]

        op = Subject(SimpleNamespace(**vars(offered) | {self.function: watched}), spec)
        case = op.fit(spec.case(CaseDrawer.seeded(0)))
        try:
            with alarm(calling.PATIENCE):
                op.gradients(case, *upstream(spec, case)) if self.part == "backward" else op.outputs(**case)
        except Violation as violation:
            if isinstance(violation.__cause__, NotImplementedError):
                return UNWRITTEN
        except (TooLongError, Exception):  # reported in full when the properties are tried
            pass
        if not returned or any(x is not None for x in returned):
            return None
        truth = self.part == "forward" and _is_truth(Subject(spec.ours(), spec)(**case))
        return Grade(WRONG, NO_TRUTH if truth else RETURNED_NONE)

    def _disordered(self, answer: Callable[..., Any]) -> Grade | None:
        """The grade of an answer whose arguments are in another order, or None. Chapters pass arguments by position."""
        in_task, parameters = dict(self.names), inspect.signature(self.reference()).parameters
        expected = [in_task.get(name, name) for name, p in parameters.items() if p.default is p.empty]
        got = [in_task.get(name, name) for name in _signature(answer)]
        if not set(expected) <= set(got) or got[: len(expected)] == expected:
            return None
        says = f"the arguments are in another order than in the task: {', '.join(expected)}."
        return Grade(WRONG, says, question="Which argument comes first in the task?")


@dataclass(frozen=True)
class _Tried:
    """An answer and the `report` of its check. `tolerant` calls the answer; `op` is the subject that was checked."""

    grader: Function
    answer: Callable[..., Any]
    tolerant: TolerantCall
    op: Subject
    report: Report

    def right(self) -> Grade:
        if "tuple" in self.tolerant.remarks:
            return Grade(WRONG, "it returns a tuple; the task asks for one array.", question=QUESTIONS["count"])
        absent = self._not_returned()
        if absent:
            says = f"right as far as it goes, but it returns no `{self._in_task(absent[0])}`."
            return Grade(WRONG, says, (f"  expected {', '.join(map(self._in_task, self.op.spec.outputs))}",))
        still_wrong = run_answer(self.grader.last_test, self.tolerant.call) if self.grader.last_test else ""
        if still_wrong:
            return still_wrong if isinstance(still_wrong, Grade) else Grade(WRONG, still_wrong)
        held = [f for f in self.report.findings if f.outcome == "holds"]
        says = f"right. {len(held)} {'property holds' if len(held) == 1 else 'properties hold'}, "
        return Grade(RIGHT, says + f"in {sum(f.tries for f in held):,} tries.", note=self._note())

    def _in_task(self, name: str) -> str:
        """The task's name of an output, an argument or a gradient."""
        in_task = {f"{d}{ours}": f"{d}{theirs}" for ours, theirs in self.grader.names for d in ("", "d")}
        return in_task.get(name, name)

    def _note(self) -> str:
        """A remark on a right answer, or ""."""
        if self.report.conventions:
            return f"This is another convention than the library's, and as good: {self.report.conventions[0]}."
        asked_for = {"writes"} if self.grader.in_place else set()
        remarks = [text for name, text in REMARKS.items() if name in self.tolerant.remarks - asked_for]
        remarks += [REMARKS["contract"].format(failure.message) for failure in self.report.failures]
        remarks += [REMARKS["empty"] for finding in self.report.findings if finding.message.startswith(NOT_OF_NOTHING)]
        return remarks[0] if remarks else ""

    def _not_returned(self) -> list[str]:
        """Outputs that the answer does not return. `tinyattn.check` lets them be missing; a chapter requires them."""
        spec = self.op.spec
        if self.grader.part == "backward" or len(spec.outputs) == 1:
            return []
        with silenced():
            returned = self.op.outputs(**self.op.fit(spec.case(CaseDrawer.seeded(0))))
        return [name for name, x in zip(spec.outputs, returned, strict=True) if x is None]

    def wrong(self) -> Grade:
        first = self.report.failures[0]
        expected, got = ({}, {}) if first.sort in NO_RESULT else self._results(self.report.case)
        says, question = HEADLINES[first.sort], QUESTIONS.get(first.sort, "")
        missing = [self._in_task(name) for name in expected if name not in got]
        optional = self._required(first)
        if optional:
            says = f"it must also work without a {optional}: give `{optional}` the default None."
            question = f"What is `{optional}` where a call leaves it out?"
        elif missing and not got and all(map(_is_truth, expected.values())):
            says = NO_TRUTH
        elif missing and got and first.sort in ("shape", "type"):
            says, question = f"it returns no {', '.join(f'`{name}`' for name in missing)}.", QUESTIONS["count"]
        elif len(expected) > 1 and self._only_exchanged():
            says, question = EXCHANGED, "In which order does the task ask for them?"
        elif self.tolerant.narrow and first.sort == "values":
            says = f"{self.tolerant.narrow}: digits are lost."
        elif first.stage == "extremes" and first.sort == "values":
            says = "right in ordinary cases, wrong in an extreme one."
        elif first.stage == "oracle" and first.sort == "values" and not _differing(expected, got):
            says, question = "nearly right: it is off by more than rounding.", ROUNDED
        diagnosis, names = "", ()
        if first.endless:  # a comparison would not return either
            hints = None
        else:
            grader = self.grader
            hints = next((hints for wrong, *hints in grader.tempting if self._alike(self.op, self._with(wrong))), None)
            if hints is None and first.sort == "values":
                hints = next((hints for step, *hints in grader.missing_steps if self._is_right_after(step)), None)
        with silenced():
            cause = None if hints or says == EXCHANGED else self.report.diagnosis
        if hints:
            question, diagnosis = [*hints, ""][:2]
        elif cause:
            bug = cause.bugs[0][0]
            if cause.how != "rule":  # a change by rule has no name, and no question of its bug
                question, names = bug.hint, cause.names
            without_line = bug.says.partition(", as with")[0]  # the line would be the solution
            diagnosis = f"Yours: {without_line}."
        elif first.sort in NO_RESULT:
            diagnosis = calling.ONCE_IT_RUNS
        elif outside := _outside(self.answer):
            question = f"Your function takes `{outside}` from another cell. Is that right in this example?"
        lines = () if optional else self._shown(first, _differing(expected, got), got)
        return Grade(WRONG, says, tuple(lines), question, diagnosis, names)

    def _required(self, first: Finding) -> str:
        """The argument that the answer requires although it is optional in the task, if that is the fault; else ""."""
        missed = re.search(r"missing \d+ required positional argument\S* '(\w+)'", first.message)
        name = missed[1] if missed and first.sort == "raised" else ""
        parameters = self.op.signature.parameters
        optional = name in parameters and parameters[name].default is None
        return name if optional and name in _signature(self.answer) else ""

    def _shown(self, first: Finding, differ: dict[str, Any], got: dict[str, Any]) -> Iterator[str]:
        """Lines with the counterexample, the expected and the actual results."""
        no_result = first.sort in NO_RESULT
        words = functools.partial(in_words_of, self.answer, self.op.spec.function)
        if not differ:
            yield f"  {words(first.message)}"
        if not differ and not no_result:
            yield f"  it should hold that {words(first.statement)}"
        if first.counterexample:
            yield "  the smallest example found:" if differ or no_result else "  the example that led there:"
            yield from ("    " + line for line in self._example(first, differ))
        got = {self._in_task(name): x for name, x in got.items()}
        for name, x in differ.items():
            yield from ("    " + line for line in compared(self._in_task(name), x, got))

    def _example(self, first: Finding, differ: dict[str, Any]) -> list[str]:
        """Lines with the counterexample; for a property of extreme cases, with the extreme case made from it."""
        op, made = self.op, first.stage == "extremes" and not differ and self.report.last
        case = {n: x for n, x in (made or self.report.case).items() if n not in op.lacks}
        if op.spec.shown and case and not made:
            with silenced():
                case = op.spec.shown(op, case)
        # the library's names of outputs, as in `out = ...`, are replaced by the task's
        text = re.sub(r"^(\w+)(?= = )", lambda name: self._in_task(name[1]), first.counterexample, flags=re.M)
        return in_lines({self._in_task(name): x for name, x in case.items()}) or text.splitlines()

    def _only_exchanged(self) -> bool:
        """Whether the answer returns the expected results in another order, on the counterexample and a few cases."""
        both = [(expected, got) for expected, got in map(self._results, self._cases(FEW)) if expected]
        alike = all(_in_any_order(list(expected.values()), list(got.values())) for expected, got in both)
        return alike and any(_differing(expected, got) for expected, got in both)

    def _cases(self, seeds: int) -> Iterator[dict[str, Any]]:
        """The counterexample, if any, and fixed cases."""
        if self.report.case:
            yield self.report.case
        yield from (self.op.spec.case(CaseDrawer.seeded(seed)) for seed in range(seeds))

    def _results(self, example: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The library's results for a case, and the answer's: outputs or gradients by name."""
        spec, op, both = self.grader.known, self.op, []
        if not example:
            return {}, {}
        for one in (Subject(spec.ours(), spec), op):
            try:
                case = op.fit(example)
                with silenced(), alarm(calling.PATIENCE):
                    if self.grader.part == "backward":
                        gradients = one.gradients(case, *upstream(spec, case))
                        both.append({f"d{n}": x for n, x in gradients.items() if n not in op.lacks})
                    else:
                        outputs = zip(spec.outputs, one.outputs(**case), strict=True)
                        both.append({n: x for n, x in outputs if x is not None})
            except (TooLongError, Exception):  # it raises, or its gradients do not fit
                return {}, {}
        return both[0], both[1]

    def _is_right_after(self, step: Callable[[Any], Any]) -> bool:
        """Whether `step` turns the answer's results into the library's."""

        @functools.wraps(self.answer)
        def ended(*args: Any, **kwargs: Any) -> Any:
            return step(self.tolerant.call(*args, **kwargs))

        return self._alike(self._with(ended), self._with(self.grader.reference()))

    def _with(self, f: Callable[..., Any]) -> Subject:
        """The implementation with `f` in the answer's place."""
        return Subject(SimpleNamespace(**vars(self.op.implementation) | {self.grader.function: f}), self.op.spec)

    def _alike(self, one: Subject, other: Subject) -> bool:
        """Whether two implementations give the same results on the counterexample and on fixed cases."""
        with silenced():
            for case in self._cases(ALIKE):
                try:
                    seen, theirs = (_numbers(observe_call(op, op.spec, op.fit(case))) for op in (one, other))
                except (TypeError, ValueError):  # strings, or rows of different lengths, which no tempting answer gives
                    return False
                if seen.keys() != theirs.keys() or not all(same_numbers(x, theirs[n]) for n, x in seen.items()):
                    return False
        return True


def _numbers(seen: dict[str, Any]) -> dict[str, np.ndarray]:
    """Results and gradients among a call's observations."""
    return {name: x for name, x in seen.items() if isinstance(x, np.ndarray)}


def _same(x: Any, y: Any) -> bool:
    try:
        return same_numbers(np.asarray(x), np.asarray(y))
    except ValueError:  # rows of different lengths
        return False


def _differing(expected: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """The expected results that differ or are missing, by name."""
    return {name: x for name, x in expected.items() if name not in got or not _same(x, got[name])}


def _in_any_order(expected: list[Any], got: list[Any]) -> bool:
    left = list(got)
    for x in expected:
        at = next((i for i, y in enumerate(left) if _same(x, y)), None)
        if at is None:
            return False
        del left[at]
    return not left


def _is_truth(x: Any) -> bool:
    return isinstance(x, bool | np.bool_)


def _signature(f: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that can be passed by position; {} for a function without a signature."""
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        return {}
    return {n: p for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)}


def _outside(f: Callable[..., Any]) -> str:
    """A global integer that a function reads, such as "d = 16", or ""."""
    f = inspect.unwrap(f)
    names, values = getattr(getattr(f, "__code__", None), "co_names", ()), getattr(f, "__globals__", {})
    return next((f"{name} = {values[name]}" for name in names if type(values.get(name)) is int), "")


def _backward_arguments(op: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The backward's arguments, so that a reader can compute the example on paper."""
    try:
        return op.prepared(op.fit(case), upstream(op.spec, case))
    except Exception:  # the forward itself failed
        return case
