"""Measure the checker: try every property of a spec on every bug of its zoo."""

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from .cases import copied, long_cases, seeded_cases
from .frameworks import subject_of
from .property import EMPTY_BATCHES, EXACTNESS, STAGES, Violation
from .runner import in_order, look_at
from .specs import SPECS, properties_of
from .subject import CannotRunError, Subject
from .trial import Trial, trial_of
from .zoo import ZOO

PATIENCE, LIMIT = 10.0, 600.0  # seconds for a case, and for all


def measure(
    specs: Iterable[str] = (), *, examples: int = 50, seed: int = 0, progress: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """-> {spec: {"bugs": {bug: {"convention": .., "killed by": [properties]}}, "sound": [properties]}}.

    "sound" lists the properties that fail without any bug: there should be none.
    """
    result: dict[str, Any] = {}
    for name in specs or ZOO:
        spec, module = SPECS[name], ZOO[name]

        def killers(bugs: frozenset[str], spec: Any = spec, module: Any = module) -> list[str]:
            op = Subject(module.make(bugs), spec)
            tried = (trial_of(op, spec, p, examples=examples, seed=seed, shrink=False) for p in properties_of(spec))
            return [trial.prop.name for trial in tried if trial.finding().outcome == "fails"]

        row: dict[str, Any] = {"sound": killers(frozenset()), "bugs": {}}
        for bug in module.BUGS:
            if progress is not None:
                progress(f"{name}: {bug.name}")
            row["bugs"][bug.name] = {"convention": bug.convention, "killed by": killers(frozenset([bug.name]))}
        result[name] = row
    return result


def soonest(implementation: Any, kind: str) -> dict[str, Any]:
    """The number of cases that `check_in_process` tries, property by property, until one fails, and that property.

    -> "cases", "property", "stage" and "noted". If none fails, "cases" is None, and "noted" has the report's remarks:
    other conventions, forms of calls that are not offered, notes.
    """
    op = subject_of(implementation, SPECS[kind])
    cases, until, notes = 0, time.monotonic() + LIMIT, []
    with contextlib.suppress(CannotRunError):
        look_at(op)
    for prop in in_order(op.spec):
        trial = Trial(op, prop, until, PATIENCE, strict=False)
        drawn = seeded_cases(op.spec.case, prop.at_most(50), 0, prop.leads, prop.wide)
        try:
            for case in drawn:
                trial(copied(case))
            for case in long_cases(op.spec.case) if prop.wide else ():
                trial.long(case)
        except Violation:
            if prop.leads != EMPTY_BATCHES:
                return {"cases": cases + trial.tries, "property": prop.name, "stage": prop.stage, "noted": []}
        cases += trial.tries
        notes += [trial.note] if trial.note else []
    forms = [form.says for form in (*op.forms, *op.backward_forms)]
    noted = [*forms, *(switch.says for switch in op.conventions), *notes]
    return {"cases": None, "property": "", "stage": "", "noted": noted}


def summary(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per spec: the numbers of bugs, of killed bugs, of bugs that only late stages kill, and the survivors."""
    rows = []
    for name, row in measured.items():
        bugs = {b: result["killed by"] for b, result in row["bugs"].items() if not result["convention"]}
        conventions = {b: result["killed by"] for b, result in row["bugs"].items() if result["convention"]}
        stages = {p.name: p.stage for p in properties_of(SPECS[name])}
        early = ("shapes", "oracle", "properties")
        late = [b for b, killers in bugs.items() if killers and not any(stages[k] in early for k in killers)]
        rows.append({
            "kind": name,
            "properties": len(stages),
            "bugs": len(bugs),
            "killed": sum(bool(k) for k in bugs.values()),
            "by gradients or extremes alone": len(late),
            "by one property alone": sum(len(k) == 1 for k in bugs.values()),
            "survivors": [b for b, k in bugs.items() if not k],
            "conventions passed": [b for b, k in conventions.items() if not k],
            "conventions accused": [b for b, k in conventions.items() if k],
            "accused without a bug": row["sound"],
        })  # fmt: skip
    return rows


def table(measured: dict[str, Any]) -> list[str]:
    rows = summary(measured)
    late, single = "by gradients or extremes alone", "by one property alone"
    columns = {"kind": "<22", "properties": ">11", "bugs": ">6", "killed": ">8", late: ">32", single: ">23"}
    header = {name: name for name in columns}
    lines = ["".join(format(r[name], width) for name, width in columns.items()) for r in (header, *rows)]
    bugs, killed = sum(r["bugs"] for r in rows), sum(r["killed"] for r in rows)
    lines.append(f"{killed} of {bugs} bugs are killed")
    for r in rows:
        lines += [f"  {r['kind']}: {b} survives" for b in r["survivors"]]
        lines += [f"  {r['kind']}: {b} is a convention and no bug; it passes" for b in r["conventions passed"]]
        lines += [f"  {r['kind']}: {b} is a convention, and ACCUSED" for b in r["conventions accused"]]
        lines += [f"  {r['kind']}: {p} ACCUSES an implementation that has no bug" for p in r["accused without a bug"]]
    return lines


def catalogue(specs: Iterable[str] = ()) -> list[str]:
    """Every property, by spec and stage: its statement and its exactness."""
    lines = ["stages:"] + [f"  {name:11} {text}" for name, text in STAGES.items()]
    lines += ["", "exactness:"] + [f"  {name:11} {text}" for name, text in EXACTNESS.items()]
    for name in specs or SPECS:
        spec = SPECS[name]
        lines += ["", f"{name}: {spec.says}"]
        lines += [f"  {p.stage:11} {p.exactness:11} {p.name}: {p.statement}" for p in properties_of(spec)]
    return lines
