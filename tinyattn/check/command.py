"""The command `tinyattn check`."""

import argparse
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from ..files import is_same, write_atomically
from ..terminal import progress_bar
from .conventions import choices_of
from .isolation import CheckerFailedError, split
from .measure import catalogue, measure, summary, table
from .options import OF_TABLES
from .report import annotation, junit, page
from .runner import check_implementation
from .specs import SPECS, get_spec, properties_of, refuse_unknown_properties
from .targets import TABLE, Target, find_table, read_table
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
    if others and options.targets:
        raise ValueError(f"--{others[0]} takes no target: leave out {options.targets[0]}")
    if options.kind is not None:
        get_spec(options.kind)
    chosen = [options.kind] if options.kind else list(SPECS)
    if options.list:
        return _list(options, chosen)
    if options.contract is not None:
        return _contract(options)
    if options.zoo:
        return _zoo(options, chosen)
    library = (Target(ours(name), ours(name), name, {"strict": True}) for name in chosen)
    return _check(options, list(library) if options.self else _targets(options))


def _list(options: argparse.Namespace, chosen: list[str]) -> int:
    if options.kind:
        shown = [
            {"name": p.name, "stage": p.stage, "held to": p.exactness, "statement": p.statement, "hint": p.hint}
            for p in properties_of(SPECS[options.kind])
        ]
        return _print(options, {options.kind: shown}, catalogue(chosen))
    rows = {name: {"signature": signature(name), "says": SPECS[name].says} for name in chosen}
    return _print(options, rows, [f"{name:28}{row['signature']}: {row['says']}" for name, row in rows.items()])


def _contract(options: argparse.Namespace) -> int:
    if options.kind not in (None, options.contract):
        raise ValueError(f"--contract {options.contract} and --as {options.kind} name two kinds")
    spec = get_spec(options.contract)
    clauses, choices = spec.contract(), choices_of(spec)
    lines = [f"- {clause}" for clause in clauses]
    lines += ["conventions: no failure unless --strict is given"] * bool(choices)
    return _print(options, clauses + choices, lines + [f"- {choice}" for choice in choices])


def _check(options: argparse.Namespace, targets: list[Target]) -> int:
    passed = {name: getattr(options, name) for name in OF_TABLES if name not in ("skip", "xfail")}
    passed = {name: value for name, value in passed.items() if value is not None and value is not False}
    refuse_unknown_properties(options.skip, [target.kind for target in targets])
    read = [part for target in targets if not options.self for part in (target.place, split(target.place)[0])]
    pages = [(path, text) for path, text in ((options.html, page), (options.junit, junit)) if path is not None]
    for path, _ in pages:
        if not _can_be_written(path.resolve()):
            raise ValueError(f"{path} cannot be written: expected a file in a folder that is writable")
        if any(is_same(path, target) for target in read):
            raise ValueError(f"{path} is the checked file: expected another file to write to")
    reports = []
    one = bool(options.targets) and len(targets) == 1
    for target in targets:
        known = [prop.name for prop in properties_of(SPECS[target.kind])]
        skipped = dict.fromkeys((*target.options.get("skip", ()), *options.skip, *target.xfail))
        how = target.options | passed | {"skip": [name for name in skipped if name in known]}
        with progress_bar(total=len(known), desc=target.kind) as bar:
            reports.append(check_implementation(target.place, target.kind, **how, progress=_advance(bar)))
        if not options.json:
            print(reports[-1], end="\n" if one else "\n\n", flush=True)
        if options.github and (line := annotation(reports[-1])):
            print(line, file=sys.stderr, flush=True)  # a workflow reads both streams
    if options.json:
        data = [report.to_json() for report in reports]
        print(json.dumps(data[0] if one else data, indent=1, default=_plain))
    for path, text in pages:
        write_atomically(path.resolve(), text(reports).encode("utf-8", "replace"))
    return 2 if any(r.problem for r in reports) else 0 if all(reports) else 1


def _targets(options: argparse.Namespace) -> list[Target]:
    """The targets of the command line, or else those of the nearest table."""
    if bool(options.targets) != bool(options.kind):
        usage = "MODULE --as KIND, or a table [tool.tinyattn.check] in pyproject.toml"
        raise ValueError(f"say what to check, and its kind: tinyattn check {usage}; kinds: {', '.join(SPECS)}")
    if options.targets:
        return [Target(name, name, options.kind) for name in dict.fromkeys(options.targets)]
    path = find_table(Path.cwd())
    if path is None:
        raise ValueError(
            f"there is no table {TABLE} in a pyproject.toml from {Path.cwd()} up; "
            "say what to check, and its kind: tinyattn check MODULE --as KIND"
        )
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # for modules
    return read_table(path)


def signature(kind: str) -> str:
    """The function of a kind, with its arguments and their defaults."""
    spec = SPECS[kind]
    parameters = inspect.signature(getattr(spec.ours(), spec.function)).parameters.values()
    bare = [p.replace(annotation=p.empty) for p in parameters]
    return f"{spec.function}{inspect.Signature(bare)}"


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
    with progress_bar(total=total, unit="bug") as bar:
        how = {name: getattr(options, name) for name in ("examples", "seed") if getattr(options, name) is not None}
        measured = measure(specs, **how, progress=_advance(bar))
    rows = summary(measured)
    _print(options, {"summary": rows, "kinds": measured}, table(measured))
    return int(any(r["survivors"] or r["accused without a bug"] or r["conventions accused"] for r in rows))


def _advance(bar: Any) -> Any:
    return lambda _: bar.update()


def _print(options: argparse.Namespace, data: Any, lines: list[str]) -> int:
    print(json.dumps(data, indent=1) if options.json else "\n".join(lines))
    return 0


def _plain(x: Any) -> Any:
    return sorted(x) if isinstance(x, set | frozenset) else str(x)
