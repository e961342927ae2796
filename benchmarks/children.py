"""Time contenders one after the other, in a new random order each round, each in a process of its own.

A contender's process runs a module of benchmarks/peers that calls `child.main`: `child` for training, `rungs` for the
ladder of optimisations, `scoring` for full ranking, and so on. The request `check` compares its results with the
library's. A contender that computes something else is not measured.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, clean_environment

PAUSE = 0.1  # seconds before a contender runs: threads of the previous one may spin for some milliseconds


def environment(root: Path, **settings: str) -> dict[str, str]:
    """A clean environment that imports from the checkout at `root`, also if an editable install points elsewhere."""
    clean = clean_environment()
    paths = os.pathsep.join(filter(None, [str(root), clean.get("PYTHONPATH")]))
    return clean | {"PYTHONPATH": paths} | settings


class Child:
    """A contender's process, with the code of the checkout at `root`. Between requests it blocks, without spinning.

    `settings` are its environment variables.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        module: str = "child",
        root: Path = ROOT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.peers.{module}", name, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(root, **settings or {}), cwd=root,
        )  # fmt: skip

    def ask(self, request: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name} ended while it was asked to {request}: its message stands above")
        return json.loads(answer)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()


def check(names: list[str], folder: Path, module: str = "child") -> dict[str, Any]:
    """Compare every contender's results with the library's in float64, each in a process of its own."""
    found = {}
    for name in names:
        with Child(name, folder, module) as child:
            found[name] = child.ask("check")
    return found


def refuse(checked: dict[str, Any]) -> None:
    """SystemExit if a contender's results differ from the library's: its time would mean nothing."""
    for name, row in checked.items():
        tell(f"{name}: {row['worst']} is off by {row['off']:.1e} of its largest entry, all others by less")
    wrong = [f"{name} ({row['worst']}: {row['off']:.1e})" for name, row in checked.items() if not row["agrees"]]
    if wrong:
        raise SystemExit(f"not measured: another result than the library's in float64: {', '.join(wrong)}")


def in_rounds(names: list[str], folder: Path, rounds: int, seed: int, module: str = "child") -> dict[str, Any]:
    """{name: seconds per step in every round, the share of a core used while idle, and its answer to `finish`}."""
    return side_by_side({name: partial(Child, name, folder, module) for name in names}, rounds, seed)


def side_by_side(start: Mapping[str, Callable[[], Child]], rounds: int, seed: int) -> dict[str, Any]:
    """As `in_rounds`, for {name: a function that starts the child}."""
    order, names = random.Random(seed), list(start)
    with ExitStack() as stack:
        children = {name: stack.enter_context(start[name]()) for name in names}
        for name, child in children.items():
            tell(f"{name}: warm after {child.ask('prepare')['seconds']:.1f} s")
        seconds: dict[str, list[float]] = {name: [] for name in names}
        waited, used = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for number in range(rounds):
            for name in order.sample(names, len(names)):
                time.sleep(PAUSE)
                answer = children[name].ask("run")
                seconds[name].append(answer["seconds"])
                waited[name] += answer["waited"]
                used[name] += answer["used"]
            tell(f"round {number + 1}: " + ", ".join(f"{name} {1e3 * s[-1]:.1f} ms" for name, s in seconds.items()))
        finished = {name: child.ask("finish") for name, child in children.items()}
    return {name: finished[name] | {"seconds": seconds[name], "idle": used[name] / waited[name]} for name in names}


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
