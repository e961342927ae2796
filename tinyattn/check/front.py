"""The front door: hold an implementation, in hand or by its name, against everything that its kind demands."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from .diagnosis import diagnose
from .isolation import OUT_OF_TIME, in_child, load
from .kinds import Kind, named, properties_of
from .property import NOTHING, STAGES, Property
from .subject import CannotRunError, Subject
from .trial import Finding, Report, try_property


def conform(
    implementation: Any,
    kind: str,
    *,
    examples: int = 50,
    seed: int = 0,
    time_limit: float = 900.0,
    patience: float = 10.0,
    progress: Callable[[str], Any] | None = None,
) -> Report:
    """Hold `implementation` against everything that `kind` demands, in a child process.

    `implementation` is a module, an object with the kind's public names, one function, or the name of any of these:
    "package.module", "path/to/file.py", either with ":object". `kind` is one of `KINDS`. Each property is tried on
    `examples` cases drawn by hypothesis from `seed`; `time_limit` seconds are for all of it, `patience` for one case.
    A crash and a call that does not return are findings; an import that fails, or `time_limit` running out, is told in
    the report's `problem`, and accuses nobody.

    Raises ValueError for an unknown kind or numbers out of range, ImportError where hypothesis is missing.
    """
    known = named(kind)
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
    for what, value in in_child(_work, implementation, kind, options, time_limit, limit=time_limit):
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
            found.append(_ended(known, trying, value))
        elif value and not found:
            extra["problem"] = extra["problem"] or f"{value} (it was being imported)"
    left = len(properties_of(known)) - len(found) if found else 0
    return Report(kind, title, tuple(found), examples=examples, seed=seed, not_run=left, **extra)


def hold(
    implementation: Any,
    kind: str | Kind,
    *,
    stages: Iterable[str] = tuple(STAGES),
    examples: int = 50,
    seed: int = 0,
    time_limit: float = 60.0,
    patience: float = 10.0,
) -> Report:
    """`conform` in this process: for code that the caller has in hand and trusts not to crash.

    Nothing is forked, so it works for functions of a notebook, on every system. `stages` leaves the others out.
    Raises CannotRunError where it cannot be called as its kind, ImportError where hypothesis is missing.
    """
    known = named(kind) if isinstance(kind, str) else kind
    op = Subject(implementation, known)
    properties = [prop for prop in properties_of(known) if prop.stage in set(stages)]
    properties.sort(key=lambda prop: prop.leads == NOTHING)  # an empty batch last: it is nobody's first question
    found: dict[str, list[Any]] = {"finding": [], "diagnosis": [None], "trying": []}
    options = {"examples": examples, "seed": seed, "patience": patience}
    _try_all(lambda what, value: found[what].append(value), op, known, properties, options, time_limit)
    findings, diagnosis = tuple(found["finding"]), found["diagnosis"][-1]
    title = _title(implementation)
    left = len(properties) - len(findings)
    return Report(known.name, title, findings, tuple(op.lacks), examples, seed, diagnosis, left)


def _work(send: Callable[[str, Any], None], target: Any, name: str, options: dict[str, Any], limit: float) -> None:
    """What the child does: import, try, diagnose."""
    import hypothesis  # noqa: F401  before somebody's file of that name can come in between

    kind = named(name)
    try:
        op = Subject(load(target) if isinstance(target, str) else target, kind)
        send("lacks", tuple(op.lacks))
        _try_all(send, op, kind, properties_of(kind), options, limit)
    except CannotRunError as error:
        send("problem", str(error))


def _try_all(
    send: Callable[[str, Any], None],
    op: Subject,
    kind: Kind,
    properties: list[Property],
    options: dict[str, Any],
    limit: float,
) -> None:
    """Send a "finding" for each property, before it that it is being tried, and the "diagnosis" if any failed."""
    failed: list[str] = []
    endless = 0
    for prop in properties:
        send("trying", prop.name)
        # the first failure is shrunk to its smallest counterexample; of the others it is enough to know
        found = try_property(op, kind, prop, shrink=not failed, budget=0.8 * limit / len(properties), **options)
        send("finding", found)
        failed += [found.property] if found.outcome == "fails" else []
        endless += found.endless
        if endless == 2:
            return  # nobody waits for the others
    if failed:
        with contextlib.suppress(Exception):  # no name is better than no report
            send("diagnosis", diagnose(op, kind, failed, limit=min(20.0, limit / 4)))


def _ended(kind: Kind, name: str, why: str) -> Finding:
    """The finding of a property in the middle of which the child process ended."""
    prop = next(p for p in properties_of(kind) if p.name == name)
    return Finding(prop.name, prop.stage, prop.statement, prop.exactness, "fails", message=why)


def _title(implementation: Any) -> str:
    return str(getattr(implementation, "__name__", None) or type(implementation).__name__)
