"""Compare a training step of this checkout with that of another commit: is it slower, or does it take more memory?

`python benchmarks/training_step.py --against COMMIT` runs the comparison. The other commit is checked out into a
temporary folder and runs its own code, its benchmarks included. Names and files may differ between the two commits, so
each makes its own batches and weights from the same seeds (benchmarks/peers/work.py), and only plain numbers are
exchanged. Where losses or gradients differ, nothing is measured.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.children import Child, environment, refuse, side_by_side, tell
from benchmarks.machine import RESULTS, ROOT, describe, unlike, write_pages, write_result

RESULT, PAGE = RESULTS / "against.json", RESULTS / "against.md"
ROUNDS = 15
SITTING = 3  # rounds after which both processes are started anew
SEED = 0  # for the random order of the two in each round
SURE = 0.95  # confidence level of the intervals
SLOWER = 1.03  # largest accepted ratio of our time to theirs
LARGER = 1.01  # largest accepted ratio of peak memory, unless its interval includes 1
NEAR = 1e-6  # relative tolerance of losses and gradient norms in float64
TINY = 1e-9  # absolute tolerance, as a share of the largest norm: a zero gradient has rounding errors
SIDES = ("ours", "theirs")


@dataclass(frozen=True)
class Side:
    """A checkout, its commit, and the environment variables of its processes."""

    name: str
    root: Path
    commit: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def work(self, wanted: str, folder: Path, data: Path | None) -> dict[str, Any]:
        """Write batches and weights to the folder, made by this checkout's code. -> the JSON that work.py prints."""
        file = Path(__file__).parent / "peers" / "work.py"
        words = [str(self.root), wanted, str(folder), *([] if data is None else [str(data.resolve())])]
        made = subprocess.run(
            [sys.executable, "-P", str(file), *words],
            stdout=subprocess.PIPE, text=True, cwd=self.root, env=environment(self.root, **self.settings),
        )  # fmt: skip
        if made.returncode:
            raise SystemExit(f"{self.commit} could not make the batches of {wanted}: its message stands above")
        return json.loads(made.stdout)

    def child(self, folder: Path) -> Child:
        return Child("tinyattn", folder, root=self.root, settings=self.settings)


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def both(commit: str) -> Iterator[tuple[Side, Side]]:
    """This checkout, and the other commit in a temporary folder. "+" after our commit: files have changed since."""
    name = f"{commit}^{{commit}}"
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", "--short", "--end-of-options", name],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if found.returncode:
        raise SystemExit(f"--against {commit}: expected a commit of this repository, and it knows none of that name")
    theirs = found.stdout.strip().splitlines()[-1]
    changed = git("status", "--porcelain", "--", "tinyattn", ":(glob)benchmarks/**/*.py")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "theirs"
        # both compile anew: a process that reads older .pyc files would take less memory than one that compiles
        settings = {"PYTHONPYCACHEPREFIX": str(root.parent / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
        git("-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", str(root), theirs)
        try:
            if not (root / "benchmarks" / "peers" / "child.py").exists():
                raise SystemExit(f"--against {commit}: that commit has no benchmarks/peers/child.py to measure it with")
            ours = git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
            yield Side("ours", ROOT, ours, settings), Side("theirs", root, theirs, settings)
        finally:
            git("worktree", "remove", "--force", str(root))


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The first difference between the two commits' losses, gradients or settings, in words; None if there is none."""
    if len(ours["losses"]) != len(theirs["losses"]):
        return f"{len(ours['losses'])} batches here, {len(theirs['losses'])} there"
    for what in ("dropout", "threads"):
        if ours[what] != theirs[what]:
            return f"{what} {ours[what]} here, {theirs[what]} there"
    for i, (here, there) in enumerate(zip(ours["losses"], theirs["losses"], strict=True)):
        if not math.isclose(here, there, rel_tol=NEAR):
            return f"the loss of batch {i} is {here:.9g} here, {there:.9g} there"
    for i, (one, other) in enumerate(zip(ours["norms"], theirs["norms"], strict=True)):
        if len(one) != len(other):
            return f"{len(one)} gradients here, {len(other)} there"
        for here, there in zip(one, other, strict=True):  # by size: names may have changed
            if not math.isclose(here, there, rel_tol=NEAR, abs_tol=TINY * max(other)):
                return f"a gradient of batch {i} has norm {here:.9g} here, {there:.9g} there"
    return None


def measure(sides: tuple[Side, Side], wanted: str, rounds: int, data: Path | None) -> dict[str, Any]:
    """Time and memory of both: {"ours": .., "theirs": ..}. SystemExit if they compute different things."""
    with tempfile.TemporaryDirectory() as place:
        folders = {side.name: Path(place) / side.name for side in sides}
        work = {side.name: side.work(wanted, folders[side.name], data) for side in sides}
        other = difference(work["ours"], work["theirs"])
        if other is not None:
            raise SystemExit(f"not measured: {sides[0].commit} and {sides[1].commit} do different work: {other}")
        checked = {}
        for side in sides:
            with side.child(folders[side.name]) as child:
                checked[side.name] = child.ask("check")
        refuse(checked)
        found: dict[str, Any] = {
            side.name: {"commit": side.commit, "seconds": [], "peak": [], "own": [], "idle": []} for side in sides
        }
        start = {side.name: partial(side.child, folders[side.name]) for side in sides}
        for sitting, first in enumerate(range(0, rounds, SITTING)):
            sat = side_by_side(start, min(SITTING, rounds - first), SEED + sitting)
            for name, row in sat.items():
                found[name]["seconds"] += row["seconds"]
                for what in ("peak", "own", "idle"):
                    found[name][what].append(row[what])
                found[name] |= {what: row[what] for what in ("about", "pools")}
    for name in SIDES:
        settings = {what: work[name][what] for what in ("network", "seed", "python", "numpy")}
        first_loss, first_norm = work[name]["losses"][0], float(np.linalg.norm(work[name]["norms"][0]))
        found[name] |= settings | {"loss": first_loss, "norm": first_norm, "check": checked[name]}
    return found


def interval(values: list[float], sure: float = SURE) -> tuple[float, float, float]:
    """The sign test's confidence interval of the median: low, high, and its confidence.

    A distribution's median lies between the k-th smallest and the k-th largest of n values unless fewer than k values
    lie on one side of it. The probability of that is the probability of fewer than k heads, or fewer than k tails, in n
    tosses of a coin. Fewer than six values cannot reach 95 %: their interval is the whole range, with less confidence.
    """
    n, ordered = len(values), sorted(values)
    k, outside = 1, 2 * 0.5**n  # P(fewer than k heads of n) + P(fewer than k tails)
    while k < (n + 1) // 2 and outside + 2 * math.comb(n, k) * 0.5**n <= 1 - sure:
        outside += 2 * math.comb(n, k) * 0.5**n
        k += 1
    return ordered[k - 1], ordered[n - k], 1 - outside


def ratios(row: dict[str, Any], what: str = "seconds") -> list[float]:
    """Our time over theirs, round by round; or our peak memory, sitting by sitting."""
    return np.divide(row["ours"][what], row["theirs"][what]).tolist()


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """Medians of the ratios with their intervals; does "at most 3 % slower, memory not above" hold, and surely?

    The verdict on time follows the median, and is sure if the whole interval lies on one side of 3 %. Memory counts as
    above only if the median exceeds LARGER and the whole interval exceeds 1: even processes of one commit differ.
    """
    time, peak = ratios(row), ratios(row, "peak")
    (low, high, sure), memory = interval(time), interval(peak)
    middle, larger = float(np.median(time)), float(np.median(peak))
    above = larger > LARGER and memory[0] > 1
    return {
        "time": [middle, low, high, sure],
        "peak": [larger, *memory],
        "holds": middle <= SLOWER and not above,
        "surely": above or high <= SLOWER or low > SLOWER,
    }


def verdict_text(verdict: dict[str, Any]) -> str:
    words = "holds" if verdict["holds"] else "**does not hold**"
    return words if verdict["surely"] else f"{words}, but the interval also includes the opposite: run more rounds"


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    rows = list(result.values())
    pairs = list(dict.fromkeys((row["ours"]["commit"], row["theirs"]["commit"]) for row in rows))
    lines = ["# A training step, beside that of another commit", ""]
    lines += [f"Ours is commit {ours}, theirs {theirs}." for ours, theirs in pairs]
    lines += ["", "| | ms a step: ours | theirs | ours / theirs | interval | peak MB: ours | theirs | ours / theirs "]
    lines[-1] += f"| at most {100 * (SLOWER - 1):.0f} % slower, memory not above |"
    lines += ["|---|---|---|---|---|---|---|---|---|", *(_line(key, row) for key, row in result.items()), ""]
    lines += [_remark(key, row) for key, row in result.items()]
    return "\n".join([*lines, "", HOW.strip(), ""])


def _line(key: str, row: dict[str, Any]) -> str:
    verdict = judged(row)
    middle, low, high, _ = verdict["time"]
    cells = [key, *(f"{1e3 * np.median(row[side]['seconds']):.1f}" for side in SIDES)]
    cells += [f"{middle:.3f}", f"{low:.3f} to {high:.3f}"]
    cells += [*(f"{np.median(row[side]['peak']):.1f}" for side in SIDES)]
    peak, least, most, _ = verdict["peak"]
    cells += [f"{peak:.3f} ({least:.3f} to {most:.3f})", verdict_text(verdict)]
    return f"| {' | '.join(cells)} |"


def _remark(key: str, row: dict[str, Any]) -> str:
    machine, options, verdict = row["machine"], row["options"], judged(row)
    pools = {" ".join(str(v) for v in pool.values() if v is not None) for side in SIDES for pool in row[side]["pools"]}
    ours, theirs = row["ours"], row["theirs"]
    time, peak = (100 * verdict[what][3] for what in ("time", "peak"))
    return (
        f"- {key}: {row['title']}; lengths {options['lengths']}, seeds {ours['seed']} (batches and weights) and "
        f"{options['seed']} (order). {options['rounds']} rounds, {len(ours['peak'])} pairs of processes: the intervals "
        f"of time are {time:.1f} % sure, those of memory {peak:.1f} %. Loss of the first batch {ours['loss']:.6f} and "
        f"{theirs['loss']:.6f}, norm of its gradients {ours['norm']:.6f} and {theirs['norm']:.6f}. {machine['cores']} "
        f"cores of {machine['cpu']}, Python {machine['python']}, NumPy {machine['numpy']}, "
        f"{', '.join(sorted(pools)) or 'no thread pool known'}, {machine['date']}; at most "
        f"{100 * max(ours['idle'] + theirs['idle']):.1f} % of a core while one waited."
    )


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


HOW = f"""
## How

Each commit runs its own code, benchmarks included, and makes its own batches and weights from the same seeds. Before
anything is measured, the losses of all batches and the norms of all gradients in float64, without dropout, have to
agree to {NEAR:g}, and each commit's float32 results with its own float64 ones. Then both train on the same batches in
processes of their own, one after the other and in random order each round; after {SITTING} rounds both processes are
started anew. Ratios of times are taken within a round, those of peak memory (the process and its workers) between
processes that ran side by side. Shown are medians, with the interval of the sign test around them: at least
{100 * SURE:.0f} % sure from six values on; with fewer, the whole range.

The verdict follows the median of time, and says so where the interval reaches to the other side of {SLOWER:g}. Memory
counts as above where its median is more than {100 * (LARGER - 1):.0f} % above and its whole interval above 1: two
processes of one commit differ, too. "+" after a commit: files of the library or of the benchmarks
differed from it.

Made by `python benchmarks/training_step.py --against COMMIT`.
"""


def kept(result: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The earlier rows with the same commits, machine and options as `now`."""
    found = {}
    for key, row in result.items():
        differs = [
            *(side for side in SIDES if row[side]["commit"] != now[side]),
            *unlike(row["machine"], now["machine"]),
            *(what for what in ("rounds", "sitting", "seed") if row["options"][what] != now["options"][what]),
        ]
        if differs:
            tell(f"{key}: earlier measurements are left out; different: {', '.join(differs)}")
        else:
            found[key] = row
    return found


def run(
    commit: str, keys: dict[str, dict[str, str]], rounds: int, data: Path | None, again: bool, everything: list[str]
) -> None:
    """Measure the configurations `keys`, {key: its title and lengths}; `everything` is the page's order of keys."""
    with both(commit) as sides:
        options = {"rounds": rounds, "sitting": SITTING, "seed": SEED}
        now = {"machine": describe(), "options": options} | {side.name: side.commit for side in sides}
        result = kept(json.loads(RESULT.read_text()) if RESULT.exists() else {}, now)
        for key, about in keys.items():
            old = result.get(key)
            same = old is not None and old["options"]["lengths"] == about["lengths"]
            if same and not again and not sides[0].commit.endswith("+"):
                tell(f"{key}: measured already")
                continue
            tell(f"{key}: {about['title']}")
            row = {
                "title": about["title"],
                "machine": now["machine"],
                "options": options | {"lengths": about["lengths"]},
            }
            row |= measure(sides, key, rounds, data)
            result[key] = row | {"verdict": judged(row)}
            result = {name: result[name] for name in everything if name in result}
            RESULTS.mkdir(exist_ok=True)
            write_result(RESULT, result)
            write_pages(__file__, pages())
    print(page(result))
