"""Does the suite notice when one thing in an op's source is changed? Every change by rule, one at a time.

    python benchmarks/mutants.py                 all files of tinyattn/ops; what is known from earlier runs is kept
    python benchmarks/mutants.py gelu shapes     these ops, or these files
    python benchmarks/mutants.py --list gelu     their mutants, and nothing is run

A mutant (benchmarks/mutation.py has the rules) is tried on what reaches the lines that it changes: the properties of
its op's spec, on seeded cases, then those of others and tests. The first that fails has killed it. What survives is
equivalent, and benchmarks/mutants_equivalent.toml says why, or the suite has a hole, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import pytest
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import tinyattn
from benchmarks.machine import RESULTS, ROOT, describe_code, write_pages, write_result
from benchmarks.mutation import Mutant, become, mutants_of
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.property import Property
from tinyattn.check.specs import SPECS, Spec, properties_of
from tinyattn.check.subject import MissingError, Subject
from tinyattn.files import write_atomically
from tinyattn.ops import shapes

REACH = ROOT / "build" / "mutants_reach.json"
RESULT, PAGE = RESULTS / "mutants.json", RESULTS / "mutants.md"
EQUIVALENT = Path(__file__).parent / "mutants_equivalent.toml"
OPS = Path(tinyattn.__file__).parent / "ops"
TESTS = ("tests/ops", "tests/layers", "tests/test_devices.py", "tests/models/test_network.py")
SEEDS = 15  # cases a property, as many as the default test run draws
BUDGET = 30.0  # seconds of checks, as they take on the library while it is traced, that a mutant is tried on
PATIENCE = 5.0  # seconds that a check may take beyond ten times as long as on the library
MEMORY = 4 << 30  # bytes that a mutant may ask for


@dataclass
class Check:
    """Something that fails or does not: a property on seeded cases, or a test. `reach` is filled by a first run."""

    name: str
    fails: Callable[[], bool] = field(repr=False)
    sources: tuple[Path, ...]  # the files it is written in
    seconds: float = 0.0
    reach: dict[str, set[int]] = field(default_factory=dict, repr=False)  # file -> lines that run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help="functions, forward and backward, or files without .py")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    every = {name_of(path): mutants_of(path.read_text(), str(path)) for path in sorted(OPS.rglob("*.py"))}
    chosen = [m for name in every for m in every[name] if asked(m, options.ops)]
    if not chosen:
        parser.error(f"no mutant of {', '.join(options.ops)}")
    if options.list:
        print("\n".join(m.name for m in chosen))
        return
    reasons = read_equivalent(EQUIVALENT, {key(m) for mutants in every.values() for m in mutants})
    result = json.loads(RESULT.read_text()) if RESULT.exists() and not options.fresh else {"files": {}}
    found = still_known(result, every, reasons)
    to_do = [m for m in chosen if key(m) not in found]

    def save() -> None:
        how = {"machine": describe_code("tinyattn", "tests"), "seeds": SEEDS, "budget": BUDGET}
        known = {**how, "files": by_file(every, found)}
        write_result(RESULT, known)

    if to_do:
        with_checks(partial(run, to_do, found, options.jobs, save))
    save()
    write_pages(__file__, pages())
    result = json.loads(RESULT.read_text())
    print(page(result, reasons))
    sys.exit(1 if any(row["survive"] or row["refuted"] for row in rows_of(result, reasons)) else 0)


def asked(mutant: Mutant, names: list[str]) -> bool:
    return not names or Path(mutant.file).stem in names or op_of(mutant) in names


def key(mutant: Mutant) -> str:
    return f"{name_of(mutant.file)}: {mutant.name}"


def name_of(file: str | Path) -> str:
    """A file of the ops as the results name it: gelu.py, positions/rotary.py."""
    path = Path(file)
    return path.relative_to(OPS).as_posix() if path.is_relative_to(OPS) else path.name


def module_of(file: str | Path) -> ModuleType:
    parts = Path(file).relative_to(OPS).with_suffix("").parts
    return importlib.import_module(".".join(["tinyattn.ops", *(part for part in parts if part != "__init__")]))


# --- what may notice ----------------------------------------------------------------------------------------


def spec_checks() -> Iterator[Check]:
    for spec in SPECS.values():
        op = Subject(spec.ours(), spec)
        for prop in properties_of(spec):
            sources = tuple(Path(f.__code__.co_filename) for f in (spec.case, prop.holds))
            yield Check(f"spec {spec.name}: {prop.name}", partial(property_fails, op, spec, prop), sources)


def property_fails(op: Subject, spec: Spec, prop: Property) -> bool:
    for seed in range(prop.at_most(SEEDS)):
        try:
            prop.holds(op, **op.fit(spec.case(CaseDrawer.seeded(seed, prop.leads, prop.wide))))
        except MissingError:
            return False
        except Exception:
            return True
    return False


def test_check(item: pytest.Item) -> Check:
    def fails() -> bool:
        before = item.session.testsfailed
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return item.session.testsfailed > before

    return Check(item.nodeid, fails, (item.path,))


def with_checks(use: Callable[[list[Check]], None]) -> None:
    """Call `use` with all checks, in a process that has imported and collected everything: it can be forked."""
    problems: list[SystemExit] = []

    class Collected:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            warnings.simplefilter("error")
            try:
                with threadpool_limits(1):
                    use([*spec_checks(), *map(test_check, session.items)])
            except SystemExit as problem:  # pytest would go on
                problems.append(problem)
            return True

    options = ["-q", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "not slow"]
    if pytest.main([*options, "--rootdir", str(ROOT), *(str(ROOT / t) for t in TESTS)], [Collected()]):
        problems.append(SystemExit("the tests cannot be collected"))
    for problem in problems:
        raise problem


def measured(checks: list[Check], jobs: int) -> list[Check]:
    """Run every check on the library as it is, and note which lines of the ops it reaches and how long it takes.

    What is known of checks and of a library that are as they were is read from the file REACH.
    """
    library = _hash([path for path in OPS.parent.rglob("*.py") if "check" not in path.parts])
    known = json.loads(REACH.read_text()) if REACH.exists() else {}
    names = {check.name: f"{check.name} {library} {_hash(check.sources)}" for check in checks}
    known = {name: known[name] for name in names.values() if name in known}
    new = [check for check in checks if names[check.name] not in known]
    rows = each_in_a_child([partial(reached, check) for check in new], jobs, "check")
    for check, row in zip(new, rows, strict=True):
        if row.get("fails", True):
            raise SystemExit(f"{check.name} fails before anything is changed")
        known[names[check.name]] = row
    REACH.parent.mkdir(exist_ok=True)
    write_atomically(REACH, json.dumps(known).encode())
    for check in checks:
        row = known[names[check.name]]
        check.seconds, check.reach = row["seconds"], {str(OPS / name): set(row["reach"][name]) for name in row["reach"]}
    return [check for check in checks if check.reach]


def reached(check: Check, tell: Callable[[Any], None]) -> None:
    forget()
    reach: dict[str, set[int]] = {}

    def lines(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            reach[frame.f_code.co_filename].add(frame.f_lineno)
        return lines

    def calls(frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(str(OPS)):
            return None
        reach.setdefault(name, set())
        return lines

    begin = time.process_time()
    sys.settrace(calls)
    fails = check.fails()
    sys.settrace(None)
    seconds = time.process_time() - begin
    tell({"fails": fails, "seconds": seconds, "reach": {name_of(f): sorted(reach[f]) for f in reach}})


def forget() -> None:
    """Empty what the ops remember between calls, so that a call runs the same lines whatever came before."""
    shapes._KNOWN_TO_FIT.clear()
    for path in OPS.rglob("[a-z]*.py"):
        for thing in vars(module_of(path)).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()


# --- one mutant ---------------------------------------------------------------------------------------------


Job = Callable[[Callable[[Any], None]], None]  # it is given a function that tells the parent something
_jobs: list[Job] = []  # a fork inherits what cannot be pickled


def each_in_a_child(jobs: list[Job], processes: int, unit: str) -> Iterator[dict[str, Any]]:
    """What each job has told last, in order; with {"signal": number} where that ended it."""
    _jobs[:] = jobs
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from tqdm(pool.imap(in_child, range(len(jobs))), total=len(jobs), unit=unit)


def in_child(i: int) -> dict[str, Any]:
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receiver)
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _jobs[i](partial(_write, sender))
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as told:
        last = told.read().splitlines()[-1:]
    _, status = os.waitpid(child, 0)
    row = json.loads(last[0]) if last else {}
    return row | {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else row


def _write(to: int, x: Any) -> None:
    left = json.dumps(x).encode() + b"\n"
    while left:
        left = left[os.write(to, left) :]


def tried(mutant: Mutant, checks: list[Check], tell: Callable[[Any], None]) -> None:
    """Runs in a child: become the mutant, and tell the check that kills it, or None."""
    tell({"by": "import"})
    become(module_of(mutant.file), mutant.code())
    forget()
    for check in checks:
        tell({"by": check.name})  # where the child does not come back
        signal.setitimer(signal.ITIMER_PROF, PATIENCE + 10 * check.seconds)
        if check.fails():
            return
    tell({"by": None})


def verdict(row: dict[str, Any]) -> str | None:
    """The check that has killed it, and how if not by failing; None for a survivor."""
    how = {signal.SIGPROF: " (does not end)"}.get(row.get("signal", 0), " (the process dies)")
    return row["by"] and row["by"] + (how if "signal" in row else "")


def concerned(mutant: Mutant, checks: list[Check]) -> list[Check]:
    """The checks that reach it, up to BUDGET seconds: the properties of its op, then those that reach little else.

    A change that only a long test far away would notice needs a test of its own.
    """
    lines, mine = set(mutant.lines), f"spec {op_of(mutant)}:"
    found = [check for check in checks if not lines.isdisjoint(check.reach.get(mutant.file, ()))]
    found.sort(key=lambda check: (not check.name.startswith(mine), sum(map(len, check.reach.values()))))
    spent = list(accumulate(check.seconds for check in found))
    return [check for check, seconds in zip(found, spent, strict=True) if seconds <= BUDGET]


def run(to_do: list[Mutant], found: dict[str, Any], jobs: int, save: Callable[[], None], checks: list[Check]) -> None:
    checks = measured(checks, jobs)
    rows = each_in_a_child([partial(tried, m, concerned(m, checks)) for m in to_do], jobs, "mutant")
    for i, (mutant, row) in enumerate(zip(to_do, rows, strict=True)):
        found[key(mutant)] = verdict(row)
        if i % 50 == 0:
            save()


# --- what is known, and the page ----------------------------------------------------------------------------


@cache
def _owners(file: str) -> dict[str, str]:
    """The op that each name at the top of a file belongs to: a helper to the first op that needs it."""
    needs = {}
    for node in ast.parse(Path(file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            needs[node.name] = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    owner: dict[str, str] = {}
    for name in needs:
        left = [name] if name in tinyattn.ops.__all__ else []
        while left:
            found = left.pop()
            if found == name or (found not in owner and found not in tinyattn.ops.__all__):
                owner[found] = name.removesuffix("_backward")
                left.extend(needs.get(found, ()))
    return owner


def op_of(mutant: Mutant) -> str:
    name = mutant.function.split(".")[0]
    return _owners(mutant.file).get(name, Path(mutant.file).stem)


def _hash(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:12]


@cache  # what they were when the run began
def _hash_of_checks() -> str:
    return _hash([*OPS.parent.glob("check/**/*.py"), *(ROOT / "tests").rglob("*.py")])


def by_file(every: dict[str, list[Mutant]], found: dict[str, Any]) -> dict[str, Any]:
    """For the results file: every mutant that was tried, and what has killed it."""
    checks = _hash_of_checks()
    return {
        name: {
            "source": _hash([OPS / name]),
            "checks": checks,
            "killed by": {op: {m.name: found[key(m)] for m in some if key(m) in found} for op, some in by_op(mutants)},
        }
        for name, mutants in every.items()
        if any(key(m) in found for m in mutants)
    }


def by_op(mutants: list[Mutant]) -> list[tuple[str, list[Mutant]]]:
    ops = dict.fromkeys(op_of(m) for m in mutants)
    return [(op, [m for m in mutants if op_of(m) == op]) for op in ops]


def still_known(result: dict[str, Any], every: dict[str, list[Mutant]], reasons: dict[str, str]) -> dict[str, Any]:
    """What earlier runs have found of sources that are as they were; of survivors that are not equivalent, if no check
    has changed since.
    """
    found, checks = {}, _hash_of_checks()
    for name, row in result["files"].items():
        if name in every and row["source"] == _hash([OPS / name]):
            for of_op in row["killed by"].values():
                for mutant, by in of_op.items():
                    mutant = f"{name}: {mutant}"
                    if by is not None or mutant in reasons or row["checks"] == checks:
                        found[mutant] = by
    names = {key(m) for mutants in every.values() for m in mutants}
    return {name: by for name, by in found.items() if name in names}


def read_equivalent(path: Path, names: set[str] | None = None) -> dict[str, str]:
    """Why mutants are equivalent, by their keys. Raises ValueError for a line not of `names`, or one named before."""
    reasons: dict[str, str] = {}
    for entry in tomllib.loads(path.read_text()).get("equivalent", []):
        for line in filter(None, map(str.strip, entry["mutants"].splitlines())):
            if names is not None and line not in names:
                raise ValueError(f"{path.name}: there is no mutant {line!r}: has the source changed?")
            if line in reasons:
                raise ValueError(f"{path.name}: {line!r} is there twice")
            reasons[line] = entry["because"]
    return reasons


def rows_of(result: dict[str, Any], reasons: dict[str, str]) -> list[dict[str, Any]]:
    """Of each op: how many mutants, what has killed how many, and which are equivalent, survive or are refuted."""
    rows = []
    for name, of_file in result["files"].items():
        for op, found in of_file["killed by"].items():
            by = {f"{name}: {mutant}": killer for mutant, killer in found.items()}
            rows.append({
                "op": op,
                "file": name,
                "mutants": len(by),
                "backward": sum(mutant.startswith(f"{op}_backward") for mutant in found),
                "by specs": sum(killer is not None and not killer.startswith("tests") for killer in by.values()),
                "by tests": sum(killer is not None and killer.startswith("tests") for killer in by.values()),
                "equivalent": [m for m, killer in by.items() if killer is None and m in reasons],
                "survive": [m for m, killer in by.items() if killer is None and m not in reasons],
                "refuted": [f"{m}: by {killer}" for m, killer in by.items() if killer is not None and m in reasons],
            })  # fmt: skip
    return rows


def page(result: dict[str, Any], reasons: dict[str, str]) -> str:
    """The Markdown page, from the results file and the reasons alone."""
    rows, machine = rows_of(result, reasons), result["machine"]
    total, specs, tests = (sum(row[k] for row in rows) for k in ("mutants", "by specs", "by tests"))
    equivalent, survive, refuted = ([m for row in rows for m in row[k]] for k in ("equivalent", "survive", "refuted"))
    lines = [
        f"# Mutants by rule: {specs + tests:,} of {total - len(equivalent):,} killed",
        "",
        f"{total:,} changes to the sources of the ops, one at a time: operators, numbers, comparisons, dropped terms, "
        f"transposes, guards, steps in place. {specs:,} are killed by properties of `tinyattn check`, "
        f"{result['seeds']} seeded cases each, and {tests:,} of the others by tests. {len(equivalent)} are equivalent: "
        f"no input tells them from the original, or none that an op is for. {len(survive)} survive. Each is tried on "
        f"what reaches its lines, the properties of its op first, then what reaches little else, for "
        f"{result['budget']:g} seconds at most.",
        "",
        "| op | mutants | of its backward | killed by specs | killed by tests | equivalent | survive |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['op']} | {row['mutants']} | {row['backward']} | {row['by specs']} | {row['by tests']} | "
        f"{len(row['equivalent'])} | {len(row['survive'])} |"
        for row in rows
    ]
    lines += ["", "Helpers are counted with the first op of their file that needs them.", ""]
    if survive:
        lines += ["## Survive", "", *(f"- `{m}`" for m in survive), ""]
    if refuted:
        lines += ["## Said to be equivalent, and killed", "", *(f"- `{m}`" for m in refuted), ""]
    lines += ["## Equivalent, and why", ""]
    for reason in dict.fromkeys(reasons[m] for m in equivalent):
        lines += [reason, "", *(f"- `{m}`" for m in equivalent if reasons[m] == reason), ""]
    lines += [
        f"Made by `python benchmarks/mutants.py` on {machine['cpu']}, NumPy {machine['numpy']}, Python "
        f"{machine['python']}, commit {machine['commit']}, {machine['date']}.",
        "",
    ]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()), read_equivalent(EQUIVALENT))}


if __name__ == "__main__":
    main()
