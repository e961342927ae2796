"""The command `tinyattn check`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..files import is_same, write_atomically
from .conventions import choices_of
from .isolation import CheckerFailedError
from .measure import catalogue, measure, summary, table
from .report import junit, page
from .runner import check_implementation
from .specs import SPECS, get_spec, properties_of
from .zoo import ZOO


def ours(name: str) -> str:
    """The place of the library's own implementation: its module, or MODULE:CLASS."""
    found = SPECS[name].ours()
    return getattr(found, "__name__", None) or f"{type(found).__module__}:{type(found).__name__}"


def run(options: argparse.Namespace) -> int:
    """-> exit code: 0 all hold, 1 something fails, 2 could not run. Raises ValueError for contradictory options."""
    try:
        return _run(options)
    except CheckerFailedError as error:
        print(f"tinyattn: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    asked = [name for name in ("list", "contract", "self", "zoo") if getattr(options, name)]
    if asked and options.target is not None:
        raise ValueError(f"--{asked[0]} checks nothing else: leave out {options.target}")
    if options.kind is not None:
        get_spec(options.kind)
    chosen = [options.kind] if options.kind else list(SPECS)
    if options.list:
        return _print(options, {name: _properties(name) for name in chosen}, catalogue(chosen))
    if options.contract is not None:
        if options.kind not in (None, options.contract):
            raise ValueError(f"--contract {options.contract} and --as {options.kind} ask for two kinds")
        spec = get_spec(options.contract)
        clauses = spec.contract()
        lines = [f"- {clause}" for clause in clauses]
        choices = choices_of(spec)
        if choices:
            lines += ["conventions: no failure unless --strict is given"] + [f"- {choice}" for choice in choices]
        return _print(options, clauses + choices, lines)
    if options.zoo:
        return _zoo(options, chosen)
    targets = {name: ours(name) for name in chosen} if options.self else _target(options)
    for path in (options.html, options.junit):
        if path is not None and not _can_be_written(path.resolve()):
            raise ValueError(f"{path} cannot be written: expected a file in a folder that is writable")
        if path is not None and any(is_same(path, read) for read in _places(options.target)):
            raise ValueError(f"{path} is what is checked: expected another file to write to")
    reports = []
    for name, target in targets.items():
        with tqdm(total=len(properties_of(SPECS[name])), desc=name, leave=False, file=sys.stderr, disable=None) as bar:
            reports.append(
                check_implementation(
                    target,
                    name,
                    examples=options.examples,
                    seed=options.seed,
                    time_limit=options.time_limit,
                    strict=options.strict or options.self,
                    progress=_advance(bar),
                )
            )
        if not options.json:
            print(reports[-1], end="\n\n" if options.self else "\n", flush=True)
    if options.json:
        found = [report.to_json() for report in reports]
        print(json.dumps(found if options.self else found[0], indent=1, default=_plain))
    for path, text in ((options.html, page), (options.junit, junit)):
        if path is not None:
            write_atomically(path.resolve(), text(reports).encode("utf-8", "replace"))
    return 2 if any(r.problem for r in reports) else 0 if all(reports) else 1


def _can_be_written(path: Path) -> bool:
    """Whether it is a regular file, or will be one in a folder that can be written to."""
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    return (path.is_file() or not path.exists()) and folder.is_dir() and os.access(folder, os.W_OK)


def _places(target: str | None) -> tuple[str, ...]:
    """The files that FILE or FILE:OBJECT may be."""
    return () if target is None else (target, target.rpartition(":")[0])


def _target(options: argparse.Namespace) -> dict[str, str]:
    if options.target is None or options.kind is None:
        raise ValueError(f"say what to check and as what: tinyattn check MODULE --as KIND, of {', '.join(SPECS)}")
    return {options.kind: options.target}


def _zoo(options: argparse.Namespace, specs: list[str]) -> int:
    if not any(name in ZOO for name in specs):
        raise ValueError(f"there is no zoo of {specs[0]}; known: {', '.join(ZOO)}")
    specs = [name for name in specs if name in ZOO]
    total = sum(len(ZOO[name].BUGS) for name in specs)
    with tqdm(total=total, unit="bug", leave=False, file=sys.stderr, disable=None) as bar:
        found = measure(specs, examples=options.examples, seed=options.seed, progress=_advance(bar))
    rows = summary(found)
    _print(options, {"summary": rows, "kinds": found}, table(found))
    wrong = any(r["survivors"] or r["accused without a bug"] or r["conventions accused"] for r in rows)
    return 1 if wrong else 0


def _advance(bar: Any) -> Any:
    return lambda _: bar.update()


def _properties(name: str) -> list[dict[str, str]]:
    return [
        {"name": p.name, "stage": p.stage, "held to": p.exactness, "statement": p.statement, "hint": p.hint}
        for p in properties_of(SPECS[name])
    ]


def _print(options: argparse.Namespace, data: Any, lines: list[str]) -> int:
    print(json.dumps(data, indent=1) if options.json else "\n".join(lines))
    return 0


def _plain(x: Any) -> Any:
    return sorted(x) if isinstance(x, set | frozenset) else str(x)
