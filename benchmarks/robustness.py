"""Counts failures under attack, by kind: killed trainings, broken files, two trainings on one folder, hostile code.

    python benchmarks/robustness.py [--only KIND,KIND] [--share .1] [--again]

Each kind makes many tries of one attack, at moments and places drawn from SEED, and reports what went wrong. To start
fast, trainings that are killed or run side by side are forks of this process, which has imported everything; they draw
no pictures, because pictures would take longer than all the rest. The moment of a kill is a fraction of the time that
an undisturbed run takes, so a slower or a loaded machine tries other moments. The kinds of benchmarks/attacks.py run in
worker processes.

Writes benchmarks/results/robustness.json after each kind and, once it has all kinds, .md and a line of docs/check.md.
Kinds that the file has for this code are skipped without --again. --only measures some kinds, and leaves the results of
the others; --share makes fewer tries of each kind, and below 1 writes nothing. The exit code is 1 if a try failed. The
kinds need PyTorch, pandas, Polars, pyarrow and safetensors.
"""

import argparse
import contextlib
import ctypes
import filecmp
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from tqdm import tqdm

from benchmarks.attacks import ATTACKS, Kind, guarded
from benchmarks.children import environment
from benchmarks.machine import RESULTS, ROOT, describe_code, made_on, write_pages, write_result
from tests.data.broken_files import broken, files, held
from tests.models.broken_runs import Change, Run, changes, damaged
from tests.models.small import RECOMMENDER, SEQUENCE
from tests.models.worlds import drifting_ratings, write_tiny
from tinyattn.__main__ import run as tinyattn
from tinyattn.check import check_implementation
from tinyattn.commands.measures import MEASURES
from tinyattn.models import MODELS, Recommender
from tinyattn.options import options_of

RESULT, PAGE = RESULTS / "robustness.json", RESULTS / "robustness.md"
CODE = ("tinyattn", "tests/data/broken_files.py", "tests/models/broken_runs.py", "benchmarks/robustness.py",
        "benchmarks/attacks.py")  # fmt: skip
SEED = 0
PATIENCE = 900.0  # seconds: a process that takes longer hangs
SUBREAPER = 36  # option of prctl: orphans of a fork become children of this process, which can then wait for them


