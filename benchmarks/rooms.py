"""Mutants of the package outside of ops: a seed draws a sample of each room, and the default tests run on it.

benchmarks/mutants.py calls this module. Each mutant changes one file in a copy of the project, in which a fresh pytest
runs with the plugin benchmarks/reach.py. So the change also reaches tables and defaults that are made on import, and
programs that a test starts.
"""

import ast
import contextlib
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from benchmarks.machine import ROOT, describe_code
from benchmarks.mutants_known import NOT_REACHED, PACKAGE, by_file, hash_of, key, still_known
from benchmarks.mutation import Mutant, mutants_of

BUILD = ROOT / "build" / "mutants"
PIN = "tests/test_pin.py"  # quick tests that compare numbers of every room with stored ones
# not traced: this test runs every other script in the test process, which ends tracing; it tests no room
SCRIPTS = "tests/test_pages.py::test_a_script_refuses_an_argument_that_it_does_not_know_before_it_writes"
GROUND = ("files", "ranks", "tree", "random", "options")
# room: (its files, how the names of its own tests begin); its own tests run before those of other rooms.
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    room: ((room,), (f"tests/{room}/",))
    for room in ("layers", "models", "training", "data", "evaluation", "experiments", "export", "show", "check")
} | {
    "course/graders": (("course/graders",), ("tests/course/",)),
    "commands": (("commands",), ("tests/commands/", "tests/test_cli")),
    "ground": (tuple(f"{name}.py" for name in GROUND), tuple(f"tests/test_{name}" for name in GROUND)),
}
BUDGET = 30.0  # seconds of traced processor time for tests of other rooms; twice as many for its own room's
PATIENCE = 10.0  # seconds of processor time that a test may take beyond ten times its traced time


def mutants_in(room: str) -> list[Mutant]:
    """All mutants of a room, except those of the arguments `strict=` and `repr=` and of the deliberately wrong zoo."""
    found = []
    for part in ROOMS[room][0]:
        for path in sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / part]:
            if "zoo" not in path.parts:
                found += mutants_of(path.read_text(), str(path))
    return [m for m in found if not (isinstance(m.slot[0], ast.keyword) and m.slot[0].arg in ("strict", "repr"))]


