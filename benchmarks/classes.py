"""Cross-entropy over large catalogues: measure a training epoch with logits in tiles, and with all logits at once.

    python benchmarks/classes.py [--rounds 3]

SASRec with loss ce, width 64, maxlen 50 and 2 worker processes, on 512 generated histories of 400 items: 4 steps of
6,400 positions. Each run is a separate process; the two forms take turns. CPU time is that of `fit` in all processes.
Memory is the peak of all processes together: the sum of their proportional set sizes (Pss), read every 50 ms.

Writes benchmarks/results/classes.json and classes.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import environment
from benchmarks.machine import RESULTS, ROOT, describe, write_pages, write_result
from tinyattn.data import Interactions
from tinyattn.fast import classes
from tinyattn.models import SASRec

RESULT, PAGE = RESULTS / "classes.json", RESULTS / "classes.md"
RUNS = [("plain", 5_000), ("tiles", 5_000), ("plain", 20_000), ("tiles", 20_000), ("tiles", 200_000)]
USERS, LENGTH = 512, 400


def train(form: str, items: int) -> dict[str, Any]:
    """One epoch, in this process and its worker. -> seconds of CPU, and the loss."""
    classes.MANY = 1 << 62 if form == "plain" else classes.MANY
    rng = np.random.default_rng(0)
    every = np.concatenate([rng.permutation(items) for _ in range(-(-USERS * LENGTH // items))])[: USERS * LENGTH]
    data = Interactions.of(every.reshape(USERS, LENGTH).tolist())
    model = SASRec(loss="ce", dim=64, maxlen=50, epochs=1, workers=2)
    before = sum(os.times()[:4])
    model.fit(data, progress=False)
    return {"cpu": sum(os.times()[:4]) - before, "loss": model.history[-1]["loss"]}


def measure(form: str, items: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--run", form, "--items", str(items)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(ROOT), cwd=ROOT) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        return json.loads(process.stdout.read()) | {"peak": peak / 1e3}


def resident(pid: int) -> int:
    """Resident memory of a process and its children, in kB; shared pages count once."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        total += sum(resident(int(child)) for child in _text(task).split())
    return total + sum(int(line.split()[1]) for line in _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
                       if line.startswith("Pss:"))  # fmt: skip


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:                     # the process has just ended
        return ""


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    runs, machine = result["runs"], result["machine"]
    cell = {
        key: {what: median(run[what] for run in rounds) for what in ("cpu", "peak")} for key, rounds in runs.items()
    }
    lines = ["# Cross-entropy over large catalogues", "",
             "| items | all logits, MB | at once: CPU s, MB resident | in tiles: CPU s, MB resident | CPU, ratio |",
             "|---|---|---|---|---|"]  # fmt: skip
    for items in sorted({items for _, items in RUNS}):
        plain, tiles = (cell.get(f"{form} {items}") for form in ("plain", "tiles"))
        both = [f"{row['cpu']:.1f}, {row['peak']:,.0f}" if row else "" for row in (plain, tiles)]
        ratio = f"{tiles['cpu'] / plain['cpu']:.2f}" if plain and tiles else ""
        lines.append(f"| {items:,} | {6400 * items * 4 / 1e6:,.0f} | {' | '.join(both)} | {ratio} |")
    rounds = "One round" if result["rounds"] == 1 else f"Medians of {result['rounds']} rounds"
    made = (f"An epoch of 4 steps of 6,400 positions: SASRec, loss ce, width 64, 2 worker processes. {rounds}. Memory "
            f"is what all processes held at once, with the interpreter. "
            f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, NumPy {machine['numpy']}, "
            f"{machine['system']}, commit {machine['commit']}, {machine['date']}.")  # fmt: skip
    return "\n".join([*lines, "", made, "", "Made by `python benchmarks/classes.py`.", ""])


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=["plain", "tiles"], help=argparse.SUPPRESS)
    parser.add_argument("--items", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(train(options.run, options.items)))
        return
    runs: dict[str, list[Any]] = {}
    for _ in range(options.rounds):
        for form, items in RUNS:
            runs.setdefault(f"{form} {items}", []).append(measure(form, items))
            print(form, items, runs[f"{form} {items}"][-1], flush=True)
    write_result(RESULT, {"machine": describe(), "rounds": options.rounds, "runs": runs})
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
