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
    """The place of the library's implementation: its module, or MODULE:CLASS."""
    home = SPECS[name].ours()
    return getattr(home, "__name__", None) or f"{type(home).__module__}:{type(home).__name__}"


def run(options: argparse.Namespace) -> int:
    """-> exit code: 0 all properties hold, 1 one fails, 2 not run. Raises ValueError for contradictory options."""
    try:
        return _run(options)
    except CheckerFailedError as error:
        print(f"tinyattn: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    others = [name for name in ("list", "contract", "self", "zoo") if getattr(options, name)]
    if others and options.target is not None:
        raise ValueError(f"--{others[0]} takes no target: leave out {options.target}")
    if options.kind is not None:
        get_spec(options.kind)
    chosen = [options.kind] if options.kind else list(SPECS)
    if options.list:
        return _print(options, {name: _properties(name) for name in chosen}, catalogue(chosen))
    if options.contract is not None:
        if options.kind not in (None, options.contract):
            raise ValueError(f"--contract {options.contract} and --as {options.kind} ask for two kinds")
        spec = get_spec(options.contract)
        clauses, choices = spec.contract(), choices_of(spec)
        lines = [f"- {clause}" for clause in clauses]
        lines += ["conventions: no failure unless --strict is given"] * bool(choices)
        return _print(options, clauses + choices, lines + [f"- {choice}" for choice in choices])
    if options.zoo:
        return _zoo(options, chosen)
    if not options.self and (options.target is None or options.kind is None):
        raise ValueError(f"say what to check and as what: tinyattn check MODULE --as KIND; kinds: {', '.join(SPECS)}")
    targets = {name: ours(name) for name in chosen} if options.self else {options.kind: options.target}
    read = [] if options.target is None else [options.target, options.target.rpartition(":")[0]]  # FILE:OBJECT
    pages = [(path, text) for path, text in ((options.html, page), (options.junit, junit)) if path is not None]
    for path, _ in pages:
        if not _can_be_written(path.resolve()):
            raise ValueError(f"{path} cannot be written: expected a file in a folder that is writable")
        if any(is_same(path, target) for target in read):
            raise ValueError(f"{path} is the checked file: expected another file to write to")
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
        data = [report.to_json() for report in reports]
        print(json.dumps(data if options.self else data[0], indent=1, default=_plain))
    for path, text in pages:
        write_atomically(path.resolve(), text(reports).encode("utf-8", "replace"))
    return 2 if any(r.problem for r in reports) else 0 if all(reports) else 1


def _can_be_written(path: Path) -> bool:
    """Whether the path is a regular file, or a new one in a folder that can be written to."""
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    return (path.is_file() or not path.exists()) and folder.is_dir() and os.access(folder, os.W_OK)


def _zoo(options: argparse.Namespace, chosen: list[str]) -> int:
    specs = [name for name in chosen if name in ZOO]
    if not specs:
        raise ValueError(f"{chosen[0]} has no zoo; known: {', '.join(ZOO)}")
    total = sum(len(ZOO[name].BUGS) for name in specs)
    with tqdm(total=total, unit="bug", leave=False, file=sys.stderr, disable=None) as bar:
        measured = measure(specs, examples=options.examples, seed=options.seed, progress=_advance(bar))
    rows = summary(measured)
    _print(options, {"summary": rows, "kinds": measured}, table(measured))
    return int(any(r["survivors"] or r["accused without a bug"] or r["conventions accused"] for r in rows))


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
