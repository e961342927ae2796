"""Run all properties of a spec on an implementation: in a child process, or in this one."""

import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from .binding import name_of
from .causes import find_cause, misplaced, patched, seems_right
from .conventions import find_conventions
from .diagnosis import Diagnosis
from .forms import find_backward_forms, find_forms, find_missing_gradients
from .frameworks import subject_of
from .isolation import OUT_OF_TIME, WROTE, in_child, load, sendable
from .options import SOON, Options
from .property import EMPTY_BATCHES, STAGES, Property
from .report import LEFT_OUT, Report, by_gravity
from .specs import Spec, get_spec, properties_of, refuse_unknown_properties
from .subject import CannotRunError, Subject
from .trial import Finding, Trial, trial_of
from .zoo import ZOO


def check_implementation(
    implementation: Any, spec: str, *, progress: Callable[[str], Any] | None = None, **options: Any
) -> Report:
    """Try every property of `spec` on `implementation`, in a child process.

    `implementation` is a module, an object with the spec's public names, one function, or the name of any of these:
    "package.module" or "path/to/file.py"; either may be followed by ":object". Functions of torch and JAX are called
    with their tensors and arrays. `spec` is one of `SPECS`, and `options` are the fields of `Options`
    (`tinyattn.check.options`). hypothesis, where it is installed, shrinks the case that is shown. `progress` is called
    with the name of each property.

    A crash and an endless call are failures. A failed import, a function that raises on every call, and running out of
    `time_limit` are the report's `problem` and no failure. Outside Linux the child process is spawned rather than
    forked: it imports everything again, so an object that it cannot import is a problem, too, and a script must call
    this function under `if __name__ == "__main__":`.

    Forms of a call that the implementation does not support (no batch axis, b=None, ...) are skipped and reported.
    Other conventions are adopted and reported. An exact property that holds only up to rounding gets a note. With
    `strict` all of these are failures.

    Raises ValueError for an unknown spec, property or dtype, or numbers out of range; TypeError for another option.
    """
    how = Options(**options)
    known = get_spec(spec, how.dtype)
    refuse_unknown_properties(how.skip, [spec])
    title = implementation if isinstance(implementation, str) else name_of(implementation)
    findings: dict[str, Finding] = {}
    extra: dict[str, Any] = {"problem": "", "again": "", "examples": how.examples, "seed": how.seed}
    if isinstance(implementation, str):
        extra["again"] = _repeat_command(implementation, spec, how)
    total = len(properties_of(known))
    trying = ""
    try:
        sent = sendable(implementation)
    except CannotRunError as error:
        return Report(spec, title, (), **extra | {"problem": str(error)})
    for what, value in _validated(in_child(_check_in_child, sent, spec, how, limit=how.time_limit)):
        if what == "trying":
            if progress is not None and value != trying:  # the first one is sent twice, around the preparations
                progress(value)
            trying = value
        elif what == "finding":
            findings[value.property] = value
            trying = ""
        elif what == "total":
            total = value
        elif what != "ended":
            extra[what] = value
        elif value.startswith(OUT_OF_TIME):
            during = f"during {trying}" if trying else f"after {len(findings)} properties"
            if not any(finding.outcome == "fails" for finding in findings.values()):
                extra["problem"] = f"{value} ({during if trying or findings else 'it was being imported'})"
        elif value and trying:  # the child process ended during this property
            prop = next(p for p in properties_of(known) if p.name == trying)
            findings[trying] = Finding(trying, prop.stage, prop.statement, prop.exactness, "fails", message=value)
        elif value and not findings:
            extra["problem"] = extra["problem"] or f"{value} (it was being imported)"
    return _report(spec, title, findings, total if findings else 0, extra)


# the messages that a child sends, and their types
SENT: dict[Any, Any] = {
    **dict.fromkeys(("trying", "place", "problem", "ended"), str),
    **dict.fromkeys(("lacks", "not_offered", "conventions", "unused"), tuple),
    "finding": Finding, "total": int, "case": dict, "diagnosis": Diagnosis | None,
}  # fmt: skip