class Fork:
    """A command of tinyattn in a fork of this process, in a process group of its own.

    With `gate`, a pipe, it begins `pause` seconds after the last process has closed the pipe's write end.
    """

    def __init__(
        self, arguments: list[str], log: Path, gate: tuple[int, int] | None = None, pause: float = 0.0
    ) -> None:
        self.log, self.code = log, None
        log.write_text("")
        # block Ctrl-C until the child is inside `try`: before it, KeyboardInterrupt would reach the parent's callers
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.number = os.fork()
        if not self.number:
            code = 99
            try:
                os.setpgid(0, 0)
                signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would have it ignored
                handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                nothing = os.open(os.devnull, os.O_RDONLY)
                for number, to in ((0, nothing), (1, handle), (2, handle)):
                    os.dup2(to, number)
                sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
                if gate is not None:
                    os.close(gate[1])
                    os.read(gate[0], 1)
                    time.sleep(pause)
                sys.argv = ["tinyattn", *arguments]
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                code = tinyattn()
            except KeyboardInterrupt:  # raised before the command handles it
                code = 130
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        with contextlib.suppress(OSError):  # fails if the child has done this already, or has ended
            os.setpgid(self.number, self.number)

    def ended(self, seconds: float = PATIENCE) -> bool:
        """Wait -> whether it ended in time. If so, `code` is its exit code, such as -9 if signal 9 killed it."""
        until = time.monotonic() + seconds
        while self.code is None and time.monotonic() < until:
            number, status = os.waitpid(self.number, os.WNOHANG)
            if number:
                self.code = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.002)
        return self.code is not None

    def send(self, number: int, to: int | None = None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(to or self.number, number)

    def workers(self) -> list[int]:
        with contextlib.suppress(OSError):
            return [int(n) for n in Path(f"/proc/{self.number}/task/{self.number}/children").read_text().split()]
        return []

    def printed(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def survivors(self) -> str:
        """Wait up to 10 s for its group to end, then kill the rest of it -> a message if there was a rest, else ""."""
        until = time.monotonic() + 10
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < until:
                if os.waitpid(-self.number, os.WNOHANG) == (0, 0):
                    time.sleep(0.002)
            os.killpg(self.number, signal.SIGKILL)
            return "; a worker process outlived it"
        return ""


def difference(found: Path, expected: Path, names: tuple[str, ...]) -> str:
    """-> the first of these files whose bytes differ, or else the files that only one of the folders has; else ""."""
    for name in names:
        if not (found / name).exists() or not filecmp.cmp(found / name, expected / name, shallow=False):
            return f"{name} is another than that of the undisturbed run"
    more = {path.name for path in found.iterdir()} ^ {path.name for path in expected.iterdir()}
    return f"there is, or is missing: {', '.join(sorted(more))}" if more else ""


KILLED = {
    "SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "Ctrl-C": signal.SIGINT,
    "a worker": None,
}  # fmt: skip


def kills(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    data = write_tiny(folder / "tiny.txt")
    flags = ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01", "--epochs", "40", "--patience", "0"]
    yield from killed(["train", str(data), *flags, "--workers", "2", "--out"], folder, tries, rng)


def killed(command: list[str], folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    """Kill a training `tries` times; `command` ends with --out."""
    whole, began = folder / "whole", time.monotonic()
    undisturbed = Fork([*command, str(whole)], folder / "log")
    if not undisturbed.ended() or undisturbed.code:
        raise RuntimeError(f"the undisturbed training ended with {undisturbed.code}: {undisturbed.printed()}")
    seconds = time.monotonic() - began
    for _ in range(tries):
        out, how = folder / "cut", rng.choice([*KILLED])
        yield _killed([*command, str(out)], out, whole, how, seconds, rng)
        shutil.rmtree(out, ignore_errors=True)


def _killed(command: list[str], out: Path, whole: Path, how: str, seconds: float, rng: random.Random) -> str:
    """Kill the training once while it runs, and then run the same command to its end -> what went wrong, or ""."""
    while True:
        training, moment = Fork(command, out.with_name("log")), rng.uniform(0, seconds)
        if not training.ended(moment):
            break
        shutil.rmtree(out)
    event = f"{how} after {moment:.3f} s"
    workers = training.workers()
    if how == "a worker" and workers:
        training.send(signal.SIGKILL, rng.choice(workers))
    else:
        training.send(KILLED[how] or signal.SIGKILL)
    if not training.ended():
        training.send(signal.SIGKILL)
        training.ended()
        return f"{event}: it did not end"
    wrong = training.survivors()
    text = training.printed()
    if "Traceback" in text:
        wrong += f"; a traceback: {text}"
    if how == "Ctrl-C" and training.code not in (0, 130):
        wrong += f"; exit code {training.code}, expected 130: {text}"
    again = Fork(command, out.with_name("log"))
    if not again.ended() or again.code:
        again.send(signal.SIGKILL)
        again.ended()
        return f"{event}{wrong}; the same command ended with {again.code}: {again.printed()}"
    different = difference(out, whole, ("model.npz", "metrics.json", "config.json"))
    return f"{event}{wrong}; {different}" if wrong or different else ""


# epochs that take about a second, for the models that no other kind kills
EPOCHS = {"narm": 12, "caser": 10, "fpmc": 30, "timesvdpp": 6, "transformer": 8, "decoder": 12, "vit": 16, "swin": 10,
          "beit": 16}  # fmt: skip


def training(name: str, folder: Path, epochs: int) -> list[str]:
    """The command that trains this model on a small file of its kind of data; it ends with --out."""
    rng = np.random.default_rng(0)
    if issubclass(MODELS[name], Recommender):
        options, data = dict(RECOMMENDER), [str(write_tiny(folder / "tiny.txt"))]
    else:
        options, data = dict(SEQUENCE), []
    if MODELS[name].table == "ratings":
        options |= {"dim": 2, "bins": 2, "batch_size": 200}
        world, file = drifting_ratings(), folder / "data"
        rows = zip(world.owner, world.flat, *world.rated, strict=True)
        file.write_text("".join(f"{u},{i},{rating:.2f},{int(time)}\n" for u, i, rating, time in rows))
        data = [str(file)]
    elif MODELS[name].table == "pairs":
        words = ["".join(rng.choice(list("abcde"), rng.integers(1, 7))) for _ in range(60)]
        (folder / "data").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
        data = ["--pairs", str(folder / "data")]
    elif MODELS[name].table == "text":
        (folder / "data").write_text(" ".join("".join(rng.choice(list("abc"), 3)) for _ in range(400)))
        data = ["--text", str(folder / "data")]
    elif not issubclass(MODELS[name], Recommender):
        labels = rng.integers(3, size=40)
        np.savez(folder / "data.npz", images=rng.random((40, 8, 8)) + labels[:, None, None] * np.eye(8), labels=labels)
        data = ["--images", str(folder / "data.npz")]
    known = {o.name: o.flag for o in options_of(MODELS[name])}
    options |= {"epochs": epochs, "workers": 2, "lr": 0.01}
    flags = [f"{known[key]}={value}" for key, value in options.items() if key in known]
    return ["train", "--model", name, *data, *flags, "--out"]


def kills_of_models(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    """The same number of kills for each model of EPOCHS."""
    for number, (name, epochs) in enumerate(EPOCHS.items()):
        here = folder / name
        here.mkdir()
        several = killed(training(name, here, epochs), here, len(range(number, tries, len(EPOCHS))), rng)
        yield from (wrong and f"{name}, {wrong}" for wrong in several)


def races(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    """Pairs of trainings on one folder: two pairs with different options, then one with the same, and so on."""
    data = write_tiny(folder / "tiny.txt")
    command = ["train", str(data), "--model", "markov", "--out"]
    for order in ("1", "2"):
        alone = Fork([*command, str(folder / order), "--order", order], folder / "log")
        if not alone.ended() or alone.code:
            raise RuntimeError(f"a training without a rival ended with {alone.code}: {alone.printed()}")
    for number in range(tries):
        out, orders = folder / "out", ("1", "1") if number % 3 == 2 else ("1", "2")
        waits, starts = os.pipe()
        pauses = rng.sample([0.0, rng.choice([0.0, rng.uniform(0, 0.5)])], 2)
        pair = [
            Fork([*command, str(out), "--order", order], folder / f"log{i}", (waits, starts), pause)
            for i, (order, pause) in enumerate(zip(orders, pauses, strict=True))
        ]
        os.close(starts)
        os.close(waits)
        event = " and ".join(f"--order {o} after {pause:.3f} s" for o, pause in zip(orders, pauses, strict=True))
        yield _raced(pair, orders, out, folder, event)
        shutil.rmtree(out, ignore_errors=True)


def _raced(pair: list[Fork], orders: tuple[str, str], out: Path, folder: Path, event: str) -> str:
    for one in pair:
        if not one.ended():
            one.send(signal.SIGKILL)
            one.ended()
            return f"{event}: one did not end"
    codes = sorted((one.code, one.printed()) for one in pair)
    winners = [order for order, one in zip(orders, pair, strict=True) if one.code == 0]
    if not winners or codes[1][0] not in (0, 2) or len(set(winners)) > 1:
        return f"{event}: {codes}"
    for code, text in codes:
        if code == 2 and (text.count("\n") != 1 or not re.search("another process is at work|was made with", text)):
            return f"{event}: refused in other words: {text}"
    different = difference(out, folder / winners[0], ("model.npz", "metrics.json", "config.json"))
    return f"{event}: {different}" if different else ""


def drawn(strategy: st.SearchStrategy[Any], tries: int, rng: random.Random) -> Iterator[Any]:
    """Yield `tries` examples of a strategy. Hypothesis draws them all before the first is tried."""
    found: list[Any] = []

    @hypothesis.seed(rng.randrange(2**32))
    @hypothesis.settings(
        max_examples=tries, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(strategy)
    def keep(example: Any) -> None:
        found.append(example)

    while len(found) < tries:  # Hypothesis stops early when it finds no new examples
        keep()
    yield from found[:tries]


def run_files(names: tuple[str, ...], make: Callable[[str, bytes], st.SearchStrategy[Change]]) -> Any:
    def tried(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
        run = Run(folder)
        for name in names:
            for change in drawn(make(name, run.content[name]), tries // len(names), rng):
                yield guarded(f"{name} of {len(change.content):,} bytes", lambda c=change, n=name: run.wrong(n, c))

    return tried


def data_files(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    path = folder / "data"

    def read(content: bytes) -> str:
        path.write_bytes(content)
        held(path)
        return ""

    for content in drawn(files().flatmap(lambda file: broken(file.content)), tries, rng):
        yield guarded(f"{content[:200]!r}", lambda c=content: read(c))


WAYS = {
    "exits": "sys.exit({n})",
    "exits at once": "os._exit({n})",
    "dies of a signal": "os.kill(os.getpid(), {signal}); time.sleep(1)",
    "reads address 0": "ctypes.string_at(0)",
    "aborts": "os.abort()",
    "calls itself": "softmax(s)",
    "asks for all memory": "np.empty((10**9, 10**6))",
    "waits": "time.sleep(60)",
    "loops": "while True: pass",
    "raises what is no Exception": "raise KeyboardInterrupt",
    "raises what cannot be printed": "raise type('E', (Exception,), {{'__str__': lambda self: 1 / 0}})()",
    "closes every file": "os.closerange(3, 200)",
    "writes into every file": "[os.write(i, b'x' * 7) for i in range(3, 20) if writable(i)]; return s",
    "begins a session": "os.setsid(); return np.zeros_like(s)",
    "leaves a process behind": "orphan(); return np.zeros_like(s)",
    "leaves a process behind and dies": "orphan(); os.kill(os.getpid(), 11)",
    "kills its group": "os.killpg(0, 9)",
    "kills its parent": "os.kill(os.getppid(), 9); time.sleep(5)",
    "is equal to everything": "return Equal(s)",
    "has any shape": "return Shape()",
    "gives nothing": "return None",
    "gives text": "return 'softmax'",
    "gives its argument": "return s",
    "writes into its argument": "s[...] = 0; return s",
    "gives other types": "return s.astype('{dtype}')",
    "gives too much": "return np.zeros((2, *s.shape))",
    "is right half of the time": "return right(s, mask) * (np.random.rand() < 0.5)",
}
LEARNER = """
import ctypes, os, sys, time
import numpy as np
from tinyattn.ops import softmax as right

class Equal(np.ndarray):
    def __new__(cls, s):
        return np.asarray(s).view(cls)
    def __eq__(self, other):
        return np.ones(np.shape(other), bool)
    __ne__ = __lt__ = __gt__ = lambda self, other: np.zeros(np.shape(other), bool)
    __le__ = __ge__ = __eq__

class Shape:
    shape = property(lambda self: (2, 3))
    dtype = np.dtype("f4")
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no")

def writable(i):
    try:
        os.fstat(i)
    except OSError:
        return False
    return not os.path.isdir(f"/proc/self/fd/{{i}}")

def orphan():
    if calls > {after} + 3:
        return
    if not os.fork():
        os.setsid()
        number = os.fork()
        if not number:
            time.sleep(600)
        else:
            with open({pids!r}, "a") as file:
                file.write(f"{{number}} ")
        os._exit(0)
    os.wait()

calls = 0

def softmax(s, mask=None):
    global calls
    calls += 1
    if calls > {after}:
        {way}
    return right(s, mask)
"""


def learners(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    for number in range(tries):
        name, way = list(WAYS.items())[number % len(WAYS)]
        path, pids = folder / f"learner{number}.py", folder / f"pids{number}"
        after = rng.choice([0, 0, 1, 5, 20])
        drawn_way = way.format(
            n=rng.choice([0, 1, 2, 130, 255]), signal=rng.choice([n for n in range(1, 65) if n not in QUIET]),
            dtype=rng.choice(["f2", "O", "U5", "c16", "i8"]),
        )  # fmt: skip
        path.write_text(LEARNER.format(pids=str(pids), after=after, way=drawn_way))
        event = f"a learner that {name} ({drawn_way}, after {after} calls)"
        yield guarded(event, lambda p=path, q=pids: _checked(p, q))


# not sent: signals that stop a process, that it ignores (PIPE and XFSZ: Python does), or that the C library uses
QUIET = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGSTOP, signal.SIGTSTP,
         signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ, 32, 33}  # fmt: skip


def _checked(path: Path, pids: Path) -> str:
    began = time.monotonic()
    report = check_implementation(str(path), "softmax", examples=5, patience=0.3, time_limit=60.0)
    wrong = []
    if report or not (report.problem or report.failures):
        wrong.append(f"it is accepted: {report}")
    if time.monotonic() - began > PATIENCE:
        wrong.append("it took longer than it may, by far")
    for number in map(int, pids.read_text().split() if pids.exists() else []):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
            wrong.append("a process outlived the check")
    return "; ".join(wrong)


def ctrl_c(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
    """Interrupt a whole process at a random moment between the start of the command and the interpreter's end."""
    data = write_tiny(folder / "tiny.txt")
    code = "import sys; from tinyattn.__main__ import run; print(flush=True); sys.exit(run())"
    command = [sys.executable, "-c", code, "train", str(data), "--model", "markov", "--out"]

    def started(number: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, str(folder / f"{number}")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(ROOT), cwd=folder,
        )  # fmt: skip

    seconds = 0.0
    for number in range(-1, tries):
        process = started(number)
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        if number < 0:  # an undisturbed one
            process.communicate()
            seconds = time.monotonic() - began
            continue
        moment = rng.uniform(0.002, seconds)
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        is_whole = process.returncode in (0, 130, -signal.SIGINT) and "Traceback" not in err
        yield "" if is_whole else f"Ctrl-C after {moment:.3f} s: exit code {process.returncode}: {err[-1500:]}"


KINDS = {
    "kills": Kind("a training killed at a random moment (by SIGKILL, SIGTERM, SIGHUP, Ctrl-C, or one of its workers "
                  "alone), then resumed: the bytes of model.npz, metrics.json and config.json are those of an "
                  "undisturbed run, nothing else is left, no process survives", 105, kills),
    "kills of other models": Kind("the same of narm, caser, fpmc, timesvdpp, transformer, decoder, vit, swin, beit", 45,
                                  kills_of_models),
    "Ctrl-C": Kind("Ctrl-C at a random moment of a command, while NumPy is imported as well: no traceback", 30,
                   ctrl_c),
    "races": Kind("two trainings begun together on one folder: the run of one, whole; the other says so in one line",
                  201, races),
    "flips of a model": Kind("bytes of model.npz flipped, cut out, put in: the same answer or one line",
                             2000, run_files(("model.npz",), lambda _, content: damaged(content))),
    "flips of a checkpoint": Kind("the same of checkpoint.npz: the same parameters, or one line", 1200,
                                  run_files(("checkpoint.npz",), lambda _, content: damaged(content))),
    "data files": Kind("files of interactions in every format, broken in bytes, lines, fields, compression: a table of "
                       "sorted, distinct ids, or one line", 1000, data_files),
    "run files": Kind("model.npz, checkpoint.npz, config.json, metrics.json with members, headers, dtypes, shapes and "
                      "values changed: an answer that is whole, or one line", 800, run_files(Run.FILES, changes)),
    "learners": Kind("`tinyattn check` of code that exits, dies, hangs, lies, leaves processes behind: never accepted, "
                     "nothing survives", 81, learners),
    **ATTACKS,
}  # fmt: skip


def measured(kind: Kind, share: float) -> dict[str, Any]:
    tries = max(1, round(kind.tries * share))
    began, failures, tried = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for wrong in tqdm(kind.run(Path(folder), tries, random.Random(SEED)), total=tries, leave=False, disable=None):
            tried += 1
            failures += [wrong.replace(folder, "")] if wrong else []
            if wrong:
                print(wrong, file=sys.stderr, flush=True)
    return {"tries": tried, "failures": failures, "seconds": round(time.monotonic() - began)}


def page(result: dict[str, Any]) -> str:
    """The Markdown page, made from the results file alone."""
    lines = ["# Under attack", "", "| | tries | failures |", "|---|---|---|"]
    for name, kind in KINDS.items():
        row = result["kinds"][name]
        lines.append(f"| {name}: {kind.says} | {row['tries']:,} | {len(row['failures'])} |")
    tries, failures = total(result)
    lines += [f"| **all** | **{tries:,}** | **{failures}** |", ""]
    lines += [f"- {name}: `{wrong}`" for name, row in result["kinds"].items() for wrong in row["failures"]]
    machines = (row["machine"] for row in result["kinds"].values())
    minutes = sum(row["seconds"] for row in result["kinds"].values()) / 60
    return "\n".join([
        *lines,
        f"Seed {result['seed']}; {minutes:.0f} minutes on {made_on(*machines)}. Moments of kills are drawn as parts of "
        "the time that an undisturbed run takes. The strategies that break files stand in tests/data/broken_files.py "
        "and tests/models/broken_runs.py; `pytest -m slow` searches further with them. The kinds from state dicts on "
        "are those of benchmarks/attacks.py.",
        "",
        "Made by `python benchmarks/robustness.py`.",
        "",
    ])  # fmt: skip


def total(result: dict[str, Any]) -> tuple[int, int]:
    """-> the number of tries and of failures, over all kinds."""
    rows = result["kinds"].values()
    return sum(row["tries"] for row in rows), sum(len(row["failures"]) for row in rows)


def line(result: dict[str, Any]) -> str:
    """The sentence of docs/check.md."""
    (tries, failures), kinds = total(result), result["kinds"]
    return (
        f"Under attack, {tries:,} tries ended in {failures} failures: {kinds['kills']['tries']} kills at random "
        f"moments, {kinds['races']['tries']} races of two trainings for one folder, broken files, and code that lies "
        "to `tinyattn check`: [benchmarks/results/robustness.md](../benchmarks/results/robustness.md)."
    )


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {PAGE: page(result), ROOT / "docs" / "check.md": line(result)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(KINDS), metavar="KIND,KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--share", type=float, default=1.0, help="share of the tries; below 1 nothing is written")
    parser.add_argument("--again", action="store_true", help="measure kinds again that have results for this code")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := set(names) - KINDS.keys():
        parser.error(f"no kind {', '.join(sorted(unknown))}: expected some of {', '.join(KINDS)}")
    if not 0 < args.share <= 1:
        parser.error(f"--share is {args.share}, expected above 0 and at most 1")
    missing = {package for name in names for package in KINDS[name].needs if find_spec(package) is None}
    if missing:
        parser.error(f"install {', '.join(sorted(missing))}, or name other kinds with --only")
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background processes ignore it
    for measure in MEASURES.values():
        type(measure).draw = lambda *_: None  # type: ignore[method-assign]
    tqdm.monitor_interval = 0  # its thread might hold a lock while this process forks
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {"kinds": {}}
    now = describe_code(*CODE)["commit"]
    for name in names:
        row = known["kinds"].get(name)
        if row and row["machine"]["commit"] == now and not now.endswith("+") and args.share == 1 and not args.again:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        known["kinds"][name] = measured(KINDS[name], args.share)
        print(f"{name}: {known['kinds'][name]}", file=sys.stderr, flush=True)
        known["kinds"][name]["machine"] = describe_code(*CODE)
        result = {"kinds": known["kinds"], "seed": SEED}
        if args.share == 1:
            write_result(RESULT, result)
    if args.share == 1 and known["kinds"].keys() == KINDS.keys():
        write_pages(__file__, pages())
    return 1 if any(known["kinds"][name]["failures"] for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
