"""Graders of answers, one for each form of answer: a number, a function, a property.

They run in the reader's own process, offline; what the answer prints is discarded. They ask what `tinyattn check` asks,
and are kinder: a right answer is right in another dtype, as lists, or where it writes into what it is given.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
import reprlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from .exercise import RIGHT, UNANSWERED, WRONG, Grade

EXAMPLES = 15           # cases a property: enough to kill every bug of the zoo, in a second or two
PATIENCE = 2.0          # seconds for one call of an answer
RUNS = 5                # of a reader's property, which may draw random inputs

FEW = 24                # numbers that are shown of a property's last call, and not only their shapes
TINY = 1e-9             # a number that is 0 on paper may be measured as this

RETURNED_NONE = "it returned None"
REJECTS = "It returned False for it. Is the statement true of it? Compare by hand on the inputs below."
ROUNDING = "If the statement is right on paper, it may hold up to rounding only: np.allclose compares that way."
UNWRITTEN = Grade(UNANSWERED, "not answered yet")

# What is right, and what a library would do in its place: at most one is said.
KEPT = {
    "dtype": "float32 in, float64 out: somewhere a float64 came in, as np.zeros or np.sqrt(d) make it.",
    "list": "It returns a list; np.array(...) around it would make it an array.",
    "writes": "It writes into an array that it was given; a library works on a copy.",
    "empty": "It fails on a batch of size 0, which a library would take.",
    "contract": "The numbers are right. `tinyattn check` would ask for more: {}.",
}
LOST = "float64 in, float32 out: digits are lost."

Tempting = tuple[tuple[Any, ...], ...]  # (what readers give instead, a question) or (..., a question, the diagnosis)


@dataclass(frozen=True)
class Number:
    """Grades a number, or an array of numbers, by comparison with what the library computes.

    `compute() -> the right value`; `tolerance` is relative to the largest entry, and `exactly` asks for a whole number.
    `tempting` are common wrong answers: a function that computes one, a question for the reader who gives it, and, as
    the case may be, the diagnosis. `computed` is said of a right answer, with {} for the library's value.
    """

    compute: Callable[[], Any]
    tolerance: float
    tempting: Tempting = ()
    computed: str = "The library computes {}."
    exactly: bool = False

    def __call__(self, answer: Any) -> Grade:
        expected = np.asarray(self.compute(), float)
        wanted = "a number" if expected.ndim == 0 else f"numbers of shape {expected.shape}"
        try:
            got = np.asarray(answer)
        except ValueError:
            return Grade(WRONG, f"{reprlib.repr(answer)} has rows of different lengths, expected {wanted}")
        if got.dtype.kind not in "iuf":
            return Grade(WRONG, f"{_described(answer)} is no answer here, expected {wanted}")
        if got.shape != expected.shape:
            return Grade(WRONG, f"wrong shape: {got.shape}, expected {wanted}")
        if not np.all(np.isfinite(got)):
            return Grade(WRONG, f"{reprlib.repr(answer)} is not finite")
        if self.exactly and np.any(got != np.round(got)):
            return Grade(WRONG, f"{_shown(got)} is no whole number.")
        if self._near(got, expected):
            return Grade(RIGHT, f"right. {self.computed.format(_shown(expected))}")
        said = next((said for other, *said in self.tempting if self._near(got, np.asarray(other(), float))), [""])
        question, diagnosis = [*said, ""][:2]
        if expected.ndim == 0:
            says = f"{_shown(got)} is too {'large' if got > expected else 'small'}."
        else:
            at = np.unravel_index(int(np.argmax(np.abs(got - expected))), expected.shape)
            says = f"right shape, wrong values: look again at entry {[int(i) for i in at]}."
        return Grade(WRONG, says, question=question, diagnosis=diagnosis)

    def _near(self, got: np.ndarray, expected: np.ndarray) -> bool:
        if self.exactly:
            return bool(np.array_equal(got, np.round(expected)))
        allowed = self.tolerance * float(np.max(np.abs(expected))) + TINY
        return got.shape == expected.shape and bool(np.max(np.abs(got - expected)) <= allowed)


@dataclass(frozen=True)
class Function:
    """Grades a function by the properties of a spec of `tinyattn.check`.

    `spec` is a name in `tinyattn.check.SPECS`, or a `Spec` of the exercise's own. With `part` "backward" the answer is
    the backward of `forward`, by default the library's; a forward that takes fewer arguments asks less of the backward.
    `takes` names the optional arguments that a forward must have. `tempting` are common wrong functions, each with a
    question for the reader who writes it and, as the case may be, the diagnosis. `conventions` is False where the
    exercise is about the convention: another than the library's is then wrong. `names` are pairs of the library's name
    of an output and the task's. `also` is asked of an answer that passed
    all properties: it returns in a sentence what is still wrong, or "".
    """

    spec: Any
    part: str = "forward"
    forward: Callable[..., Any] | None = None
    takes: tuple[str, ...] = ()
    tempting: Tempting = ()
    conventions: bool = True
    names: tuple[tuple[str, str], ...] = ()
    also: Callable[[Callable[..., Any]], str] | None = None

    def reference(self) -> Callable[..., Any]:
        """The library's own function that the answer is to be; a backward with the gradients that are asked for."""
        from ..check.subject import Subject

        spec = self._spec()
        if self.part == "forward":
            return getattr(spec.ours(), spec.function)
        backward = getattr(spec.ours(), f"{spec.function}_backward")
        if self.forward is None:
            return backward
        lacks = Subject(SimpleNamespace(**{spec.function: self.forward}), spec).lacks
        asked = [i for i, name in enumerate(spec.wrt) if name not in lacks]

        @functools.wraps(backward)
        def fewer(*args: Any, **kwargs: Any) -> Any:
            gradients = backward(*args, **kwargs)
            return tuple(gradients[i] for i in asked)

        return backward if len(asked) == len(spec.wrt) else fewer

    def kindly(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        """An accepted answer for further use: it gets copies, and returns arrays in the dtype of its arguments."""
        return _Kind(answer, self._returns(self._spec())).call

    def _spec(self) -> Any:
        from ..check.specs import get_spec

        return get_spec(self.spec) if isinstance(self.spec, str) else self.spec

    def __call__(self, answer: Any) -> Grade:
        from ..check.runner import check_in_process
        from ..check.subject import CannotRunError, Subject

        if not callable(answer):
            return Grade(WRONG, f"{_described(answer)} is no answer here, expected a function")
        spec = self._spec()
        kind = _Kind(answer, self._returns(spec))
        offered = SimpleNamespace(**{spec.function: kind.call})
        stages: tuple[str, ...] = ("shapes", "oracle", "properties", "extremes")
        if self.part == "backward":
            forward = self.forward or getattr(spec.ours(), spec.function)
            offered = SimpleNamespace(**{spec.function: forward, f"{spec.function}_backward": kind.call})
            spec = replace(spec, shown=_given_to_backward)
            stages = ("gradients", "extremes")
        how: dict[str, Any] = {"stages": stages, "examples": EXAMPLES, "time_limit": 30.0, "patience": PATIENCE}
        with _silenced():
            try:
                op = Subject(offered, spec)
                empty = _unwritten(answer, offered, spec, self.part)
                if empty is not None:
                    return empty
                kind.kept.clear()
                try:
                    report = check_in_process(offered, spec, **how)
                    refused = report.not_offered or (report.conventions and not self.conventions)
                except CannotRunError:  # every call raises
                    refused = True
                if refused:  # a call that the task asks for raises, say: with the example
                    report = check_in_process(offered, spec, **how, strict=True)
            except CannotRunError as error:
                says = re.sub(r"which the library's .*? does not have", "which the task does not give it", str(error))
                return Grade(WRONG, "it cannot be called.", (f"  {says}",))
        missing = [name for name in self.takes if name in report.lacks]
        if missing:
            return Grade(WRONG, f"it takes no `{missing[0]}`: further down it is passed by that name.")
        if report.verdict in ("right", "contract"):
            return self._right(answer, op, report, kind)
        return self._wrong(answer, op, spec, report, kind)

    def _returns(self, spec: Any) -> int:
        """How many arrays a right answer returns."""
        return len(spec.wrt if self.part == "backward" else spec.outputs)

    def _right(self, answer: Callable[..., Any], op: Any, report: Any, kind: _Kind) -> Grade:
        absent = _not_returned(op, op.spec) if self.part == "forward" and len(op.spec.outputs) > 1 else []
        if absent:
            called = [dict(self.names).get(name, name) for name in op.spec.outputs]
            says = f"right as far as it goes, but it returns no `{dict(self.names).get(absent[0], absent[0])}`."
            return Grade(WRONG, says, (f"  expected {', '.join(called)}",))
        with _silenced():
            still_wrong = self.also(answer) if self.also else ""
        if still_wrong:
            return Grade(WRONG, still_wrong)
        held = [f for f in report.findings if f.outcome == "holds"]
        says = f"right. {len(held)} {'property holds' if len(held) == 1 else 'properties hold'}, "
        says += f"in {sum(f.tries for f in held):,} tries."
        note = next((KEPT[what] for what in KEPT if what in kind.kept), "")
        if report.conventions:
            note = f"Another convention than the library's, and as good: {report.conventions[0]}."
        elif report.failures and not note:
            first = report.failures[0]
            note = KEPT["empty"] if first.property.endswith("_of_nothing") else KEPT["contract"].format(first.message)
        return Grade(RIGHT, says, note=note)

    def _wrong(self, answer: Callable[..., Any], op: Any, spec: Any, report: Any, kind: _Kind) -> Grade:
        first = report.failures[0]
        says = LOST if "narrow" in kind.kept and not _no_result(first) else _headline(first)
        tempting = () if first.endless else self.tempting  # it would not return here either
        said = next((said for wrong, *said in tempting if self._gives_the_same_as(op, wrong, spec)), [])
        question, diagnosis, names = "", "", ()
        if said:
            question, diagnosis = [*said, ""][:2]
        elif report.diagnosis:
            bug, names = report.diagnosis.bugs[0][0], report.diagnosis.names
            question, diagnosis = bug.hint, f"{bug.says} ({bug.name})."
        return Grade(WRONG, says, tuple(self._shown(answer, op, report)), question, diagnosis, names)

    def _shown(self, answer: Callable[..., Any], op: Any, report: Any) -> Iterator[str]:
        """The counterexample, what is expected, and what was got."""
        from ..check.trial import show_case

        first, case = report.failures[0], report.case
        expected: dict[str, Any] = {}
        got: dict[str, Any] = {}
        if case and not _no_result(first):
            with _silenced():
                expected, got = _results(self._spec(), op, case, self.part)
        differ = {n: x for n, x in expected.items() if n not in got or not _alike(x, got[n])}
        if not differ:
            yield f"  {self._in_its_words(first.message, answer)}"
        if not differ and not _no_result(first):
            yield f"  it should hold that {first.statement}"
        if first.counterexample:
            yield "  the smallest example found:" if differ or _no_result(first) else "  the example that led there:"
        yield from ("    " + self._named(line) for line in first.counterexample.splitlines())
        for name, x in differ.items():
            there = show_case({name: _plain(got[name])}) if name in got else f"no {name}"
            for what, shown in (("expected", show_case({name: _plain(x)})), ("got", there)):
                yield f"    {what:10}" + self._named(shown).replace("\n", "\n" + " " * 14)

    def _in_its_words(self, message: str, answer: Callable[..., Any]) -> str:
        """With the answer's own name where the library's stands."""
        own = getattr(answer, "__name__", "")
        function = self._spec().function
        if not own.isidentifier():
            return message
        return re.sub(rf"\b{function}(_backward)?\b(?= (raised|returned))", own, message)

    def _named(self, shown: str) -> str:
        """With the task's names of outputs where the library's stand."""
        for name, called in self.names:
            shown = re.sub(rf"^(d?){name} = ", rf"\1{called} = ", shown)
        return shown

    def _gives_the_same_as(self, op: Any, wrong: Callable[..., Any], spec: Any) -> bool:
        """Whether the answer gives the same results as `wrong` on a few fixed cases."""
        from ..check.cases import CaseDrawer
        from ..check.diagnosis import same_numbers
        from ..check.observing import observe_call
        from ..check.subject import Subject

        name = f"{spec.function}_backward" if self.part == "backward" else spec.function
        other = Subject(SimpleNamespace(**vars(op.implementation) | {name: wrong}), spec)
        with _silenced():
            for seed in range(RUNS):
                case = spec.case(CaseDrawer.seeded(seed))
                seen, theirs = (_numbers(observe_call(one, spec, one.fit(case))) for one in (op, other))
                if seen.keys() != theirs.keys() or not all(same_numbers(x, theirs[n]) for n, x in seen.items()):
                    return False
        return True


@dataclass(frozen=True)
class Property:
    """Grades a property that the reader writes: true of every right implementation of `spec`, false of the zoo's `bug`.

    The answer is called with the functions named in `gives`, in this order. It returns whether the property holds; or
    it asserts, and returns nothing. `others` are further bugs of the zoo that it must kill. `to_the_bit` is True where
    equality is what the chapter teaches.
    """

    spec: str
    bug: str
    gives: tuple[str, ...]
    others: tuple[str, ...] = ()
    to_the_bit: bool = False

    def planted(self, name: str = "") -> Any:
        """The functions in `gives` with the bug, or with another of the zoo's. Raises ValueError for an unknown one."""
        from ..check.zoo import ZOO

        known = {b.name for b in ZOO[self.spec].BUGS if not b.convention}
        if name and name not in known:
            raise ValueError(f"the zoo's {self.spec} has no bug {name!r}; it has {', '.join(sorted(known))}")
        made = ZOO[self.spec].make(frozenset([name or self.bug]))
        functions = tuple(getattr(made, one) for one in self.gives)
        return functions[0] if len(functions) == 1 else functions

    def __call__(self, answer: Any) -> Grade:
        from ..check.specs import get_spec
        from ..check.zoo import ZOO

        if not callable(answer):
            return Grade(WRONG, f"{_described(answer)} is no answer here, expected a function")
        make = ZOO[self.spec].make
        conventions = [b.name for b in ZOO[self.spec].BUGS if b.convention]
        sound = [("the library's own", get_spec(self.spec).ours()), ("one written differently", make(frozenset()))]
        sound += [("one by another convention", make(frozenset([name]))) for name in conventions]
        for which, implementation in sound:
            for outcome, told, last in (self._ask(answer, implementation) for _ in range(RUNS)):
                if outcome == UNANSWERED:
                    return UNWRITTEN
                if outcome == "unclear":
                    return Grade(WRONG, told)
                if outcome != "holds":
                    says = f"it also rejects {' and '.join(f'a correct `{name}`' for name in self.gives)}: {which}."
                    question = "Which number differs on these inputs, or with these sizes, and should it?"
                    exact = _compares_exactly(answer) and not self.to_the_bit
                    lines = (f"  {told or REJECTS}", *([f"  {ROUNDING}"] if exact else []), *last)
                    return Grade(WRONG, says, lines, question if last else "")
        bugs = {b.name: b for b in ZOO[self.spec].BUGS if not b.convention}
        bug, wrong = bugs[self.bug], make(frozenset([self.bug]))
        found = [self._ask(answer, wrong, rounded) for rounded in (False, True) for _ in range(RUNS)]
        unclear = next((told for outcome, told, _ in found if outcome == "unclear"), None)
        if unclear is not None:
            return Grade(WRONG, f"given the implementation with the bug, {unclear}")
        kills = sum(outcome == "fails" for outcome, *_ in found)
        if all(told == RETURNED_NONE for _, told, _ in found):
            return Grade(WRONG, "it always returns None, expected True or False. Is the `return` missing?")
        if kills < len(found):
            says = f"it finds the bug in {kills} of {len(found)} runs only."
            if not kills or not any(outcome == "fails" for outcome, *_ in found[RUNS:]):
                says = "it is true of what is right, but of the bug as well."
            return Grade(WRONG, says, (f"  it should be false where {bug.says} ({bug.name})",))
        also = [name for name in bugs if name != self.bug
                and self._ask(answer, make(frozenset([name])))[0] == "fails"]  # fmt: skip
        lives = next((bugs[name] for name in self.others if name not in also), None)
        if lives is not None:
            says = f"it finds {bug.name}, as it should, but another bug passes it."
            return Grade(WRONG, says, (f"  it should be false, too, where {lives.says} ({lives.name})",), lives.hint)
        others = "another known bug" if len(also) == 1 else f"{len(also)} other known bugs"
        note = f"It also finds {others}: {', '.join(also)}." if also else ""
        return Grade(RIGHT, f"right. It is true of what is right, and false where {bug.says} ({bug.name}).", note=note)

    def _ask(
        self, answer: Callable[..., Any], implementation: Any, rounded: bool = False
    ) -> tuple[str, str, tuple[str, ...]]:
        """-> "holds", "fails", "unanswered" or "unclear"; a sentence, or ""; its last call, in lines.

        With `rounded` the implementation's results have nine decimals: what is false of their last bits only is true.
        """
        from ..check.isolation import alarm
        from ..check.subject import TooLongError, message_of
        from ..check.trial import show_case

        last: list[tuple[str, dict[str, Any]]] = []

        def watched(name: str) -> Callable[..., Any]:
            f = getattr(implementation, name)

            @functools.wraps(f)
            def call(*args: Any, **kwargs: Any) -> Any:
                with contextlib.suppress(TypeError, ValueError):
                    last[:] = [(name, dict(inspect.signature(f).bind(*args, **kwargs).arguments))]
                result = f(*args, **kwargs)
                return _rounded(result) if rounded else result

            return call

        try:
            with _silenced(), alarm(PATIENCE), np.errstate(all="ignore"):
                holds = answer(*(watched(name) for name in self.gives))
        except NotImplementedError:
            return UNANSWERED, "", ()
        except AssertionError as error:
            holds, told = False, message_of(error)
        except TooLongError:
            return "unclear", f"it had not returned after {PATIENCE:g} seconds.", ()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() in an answer must not end the reader's process
            return "unclear", f"it raises {type(error).__name__}: {message_of(error)}", ()
        else:
            told = ""
        if isinstance(holds, bool | np.bool_):
            lines = [f"  its last call, of `{name}`, was with" for name, _ in last]
            lines += ["    " + line for _, given in last for line in show_case(_if_small(given)).splitlines()]
            return ("holds", "", ()) if holds else ("fails", told, tuple(lines))
        if holds is None:
            return "holds", RETURNED_NONE, ()  # it asserts, or forgot to return
        says = f"it returns {_described(holds)}, expected True or False. np.allclose, np.all or bool around it?"
        return "unclear", says, ()


class _Kind:
    """An answer, called kindly: with copies, and its results as arrays in the dtype of its arguments.

    `kept` are the names in KEPT of what it does otherwise than a library would; "narrow" is float32 out of float64.
    """

    def __init__(self, answer: Callable[..., Any], returns: int):
        self.answer, self.returns = answer, returns
        self.kept: set[str] = set()

        @functools.wraps(answer)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [_copied(x) for x in args]
            named = {name: _copied(x) for name, x in kwargs.items()}
            result = answer(*given, **named)
            before, after = (*args, *kwargs.values()), (*given, *named.values())
            if any(_changed(x, y) for x, y in zip(before, after, strict=True)):
                self.kept.add("writes")
            dtypes = [x.dtype for x in before if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
            if not dtypes or result is None:
                return result
            if self.returns > 1 and isinstance(result, tuple | list):
                return tuple(self._array(x, dtypes[0]) for x in result)
            one = isinstance(result, tuple) and len(result) == 1
            return self._array(result[0] if one else result, dtypes[0])

        self.call = call

    def _array(self, x: Any, dtype: np.dtype) -> Any:
        if isinstance(x, list | tuple):
            try:
                made = np.array(x)
            except ValueError:  # rows of different lengths
                return x
            if made.dtype.kind in "iuf":
                self.kept.add("list")
                x = made.astype(dtype)
        if not isinstance(x, np.ndarray | np.number | int | float) or isinstance(x, bool):
            return x
        x = np.asarray(x)
        if x.dtype.kind != "f":
            return x.astype(dtype) if x.dtype.kind in "iu" else x
        if x.dtype != dtype and x.ndim:
            self.kept.add("dtype" if x.dtype.itemsize > dtype.itemsize else "narrow")
        return np.array(x, dtype)


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _changed(before: Any, after: Any) -> bool:
    return isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=before.dtype.kind == "f")


def _results(spec: Any, op: Any, case: dict[str, Any], part: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the library gives for a case, and what the answer gives: outputs or gradients by name."""
    from ..check.common import upstream
    from ..check.subject import Subject

    both = []
    for one in (Subject(spec.ours(), spec), op):
        try:
            case_of_op = op.fit(case)
            if part == "backward":
                found = {f"d{n}": x for n, x in one.gradients(case_of_op, *upstream(spec, case_of_op)).items()}
                both.append({n: x for n, x in found.items() if n[1:] not in op.lacks})
            else:
                outputs = one.outputs(**case_of_op)
                both.append({n: x for n, x in zip(spec.outputs, outputs, strict=True) if x is not None})
        except Exception:  # it raises, or the gradients do not fit: the message says so
            return {}, {}
    return both[0], both[1]


def _plain(x: Any) -> Any:
    """A number without its NumPy type, an array as it is."""
    return x.item() if isinstance(x, np.generic | np.ndarray) and np.ndim(x) == 0 else x


def _alike(x: Any, y: Any) -> bool:
    from ..check.diagnosis import same_numbers

    return same_numbers(np.asarray(x), np.asarray(y))


def _rounded(x: Any) -> Any:
    """With nine decimals: an array, a number, or each of a tuple."""
    if isinstance(x, tuple):
        return tuple(map(_rounded, x))
    return np.round(x, 9) if getattr(np.asarray(x).dtype, "kind", "") == "f" else x


def _if_small(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments, arrays of many numbers by their shapes only."""
    total = sum(np.size(x) for x in given.values())
    return given if total <= FEW else {n: f"an array of shape {np.shape(x)}" for n, x in given.items()}


def _compares_exactly(answer: Callable[..., Any]) -> bool:
    """Whether its source compares with == or np.array_equal."""
    try:
        source = inspect.getsource(answer)
    except (OSError, TypeError):
        return True
    return "==" in source or "array_equal" in source


def _numbers(seen: dict[str, Any]) -> dict[str, np.ndarray]:
    """Results and gradients among a call's observations."""
    return {name: x for name, x in seen.items() if isinstance(x, np.ndarray)}


def _headline(first: Any) -> str:
    """One sentence on the sort of the first failure."""
    if first.endless:
        return "it does not come back."
    if _no_result(first) and not first.property.endswith("_of_nothing"):
        return "it raises an error."
    if "_backward returned " in first.message:
        return "a gradient is missing, or there is one too many."
    if "expected an array of numbers" in first.message or " returned None for " in first.message:
        return "wrong type."
    if first.property in ("shape_and_dtype", "gradient_shapes") or "wrong shape" in first.message:
        return "wrong shape."
    if first.stage == "extremes":
        return "right in ordinary cases, wrong in an extreme one."
    return "right shape, wrong values."


def _not_returned(op: Any, spec: Any) -> list[str]:
    """Outputs that a right answer leaves out: optional in `tinyattn.check`, required in a chapter."""
    from ..check.cases import CaseDrawer

    with _silenced():
        returned = op.outputs(**op.fit(spec.case(CaseDrawer.seeded(0))))
    return [name for name, x in zip(spec.outputs, returned, strict=True) if x is None]


def _no_result(first: Any) -> bool:
    """Whether the call raised, or did not return."""
    return first.endless or (" raised " in first.message and not first.expected)


def _unwritten(answer: Callable[..., Any], offered: Any, spec: Any, part: str) -> Grade | None:
    """The grade of an answer that is still the stub, or returns None; else None."""
    from ..check.cases import CaseDrawer
    from ..check.common import upstream
    from ..check.isolation import alarm
    from ..check.property import Violation
    from ..check.subject import Subject, TooLongError

    returned = []

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        returned.append(answer(*args, **kwargs))
        return returned[-1]

    name = f"{spec.function}_backward" if part == "backward" else spec.function
    op = Subject(SimpleNamespace(**vars(offered) | {name: watched}), spec)
    case = op.fit(spec.case(CaseDrawer.seeded(0)))
    try:
        with alarm(PATIENCE):
            op.gradients(case, *upstream(spec, case)) if part == "backward" else op.outputs(**case)
    except Violation as violation:
        if isinstance(violation.__cause__, NotImplementedError):
            return UNWRITTEN
    except (TooLongError, Exception):  # reported in full when the properties are tried
        pass
    if returned and all(x is None for x in returned):
        return Grade(WRONG, f"{RETURNED_NONE}. Is the `return` missing?")
    return None


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Discard what the answer prints and warns of in the block."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _given_to_backward(op: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The backward's arguments: all that is needed to do the example on paper."""
    from ..check.common import upstream

    try:
        return op.prepared(op.fit(case), upstream(op.spec, case))
    except Exception:  # the forward itself failed
        return case


def _described(x: Any) -> str:
    if callable(x):
        return f"the function `{getattr(x, '__name__', type(x).__name__)}`"
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}" if x.dtype.kind != "O" else "an array of objects"
    name = type(x).__name__
    return f"{reprlib.repr(x)} ({name})" if type(x).__module__ in ("builtins", "numpy") else f"a {name}"


def _shown(x: np.ndarray) -> str:
    return f"{float(x):.4g}" if x.ndim == 0 else np.array2string(x, precision=4)
