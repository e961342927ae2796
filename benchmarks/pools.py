"""Is the library's own pool of processes faster than standard ones? The same training steps on each, with two workers.

    python benchmarks/pools.py [--rounds 9]

The standard pools are concurrent.futures and, where joblib is installed, its loky; both keep parameters and gradients
in `multiprocessing.shared_memory`. Before the timing, each pool must give the library's gradients in float64. After it,
the parameters of all pools must be the same, bit by bit. Otherwise the command says so and ends with exit code 1.
Writes benchmarks/results/pools.json and .md, with one section for each make of CPU that was measured.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import check, in_rounds, refuse
from benchmarks.machine import RESULTS, describe, made_on, write_pages, write_result
from benchmarks.peers import THREADS
from benchmarks.training_step import CONFIGURATIONS, SEED, STEPS, Configuration, folder_of, given
from tinyattn.models import SASRecNetwork

RESULT, PAGE = RESULTS / "pools.json", RESULTS / "pools.md"
OURS = "processes"
CONTENDERS = {OURS: "numpy", "concurrent.futures": "numpy", "loky": "joblib"}  # name: the package it needs
SMALL = Configuration(
    "128 × 20, d 32, 1 block, 1 head, dropout .2, 500 items", None, 128,
    SASRecNetwork(n_items=500, maxlen=20, dim=32, blocks=1, heads=1, dropout=0.2),
)  # fmt: skip
MEASURED = {"small": SMALL} | {name: CONFIGURATIONS[name] for name in ("A", "B")}
ROUNDS = 9
NEAR = 1.1  # a standard pool whose time is at most this multiple of the library's would replace it


def measure(configuration: Configuration, names: list[str], rounds: int) -> dict[str, Any]:
    with folder_of(*given(configuration, None)) as folder:
        refuse(check(names, folder, "pooling"))
        found = in_rounds(names, folder, rounds, SEED, "pooling")
    if len({row["about"]["parameters"] for row in found.values()}) > 1:
        raise SystemExit(f"{configuration.title}: after the same steps the pools have different parameters")
    return found


def ratios(row: dict[str, Any], name: str) -> np.ndarray:
    """The contender's time divided by that of the library's pool, for each round."""
    contenders = row["contenders"]
    return np.divide(contenders[name]["seconds"], contenders[OURS]["seconds"])


def page(result: dict[str, Any]) -> str:
    """The Markdown page, made from the results file alone."""
    lines = ["# Pools of processes", "", f"A training step of SASRec with {THREADS} workers.", ""]
    for cpu, rows in result.items():
        lines += [f"## {cpu}", "",
                  "| | pool | ms a step | times the library's | (10th to 90th percentile) | ms to start |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        for name, row in rows.items():
            lines += [f"| {name} | {' | '.join(cells)} |" for cells in _cells(row)]
        lines += ["", verdict(rows), "", *(_remark(name, row) for name, row in rows.items()), ""]
    return "\n".join([*lines, "## How", "", HOW.strip(), "", "Made by `python benchmarks/pools.py`.", ""])


def _cells(row: dict[str, Any]) -> Iterator[list[str]]:
    for name, found in row["contenders"].items():
        low, middle, high = np.percentile(ratios(row, name), [10, 50, 90])
        compared = ["", ""] if name == OURS else [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        yield [name, f"{1e3 * np.median(found['seconds']):.1f}", *compared, f"{found['about']['ms to start']}"]


def _remark(name: str, row: dict[str, Any]) -> str:
    machine = row["machine"]
    return (
        f"- {name}: {MEASURED[name].title}; {row['rounds']} rounds of {STEPS} steps. {made_on(machine)}."
    )


def verdict(rows: dict[str, Any]) -> str:
    """Would a standard pool replace the library's? Only if its median ratio is at most NEAR in each configuration."""
    others = [name for name in CONTENDERS if name != OURS and all(name in row["contenders"] for row in rows.values())]
    worst = {name: max(float(np.median(ratios(row, name))) for row in rows.values()) for name in others}
    near = [name for name in others if worst[name] <= NEAR]
    worst_ratios = ", ".join(f"{name} {times:.2f}" for name, times in worst.items())
    return (
        f"Where they are farthest behind, the others take so many times as long as the library's pool: {worst_ratios}. "
        f"One that is within {NEAR:g} everywhere would take its place: {', '.join(near) or 'none is'}."
    )


HOW = f"""
Histories are drawn as for [training_step.md](training_step.md) without its data files.
Every pool trains in a process of its own, on the same batches from the same weights. In each round all are asked, one
after the other and in random order, to train on the {STEPS} batches once. Times are medians over rounds, ratios are
taken within a round. To start is everything from making the pool to the first gradient. The library's pool forks one
worker, and the parent computes as well; the others have {THREADS} workers, which
concurrent.futures forks. They are made to end with their parent: by themselves they outlive one that is killed.
Before that each gave the gradients of the library in float64, and after it all had the same parameters, bit by bit.
"""


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default=",".join(MEASURED), metavar="A,B", help=f"of {', '.join(MEASURED)}")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    if unknown := set(args.only.split(",")) - MEASURED.keys():
        parser.error(f"no configuration {', '.join(sorted(unknown))}: expected some of {', '.join(MEASURED)}")
    names = [name for name, package in CONTENDERS.items() if importlib.util.find_spec(package) is not None]
    machine = describe()
    for name in args.only.split(","):
        contenders = measure(MEASURED[name], names, args.rounds)
        result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        part = result.setdefault(machine["cpu"], {})
        part[name] = {"contenders": contenders, "machine": machine, "rounds": args.rounds}
        write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