def _validated(sent: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """Pass on the child's messages. Stop at a malformed one, since the code under test could write into the pipe."""
    for what, value in sent:
        if not isinstance(what, str) or what not in SENT or not isinstance(value, SENT[what]):
            yield "ended", WROTE
            return
        yield what, value


def check_in_process(
    implementation: Any, spec: str | Spec, *, stages: Iterable[str] = tuple(STAGES), **options: Any
) -> Report:
    """`check_implementation` in this process, for code that is trusted not to crash.

    Nothing is forked, so it works for functions of a notebook, on every system. Only the properties of `stages` are
    tried, for 60 seconds unless a `time_limit` is passed. The cause of a failure is looked for when the report's
    `diagnosis` is first read, or shown.
    Raises CannotRunError if every call raises.
    """
    how = Options(**{"time_limit": 60.0} | options)
    known = get_spec(spec, how.dtype) if isinstance(spec, str) else spec
    op = subject_of(implementation, known, how.patience)
    extra: dict[str, Any] = {"examples": how.examples, "seed": how.seed}
    findings: dict[str, Finding] = {}

    def keep(what: str, value: Any) -> None:
        if what == "finding":
            findings[value.property] = value
        elif what not in ("trying", "total"):
            extra[what] = value

    _prepare(keep, op, how)
    properties = [prop for prop in in_order(op.spec) if prop.stage in set(stages)]
    extra["last"] = _try_all(keep, op, properties, how)
    return _report(known.name, name_of(implementation), findings, len(properties), extra)


def in_order(spec: Spec) -> list[Property]:
    """The properties by stage; those of empty batches come last, since such batches are rare."""
    return sorted(properties_of(spec), key=lambda prop: prop.leads == EMPTY_BATCHES)


def _report(kind: str, title: str, findings: dict[str, Finding], total: int, extra: dict[str, Any]) -> Report:
    """The report of these findings, out of `total` properties; a check that tried none has a problem."""
    if findings and not extra.get("problem") and all(finding.outcome == "skipped" for finding in findings.values()):
        extra["problem"] = f"no property was tried: {next(iter(findings.values())).message}"
    return Report(kind, title, tuple(findings.values()), not_run=total - len(findings), **extra)


def _check_in_child(send: Callable[[str, Any], None], target: Any, name: str, how: Options) -> None:
    """The child's work: import, detect unsupported calls and conventions, try, diagnose."""

    def sent(what: str, value: Any) -> None:
        send(what, value() if what == "diagnosis" else value)

    _find_hypothesis()
    spec = get_spec(name, how.dtype)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # the threads of the parent did not survive the fork
    try:
        implementation = load(target) if isinstance(target, str) else target
        send("trying", properties_of(spec)[0].name)
        op = subject_of(implementation, spec, how.patience)
        _prepare(send, op, how)
        _try_all(sent, op, properties_of(op.spec), how)
    except CannotRunError as error:
        send("problem", str(error))
    except Exception:
        if not (cause := patched()):
            raise
        send("problem", f"the checker failed. {cause}")


def _find_hypothesis() -> None:
    """Find hypothesis before the implementation can shadow it, but import it only when a failure is shrunk: this saves
    a tenth of the time of a check of right code."""
    os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")  # trio's plugin takes half of the import's time
    module_spec = None if "hypothesis" in sys.modules else importlib.util.find_spec("hypothesis")
    if module_spec is not None and module_spec.loader is not None:
        module_spec.loader = importlib.util.LazyLoader(module_spec.loader)
        sys.modules["hypothesis"] = module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)


