"""Run all properties of a spec on an implementation: in a child process, or in this one."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from .diagnosis import diagnose
from .isolation import OUT_OF_TIME, in_child, load
from .property import EMPTY_BATCHES, STAGES, Property
from .specs import Spec, get_spec, properties_of
from .subject import CannotRunError, Subject
from .trial import Finding, Report, try_property


def check_implementation(
    implementation: Any,
    spec: str,
    *,
    examples: int = 50,
    seed: int = 0,
    time_limit: float = 900.0,
    patience: float = 10.0,
    progress: Callable[[str], Any] | None = None,
) -> Report:
    """Try every property of `spec` on `implementation`, in a child process.

    `implementation` is a module, an object with the spec's public names, one function, or the name of any of these:
    "package.module", "path/to/file.py", either with ":object". `spec` is one of `SPECS`. Each property is tried on
    `examples` cases drawn by hypothesis from `seed`; `time_limit` seconds are for all properties, `patience` for one
    case. A crash and an endless call are failures; an import that fails, or running out of `time_limit`, is the
    report's `problem` and no failure.

    Raises ValueError for an unknown spec or numbers out of range, ImportError where hypothesis is missing.
    """
    known = get_spec(spec)
    for name, value in (("examples", examples), ("time_limit", time_limit), ("patience", patience)):
        if not 0 < value < 1e7:
            raise ValueError(f"{name} is {value}, expected more than 0, and less than ten million")
    if importlib.util.find_spec("hypothesis") is None:
        raise ImportError("drawing cases needs hypothesis: pip install 'tinyattn[check]'")
    title = implementation if isinstance(implementation, str) else _title(implementation)
    options = {"examples": examples, "seed": seed, "patience": patience}
    found: list[Finding] = []
    extra: dict[str, Any] = {"lacks": (), "diagnosis": None, "problem": ""}
    trying = ""
    for what, value in in_child(_check_in_child, implementation, spec, options, time_limit, limit=time_limit):
        if what == "trying":
            trying = value
            if progress is not None:
                progress(value)
        elif what == "finding":
            found.append(value)
            trying = ""
        elif what != "ended":
            extra[what] = value
        elif value.startswith(OUT_OF_TIME):
            extra["problem"] = f"{value} (during {trying})" if trying or found else f"{value} (it was being imported)"
        elif value and trying:
            found.append(_crashed(known, trying, value))
        elif value and not found:
            extra["problem"] = extra["problem"] or f"{value} (it was being imported)"
    left = len(properties_of(known)) - len(found) if found else 0
    return Report(spec, title, tuple(found), examples=examples, seed=seed, not_run=left, **extra)


def check_in_process(
    implementation: Any,
    spec: str | Spec,
    *,
    stages: Iterable[str] = tuple(STAGES),
    examples: int = 50,
    seed: int = 0,
    time_limit: float = 60.0,
    patience: float = 10.0,
) -> Report:
    """`check_implementation` in this process, for code that is trusted not to crash.

    Nothing is forked, so it works for functions of a notebook, on every system. Only `stages` are tried.
    Raises CannotRunError if it cannot be called as the spec says, ImportError where hypothesis is missing.
    """
    known = get_spec(spec) if isinstance(spec, str) else spec
    op = Subject(implementation, known)
    properties = [prop for prop in properties_of(known) if prop.stage in set(stages)]
    properties.sort(key=lambda prop: prop.leads == EMPTY_BATCHES)  # the empty batch last: no reader's first question
    found: dict[str, list[Any]] = {"finding": [], "diagnosis": [None], "trying": []}
    options = {"examples": examples, "seed": seed, "patience": patience}
    _try_all(lambda what, value: found[what].append(value), op, known, properties, options, time_limit)
    findings, diagnosis = tuple(found["finding"]), found["diagnosis"][-1]
    title = _title(implementation)
    left = len(properties) - len(findings)
    return Report(known.name, title, findings, tuple(op.lacks), examples, seed, diagnosis, left)


def _check_in_child(
    send: Callable[[str, Any], None], target: Any, name: str, options: dict[str, Any], limit: float
) -> None:
    """Runs in the child process: import, try, diagnose."""
    import hypothesis  # noqa: F401  before the implementation can shadow the module

    spec = get_spec(name)
    try:
        op = Subject(load(target) if isinstance(target, str) else target, spec)
        send("lacks", tuple(op.lacks))
        _try_all(send, op, spec, properties_of(spec), options, limit)
    except CannotRunError as error:
        send("problem", str(error))


def _try_all(
    send: Callable[[str, Any], None],
    op: Subject,
    spec: Spec,
    properties: list[Property],
    options: dict[str, Any],
    limit: float,
) -> None:
    """Send "trying" before and a "finding" after each property, and the "diagnosis" if any failed."""
    failed: list[str] = []
    endless = 0
    for prop in properties:
        send("trying", prop.name)
        # only the first failure is shrunk to its smallest counterexample
        found = try_property(op, spec, prop, shrink=not failed, budget=0.8 * limit / len(properties), **options)
        send("finding", found)
        failed += [found.property] if found.outcome == "fails" else []
        endless += found.endless
        if endless == 2:
            return  # the others would take as long
    if failed:
        with contextlib.suppress(Exception):  # a report without a diagnosis is better than none
            send("diagnosis", diagnose(op, spec, failed, limit=min(20.0, limit / 4)))


def _crashed(spec: Spec, name: str, why: str) -> Finding:
    """The finding of the property during which the child process ended."""
    prop = next(p for p in properties_of(spec) if p.name == name)
    return Finding(prop.name, prop.stage, prop.statement, prop.exactness, "fails", message=why)


def _title(implementation: Any) -> str:
    return str(getattr(implementation, "__name__", None) or type(implementation).__name__)