def drawn(every: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """A random sample that is the same on every machine: the `size` mutants with the smallest hash of seed and name.

    A change to one file hardly changes the sample of the other files.
    """
    order = sorted(range(len(every)), key=lambda i: hashlib.sha256(f"{seed} {key(every[i])}".encode()).digest())
    return [every[i] for i in sorted(order[:size])]


# --- what may notice ----------------------------------------------------------------------------------------


class Reach:
    """The lines of the package that each default test reaches, and the seconds that each test takes."""

    def __init__(self, folder: Path) -> None:
        from coverage import CoverageData

        self.data = CoverageData(str(folder / "lines"))
        self.data.read()
        self.seconds: dict[str, float] = json.loads((folder / "tests.json").read_text())

    def tests(self, mutant: Mutant, whole_file: bool = False) -> set[str]:
        """The tests that reach the mutant's lines, or with `whole_file` any line of its file."""
        lines = self.data.contexts_by_lineno(Path(mutant.file).relative_to(ROOT).as_posix())
        here = (lines[line] for line in lines if whole_file or line in mutant.lines)
        return {test for tests in here for test in tests if test in self.seconds}


def measured(jobs: int) -> Reach:
    """Trace the default tests, except test files that were traced on this package before and have not changed.

    Lines that a changed test no longer reaches are kept, so that it is tried on too many mutants, not on too few.
    """
    folder = BUILD / f"reach-{hash_of(PACKAGE.rglob('*.py'))}"
    if not (folder / "tests.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "tests.json").write_text("{}")
        (folder / "files.json").write_text("{}")
    seconds, files = (json.loads((folder / name).read_text()) for name in ("tests.json", "files.json"))
    now = {path.relative_to(ROOT).as_posix(): hash_of([path]) for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    new = [file for file in now if files.get(file) != now[file]]
    if new:
        rows = _traced(folder, new, jobs)
        for name in (name for name, (_, passed) in rows.items() if not passed):
            print(f"left out, because it fails while it is traced: {name}")
        kept = {test: known for test, known in seconds.items() if file_of(test) in now and file_of(test) not in new}
        (folder / "tests.json").write_text(json.dumps(kept | {test: took for test, (took, ok) in rows.items() if ok}))
        (folder / "files.json").write_text(json.dumps(now))
    return Reach(folder)


def _traced(folder: Path, files: list[str], jobs: int) -> dict[str, tuple[float, bool]]:
    """Trace these files, and add the lines that their tests reach to those known -> {test: (seconds, passed)}."""
    from coverage import Coverage

    for old in folder.glob("tests.*.json"):
        old.unlink()
    words = ["-n", str(jobs), "--dist", "worksteal", "--deselect", SCRIPTS, *files]
    if run_pytest(copied(0), words, {"REACH": str(folder)}) not in (0, 1):
        raise SystemExit("the tests cannot be run")
    rows = {name: row for part in folder.glob("tests.*.json") for name, row in json.loads(part.read_text()).items()}
    missing = int((folder / "collected").read_text()) - len(rows)
    if missing:
        raise SystemExit(f"{missing} tests left no trace: a process of the test run has ended")
    whole = Coverage(folder / "lines", config_file=False)
    whole.set_option("run:relative_files", True)
    if (folder / "lines").exists():
        whole.load()
    whole.combine([str(path) for path in folder.glob("lines.*")])
    whole.save()
    return rows


def concerned(mutant: Mutant, own: tuple[str, ...], reach: Reach) -> dict[str, float]:
    """{test: seconds} for the tests that run on a mutant, in order: those of PIN, of its room, and of other rooms.

    - Tests of PIN: those that reach its lines; all of them if its code runs on import, which any test may notice.
    - Its room: all tests of a file in which one test reaches its lines, because a later test may use what that one
      cached. If no test reaches its lines, the test files that reach its file; if none does, all tests of the room.
    - Other rooms: the tests that reach its lines.
    """
    reaching = reach.tests(mutant)
    files = {file_of(test) for test in reaching or reach.tests(mutant, whole_file=True)}
    on_import = mutant.lines.start == 1
    pins = [t for t in reach.seconds if t.startswith(PIN) and (t in reaching or on_import)]
    near = [t for t in reach.seconds if t.startswith(own) and (file_of(t) in files or not files)]
    far = [t for t in reach.seconds if t in reaching and not t.startswith((*own, PIN))]
    budgets = ((pins, BUDGET), (near, 2 * BUDGET), (far, BUDGET))
    return {t: s for tests, budget in budgets for t, s in limited(tests, reaching, reach.seconds, budget).items()}


def limited(tests: list[str], reaching: set[str], seconds: dict[str, float], budget: float) -> dict[str, float]:
    """As many tests as `budget` seconds allow: those that reach the mutant first, then by file, quickest file first."""
    of_file: dict[str, float] = {}
    for test in tests:
        of_file[file_of(test)] = of_file.get(file_of(test), 0.0) + seconds[test]
    order = sorted(tests, key=lambda t: (t not in reaching, of_file[file_of(t)], file_of(t), seconds[t]))
    spent = accumulate(seconds[test] for test in order)
    return {test: seconds[test] for test, until in zip(order, spent, strict=True) if until <= budget}


def file_of(test: str) -> str:
    return test.partition("::")[0]


# --- one mutant ---------------------------------------------------------------------------------------------


def copied(number: int) -> Path:
    """Copy the project as it is on disk, without files that Git ignores -> the copy's folder."""
    copy = BUILD / str(number)
    shutil.rmtree(copy, ignore_errors=True)
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def run_pytest(copy: Path, words: list[str], variables: dict[str, str], seconds: float | None = None) -> int | None:
    """Run the default tests in a copy -> the exit code, or None after `seconds`. Kills what they have started."""
    plain = ["-q", "-m", "not slow", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "benchmarks.reach"]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *plain, "--rootdir", str(copy), "--hypothesis-seed=0", *words],
        cwd=copy, env=os.environ | one_thread | {"PYTHONPATH": str(copy)} | variables, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=None if "REACH" in variables else subprocess.DEVNULL, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None or "MUTANT" in variables:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)


def tried(mutant: Mutant, tests: dict[str, float], copy: Path) -> str | None:
    """-> the test that kills the mutant, with a note if the test did not fail but hung or died; None for a survivor."""
    if not tests:
        return None
    file, note = copy / Path(mutant.file).relative_to(ROOT), copy.with_suffix(".json")
    note.write_text(json.dumps({test: PATIENCE + 10 * seconds for test, seconds in tests.items()}))
    file.write_text(mutant.source(Path(mutant.file).read_text()))
    try:
        files = dict.fromkeys(map(file_of, tests))
        code = run_pytest(copy, ["-x", *files], {"MUTANT": str(note)}, 60 + 3 * sum(tests.values()))
    finally:
        shutil.copy2(mutant.file, file)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
    if code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):  # no tests: a changed table may rename them
        return None
    by = note.read_text()
    how = " (does not end)" if code in (None, -signal.SIGPROF) else " (the process dies)" if code < 0 else ""
    return ("import" if by.startswith("{") else by) + how


def run(
    room: str, known: dict[str, Any], reasons: dict[str, str], size: int, seed: int, jobs: int
) -> Iterator[dict[str, Any]]:
    """Try those mutants of a room's sample that have no known result. Yields the room's result after each."""
    every = mutants_in(room)
    of_file: dict[str, list[Mutant]] = {}
    for mutant in drawn(every, size, seed):
        of_file.setdefault(key(mutant).split(": ")[0], []).append(mutant)
    found = still_known(known, of_file, reasons)
    to_do = [m for some in of_file.values() for m in some if key(m) not in found]
    machine = describe_code("tinyattn", "tests") if to_do else known["machine"]

    def result() -> dict[str, Any]:
        because = {name: reasons[name] for name in found if name in reasons}
        how = {"machine": machine, "seed": seed, "mutants": len(every)}
        return how | {"because": because, "files": by_file(of_file, found)}

    if to_do:
        reach = measured(jobs)
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for i in range(jobs):
            copies.put(copied(i))

        def attempt(mutant: Mutant) -> str | None:
            copy = copies.get()
            try:
                by = tried(mutant, concerned(mutant, ROOMS[room][1], reach), copy)
            finally:
                copies.put(copy)
            in_function = mutant.lines.start > 1  # code on import is always reached
            return NOT_REACHED if by is None and in_function and not reach.tests(mutant) else by

        with ThreadPoolExecutor(jobs) as pool:
            for mutant, by in tqdm(zip(to_do, pool.map(attempt, to_do), strict=True), room, len(to_do), unit="mutant"):
                found[key(mutant)] = by
                yield result()
    yield result()