def _prepare(send: Callable[[str, Any], None], op: Subject, how: Options) -> None:
    """Send what `op` lacks or does not support, and its conventions. Raises CannotRunError if every call raises."""
    send("lacks", tuple(op.lacks))
    send("unused", tuple(op.unused))
    if how.strict:
        return
    look_at(op, how.time_limit / 10, how.patience)
    not_derived = (f"the gradient of {name}" for name in op.not_derived)
    send("not_offered", (*(form.says for form in (*op.forms, *op.backward_forms)), *not_derived))
    send("conventions", tuple(switch.says for switch in op.conventions))


def look_at(op: Subject, limit: float = 10.0, patience: float = 10.0) -> None:
    """Detect the calls that `op` does not support and the conventions that it follows, and record them in `op`.

    Raises CannotRunError if every call raises, unless only axes are exchanged.
    """
    find_conventions(op, patience, first=True)
    try:
        op.forms = find_forms(op, limit, patience)
    except CannotRunError:
        if not misplaced(op, patience):
            raise
    if op.forms and op.spec.name not in ZOO and not seems_right(op) and misplaced(op, patience):
        op.forms = []  # axes are wrong in every call: show that, and leave no call out
    op.not_derived = find_missing_gradients(op, patience)
    find_conventions(op, patience, first=False)
    op.backward_forms = find_backward_forms(op, limit, patience)


def _try_all(send: Callable[[str, Any], None], op: Subject, properties: list[Property], how: Options) -> dict[str, Any]:
    """Send "trying" before and a "finding" after each property. Of the gravest failure, then send the smallest "case",
    and as its "diagnosis" a function that looks for the cause.

    -> the arguments of the last call before that failure; {} if nothing fails or two properties are endless. They are
    not sent, since they may not be picklable.
    """
    failed: list[tuple[Trial, Finding]] = []
    budget = 0.6 * how.time_limit / max(len(properties), 1)
    send("total", len(properties))
    for prop in properties:
        send("trying", prop.name)
        if option := how.left_out_by(prop):
            reason = f"{LEFT_OUT} by --{option}"
            send("finding", Finding(prop.name, prop.stage, prop.statement, prop.exactness, "skipped", message=reason))
            continue
        trial = trial_of(op, op.spec, prop, shrink=False, budget=budget, **how.of_trial)
        finding = trial.finding()
        send("finding", finding)
        if finding.outcome == "fails":
            failed.append((trial, finding))
        if sum(finding.endless for _, finding in failed) == 2:
            return {}  # the rest would take as long
    if not failed:
        return {}
    first, finding = min(failed, key=lambda pair: by_gravity(pair[1]))
    if not finding.endless:
        limit = SOON if how.brief else 0.2 * how.time_limit
        shrunk = trial_of(op, op.spec, first.prop, budget=limit, **how.of_trial)
        if shrunk.failed:
            first, finding = shrunk, shrunk.finding()
        send("finding", finding)
    send("place", op.place(backward=first.prop.stage == "gradients"))
    send("case", dict(first.failure().case))
    names = [finding.property for _, finding in failed]
    limit, patience = (SOON, SOON) if how.brief else (min(20.0, how.time_limit / 4), how.patience)
    send("diagnosis", partial(cause_of, op, names, limit, first, patience, how.strict))
    return first.failure().last


def cause_of(*failure: Any) -> Diagnosis | None:
    """`find_cause`; None if it raises."""
    with contextlib.suppress(Exception):  # a report without a diagnosis is better than none
        return find_cause(*failure)
    return None


def _repeat_command(target: str, spec: str, how: Options) -> str:
    command = ["tinyattn", "check", target, "--as", spec]
    command += [part for name in ("seed", "examples") for part in (f"--{name}", str(getattr(how, name)))]
    command += ["--time-limit", f"{how.time_limit:g}"] if how.time_limit != Options.time_limit else []
    command += [part for name in how.skip for part in ("--skip", name)]
    command += ["--dtype", how.dtype] if how.dtype else []
    return shlex.join(command + ["--fast"] * how.fast + ["--strict"] * how.strict)
