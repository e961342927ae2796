"""This checkout's library beside another commit's, in the same rounds: is a training step slower, or larger?

`python benchmarks/training_step.py --against COMMIT` does it. The other commit is checked out into a temporary folder
and runs its own code, benchmarks included: names and files may differ between the two, so each makes its own batches
and weights from the same seeds (benchmarks/peers/work.py), and only plain numbers are exchanged. Where losses or
gradients differ, nothing is measured.
"""

from __future__ import annotations

import argparse
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
from benchmarks.machine import RESULTS, ROOT, describe

RESULT, PAGE = RESULTS / "against.json", RESULTS / "against.md"
ROUNDS = 15
SITTING = 3  # rounds that one pair of processes trains; then both are started anew
SEED = 0  # of the order in which the two are asked
SURE = 0.95
SLOWER = 1.03  # at most so many times as long
NEAR = 1e-6  # of each norm in float64, and
TINY = 1e-9  # of the largest, for gradients that are zero but for rounding
SIDES = ("ours", "theirs")


@dataclass(frozen=True)
class Side:
    """A checkout, the commit it is of, and variables of its processes' environment."""

    name: str
    root: Path
    commit: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def work(self, wanted: str, folder: Path, data: Path | None) -> dict[str, Any]:
        """Fill the folder by this checkout's own code: -> what that says of it (benchmarks/peers/work.py)."""
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
    """This checkout as it stands, "+" where it differs from its commit, and the other commit in a temporary folder."""
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
        # both compile into a folder of their own: to read what was compiled before takes less memory
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
    """What the two were given differently, in words; None where it is the same work."""
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
    """What both took: {"ours": .., "theirs": ..}; ends where they were not given the same work, or do another."""
    with tempfile.TemporaryDirectory() as place:
        folders = {side.name: Path(place) / side.name for side in sides}
        work = {side.name: side.work(wanted, folders[side.name], data) for side in sides}
        other = difference(work["ours"], work["theirs"])
        if other is not None:
            raise SystemExit(f"not measured: {sides[0].commit} and {sides[1].commit} have other work to do: {other}")
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
        said = {what: work[name][what] for what in ("network", "seed", "python", "numpy")}
        first_loss, first_norm = work[name]["losses"][0], float(np.linalg.norm(work[name]["norms"][0]))
        found[name] |= said | {"loss": first_loss, "norm": first_norm, "check": checked[name]}
    return found


def interval(values: list[float], sure: float = SURE) -> tuple[float, float, float]:
    """Around the median, of the sign test: low, high, and how sure that is.

    The median of what was drawn from lies between the k-th smallest and the k-th largest value unless fewer than k lie
    on one side of it, and that, whatever the distribution, is a matter of tossing coins. Fewer than six values do not
    reach 95 %: then it is all of their range, and less sure.
    """
    n, ordered = len(values), sorted(values)
    k, outside = 1, 2 * 0.5**n  # P(fewer than k heads of n) + P(fewer than k tails)
    while k < (n + 1) // 2 and outside + 2 * math.comb(n, k) * 0.5**n <= 1 - sure:
        outside += 2 * math.comb(n, k) * 0.5**n
        k += 1
    return ordered[k - 1], ordered[n - k], 1 - outside


def ratios(row: dict[str, Any]) -> list[float]:
    """Our time over theirs, round by round."""
    return np.divide(row["ours"]["seconds"], row["theirs"]["seconds"]).tolist()


