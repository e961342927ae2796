"""Mutation testing: does the suite fail when one thing in the source is changed?

    python benchmarks/mutants.py                 all files of tinyattn/ops; results of earlier runs are kept
    python benchmarks/mutants.py gelu shapes     these ops or files only
    python benchmarks/mutants.py --list gelu     print their mutants, run nothing
    python benchmarks/mutants.py --room models   a sample of tinyattn/models (benchmarks/rooms.py)
    python benchmarks/mutants.py --rooms         a sample of every folder outside of ops

benchmarks/mutation.py makes the mutants by rule. A check is a property of a spec, on seeded cases, or a test. A mutant
is tried on the checks that run its changed lines, the properties of its op first; the first check that fails kills it.
A mutant that survives is either equivalent, for a reason in benchmarks/mutants_equivalent.toml, or shows a hole in the
suite, and then the exit code is 1. A room is a folder of the package outside of ops; for its sample the exit code is 1
if fewer than nine in ten of the mutants that are not equivalent are killed.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import pytest
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks import rooms
from benchmarks.machine import RESULTS, ROOT, describe_code, write_pages, write_result
from benchmarks.mutants_known import (
    EQUIVALENT,
    OPS,
    by_file,
    counts_of,
    hash_of,
    key,
    keys_in,
    killers,
    machines_of,
    name_of,
    op_of,
    page,
    read_equivalent,
    rows_of,
    still_known,
)
from benchmarks.mutation import Mutant, become, mutants_of
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.property import Property
from tinyattn.check.specs import SPECS, Spec, properties_of
from tinyattn.check.subject import MissingError, Subject
from tinyattn.files import write_atomically
from tinyattn.ops import shapes

REACH = ROOT / "build" / "mutants_reach.json"
RESULT, PAGE = RESULTS / "mutants.json", RESULTS / "mutants.md"
TESTS = ("tests/ops", "tests/layers", "tests/test_devices.py", "tests/models/test_network.py")
SEEDS = 15  # cases a property, as in the default test run
BUDGET = 30.0  # seconds of checks for each mutant, as timed (and traced) on the unchanged library
PATIENCE = 5.0  # a check is stopped after ten times its time on the library plus these seconds
MEMORY = 4 << 30  # bytes that a mutant may allocate


@dataclass
class Check:
    """A property on seeded cases, or a test. A first run on the unchanged library measures `seconds` and `reach`."""

    name: str
    fails: Callable[[], bool] = field(repr=False)
    sources: tuple[Path, ...]  # the files that define it
    seconds: float = 0.0
    reach: dict[str, set[int]] = field(default_factory=dict, repr=False)  # file -> lines that run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help="ops (forward and backward), or files without .py")
    parser.add_argument("--room", action="append", choices=rooms.ROOMS, help="a sample of this room of the package")
    parser.add_argument("--rooms", action="store_true", help="a sample of every room")
    parser.add_argument("--sample", type=int, default=40, metavar="N", help="mutants of a room (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--fresh", action="store_true", help="discard the results of earlier runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    options = parser.parse_args()
    if chosen := list(rooms.ROOMS) if options.rooms else options.room:
        if options.ops:
            parser.error("ops have a run of their own, without --room")
        of_rooms(chosen, options)
    else:
        of_ops(options, parser)


def of_ops(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    every = {name_of(path): mutants_of(path.read_text(), str(path)) for path in sorted(OPS.rglob("*.py"))}
    chosen = [m for name in every for m in every[name] if named(m, options.ops)]
    if not chosen:
        parser.error(f"no mutant of {', '.join(options.ops)}")
    if options.list:
        print("\n".join(m.name for m in chosen))
        return
    reasons = known_reasons()
    before = {"files": {}} if options.fresh else earlier()
    known = still_known(before, every, reasons)
    found, machine = dict(known), describe_code("tinyattn", "tests")
    to_do = [m for m in chosen if key(m) not in found]

    def save() -> None:
        machines = machines_of(before["files"], known, found, machine)
        tried = {name: {"machines": machines[name], **row} for name, row in by_file(every, found).items()}
        files = before["files"] | tried  # a file keeps its results until its new code is tried
        how = {"seeds": SEEDS, "budget": BUDGET, "files": {name: files[name] for name in every if name in files}}
        write_result(RESULT, earlier() | how)

    if to_do:
        with_checks(partial(run, to_do, found, killers(before), options.jobs, save))
    save()
    write_pages(__file__, pages())
    print(page(earlier(), reasons))
    sys.exit(1 if any(row["survive"] or row["refuted"] for row in rows_of(earlier(), reasons)) else 0)


def of_rooms(names: list[str], options: argparse.Namespace) -> None:
    if options.list:
        for mutant in (m for room in names for m in rooms.drawn(rooms.mutants_in(room), options.sample, options.seed)):
            print(f"{name_of(mutant.file)}:{mutant.line}: {mutant.name}")
        return
    reasons = known_reasons()
    for room in names:
        known = {} if options.fresh else earlier().get("rooms", {}).get(room, {})
        for grown in rooms.run(room, known, reasons, options.sample, options.seed, options.jobs):
            every = earlier().get("rooms", {}) | {room: grown}
            in_order = {name: every[name] for name in rooms.ROOMS if name in every}
            write_result(RESULT, earlier() | {"rooms": in_order})
        write_pages(__file__, pages())
    counts = {room: counts_of(earlier()["rooms"][room], reasons) for room in names}
    for room, c in counts.items():
        total = c["sampled"] - len(c["equivalent"])
        print(f"{room}: {c['killed']} of {total} killed", *c["survive"], *c["refuted"], sep="\n  ")
    sys.exit(0 if all(c["enough"] for c in counts.values()) else 1)


def earlier() -> dict[str, Any]:
    return json.loads(RESULT.read_text()) if RESULT.exists() else {"files": {}}


def known_reasons() -> dict[str, str]:
    """{mutant: why it is equivalent}. Raises ValueError for a mutant that does not exist."""
    names = {mutant.split(": ")[0] for mutant in read_equivalent(EQUIVALENT)}
    return read_equivalent(EQUIVALENT, keys_in(names))


def named(mutant: Mutant, names: list[str]) -> bool:
    return not names or Path(mutant.file).stem in names or op_of(mutant) in names


def module_of(file: str | Path) -> ModuleType:
    parts = Path(file).relative_to(OPS).with_suffix("").parts
    return importlib.import_module(".".join(["tinyattn.ops", *(part for part in parts if part != "__init__")]))


# --- checks -------------------------------------------------------------------------------------------------


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
    """Call `use` with all checks after pytest has collected the tests: forked children inherit them."""
    problems: list[SystemExit] = []

    class Collected:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            warnings.simplefilter("error")
            try:
                with threadpool_limits(1):
                    use([*spec_checks(), *map(test_check, session.items)])
            except SystemExit as problem:  # pytest would swallow it
                problems.append(problem)
            return True

    options = ["-q", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "not slow"]
    if pytest.main([*options, "--rootdir", str(ROOT), *(str(ROOT / t) for t in TESTS)], [Collected()]):
        problems.append(SystemExit("the tests cannot be collected"))
    for problem in problems:
        raise problem


def measured(checks: list[Check], jobs: int) -> list[Check]:
    """Run every check on the unchanged library, and set which lines of the ops it runs and how long it takes.

    The file REACH keeps both for as long as neither the library nor the check's sources change.
    """
    library = hash_of([path for path in OPS.parent.rglob("*.py") if "check" not in path.parts])
    known = json.loads(REACH.read_text()) if REACH.exists() else {}
    names = {check.name: f"{check.name} {library} {hash_of(check.sources)}" for check in checks}
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
    import coverage

    forget()
    traced = coverage.Coverage(data_file=None, include=[f"{OPS}/*"], config_file=False)
    traced.set_option("run:disable_warnings", ["no-data-collected"])  # such a check runs no op
    begin = time.process_time()
    traced.start()
    fails = check.fails()
    traced.stop()
    seconds, data = time.process_time() - begin, traced.get_data()
    reach = {name_of(file): sorted(data.lines(file) or ()) for file in data.measured_files()}
    tell({"fails": fails, "seconds": seconds, "reach": reach})


def forget() -> None:
    """Empty the caches of the ops: the lines that a call runs must not depend on earlier calls."""
    shapes._KNOWN_TO_FIT.clear()
    for path in OPS.rglob("[a-z]*.py"):
        for thing in vars(module_of(path)).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()


# --- one mutant ---------------------------------------------------------------------------------------------


Job = Callable[[Callable[[Any], None]], None]  # its argument is a function that sends a message to the parent
_jobs: list[Job] = []  # a global, which forked children inherit: jobs cannot be pickled


def each_in_a_child(jobs: list[Job], processes: int, unit: str) -> Iterator[dict[str, Any]]:
    """The last message of each job, in order, with {"signal": number} added if a signal ended the job."""
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
    with os.fdopen(receiver) as pipe:
        last = pipe.read().splitlines()[-1:]
    _, status = os.waitpid(child, 0)
    row = json.loads(last[0]) if last else {}
    return row | {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else row


def _write(to: int, x: Any) -> None:
    left = json.dumps(x).encode() + b"\n"
    while left:
        left = left[os.write(to, left) :]


def tried(mutant: Mutant, checks: list[Check], tell: Callable[[Any], None]) -> None:
    """In a child: apply the mutant, run the checks, and send the name of the check that kills it, or None."""
    tell({"by": "import"})
    become(module_of(mutant.file), mutant.code())
    forget()
    for check in checks:
        tell({"by": check.name})  # before the check, which may end the process
        signal.setitimer(signal.ITIMER_PROF, PATIENCE + 10 * check.seconds)
        if check.fails():
            return
    tell({"by": None})


def verdict(row: dict[str, Any]) -> str | None:
    """The check that killed the mutant, with a note if it hung or crashed; None for a survivor."""
    how = {signal.SIGPROF: " (does not end)"}.get(row.get("signal", 0), " (the process dies)")
    return row["by"] and row["by"] + (how if "signal" in row else "")


def concerned(mutant: Mutant, checks: list[Check], before: str = "") -> list[Check]:
    """The checks that run the mutant's lines, up to BUDGET seconds: its op's properties, then the most specific ones.

    before: the check that killed it in an earlier run, of other code. It comes right after the properties, because it
    probably kills it again. A survivor that only a check beyond the budget would kill needs a test of its own.
    """
    lines, mine = set(mutant.lines), f"spec {op_of(mutant)}:"
    found = [check for check in checks if not lines.isdisjoint(check.reach.get(mutant.file, ()))]
    size = {check.name: sum(map(len, check.reach.values())) for check in found}
    found.sort(key=lambda check: (not check.name.startswith(mine), check.name != before, size[check.name]))
    spent = list(accumulate(check.seconds for check in found))
    return [check for check, seconds in zip(found, spent, strict=True) if seconds <= BUDGET]


def run(
    to_do: list[Mutant], found: dict[str, Any], before: dict[str, str], jobs: int, save: Callable[[], None],
    checks: list[Check],
) -> None:  # fmt: skip
    checks = measured(checks, jobs)
    each = [partial(tried, m, concerned(m, checks, before.get(key(m), ""))) for m in to_do]
    rows = each_in_a_child(each, jobs, "mutant")
    for i, (mutant, row) in enumerate(zip(to_do, rows, strict=True)):
        found[key(mutant)] = verdict(row)
        if i % 50 == 0:
            save()


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()), read_equivalent(EQUIVALENT))}


if __name__ == "__main__":
    main()
