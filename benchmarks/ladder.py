"""How much faster does each of tinyattn's optimizations make a training step?

Two measurements: the library without one of them, and a textbook implementation that adds them one by one (the ladder).

    python benchmarks/ladder.py [--data DIR] [--rounds 9] [--config A,B,C] [--rungs ladder,threads,..] [--again]

Batches, weights and DIR are those of benchmarks/training_step.py. A rung is one such optimization
(benchmarks/peers/rungs.py); `ladder` among --rungs stands for all steps of the ladder. Each rung's loss and gradients
are first compared with the library's, because an optimization must not change results. Writes
benchmarks/results/ladder.json, which keeps the results of other makes of CPU, after every few rungs, and ladder.md at
the end. Without --again, results of the same code on the same machine are kept.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import check, in_rounds, refuse, tell
from benchmarks.machine import (
    RESULTS,
    SPEED,
    by_make,
    describe,
    describe_code,
    made_on,
    makes_in,
    newest,
    others,
    unlike,
    write_make,
    write_pages,
)
from benchmarks.peers import THREADS
from benchmarks.peers.child import TOLERANCE
from benchmarks.peers.rungs import AS_IT_IS, FROM_THE_TEXTBOOK, RUNGS, TEXTBOOK, applies, ladder
from benchmarks.training_step import CONFIGURATIONS, SEED, STEPS, Configuration, draw, folder_of, given

RESULT, PAGE = RESULTS / "ladder.json", RESULTS / "ladder.md"
TOGETHER = 4  # rungs that are measured in the same rounds, beside the unchanged library
SHOWN = ("A", "B", "C")
ALL_STEPS = "ladder"  # among rungs: every step of the ladder


def measure(
    configuration: Configuration, names: list[str], rounds: int, data: Path | None
) -> dict[str, dict[str, Any]]:
    """Measure each of `names` beside the unchanged library, whose seconds go under "beside"."""
    everyone = [*names, *({AS_IT_IS} - set(names))]
    with folder_of(*given(configuration, data)) as folder:
        checked = check(everyone, folder, "rungs")
        refuse(checked)
        found = in_rounds(everyone, folder, rounds, SEED, "rungs")
    beside = found[AS_IT_IS]["seconds"]
    kept = ("seconds", "idle", "peak", "own")
    return {
        name: {key: found[name][key] for key in kept} | {"check": checked[name], "beside": beside} for name in names
    }


def ratios(row: dict[str, Any]) -> np.ndarray:
    """Time without the optimization / time with it, for every round."""
    return np.divide(row["seconds"], row["beside"])


def tables(result: dict[str, Any]) -> str:
    """Both tables, as docs/speed.md quotes them."""
    rounds = "; ".join(sorted({f"{row['options']['rounds']} rounds" for row in result.values()}))
    made = f"{made_on(*(row['machine'] for row in result.values()))}; {rounds}:"
    lines = ["### Up from the textbook", "", LADDER.strip(), "", made, "", *_ladder(result)]
    return "\n".join([*lines, "", "### One choice taken away", "", TAKEN_AWAY.strip(), "", *_taken_away(result)])


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    lines = ["# What each choice bought", ""]
    lines += [f"- {key}: {row['title']}" for key, row in result.items()]
    lines += ["", tables(result).replace("### ", "## ")]
    lines += ["", "## How", "", HOW.strip(), "", *(_remark(key, row) for key, row in result.items())]
    return "\n".join([*lines, "", "Made by `python benchmarks/ladder.py`.", ""])


def _ladder(result: dict[str, Any]) -> list[str]:
    """A line for each rung: ms of a step that has it and all before it, and the speed-up over the line before."""
    lines = ["| | " + " | ".join(f"{key}, ms | gain" for key in result) + " |", "|---|" + "---|---|" * len(result)]
    columns = {key: _climbed(key, row["rungs"]) for key, row in result.items()}
    titles = {TEXTBOOK: "a textbook's way"} | {name: f"+ {RUNGS[name].choice}" for name in FROM_THE_TEXTBOOK}
    for name, title in [*titles.items(), ("", "**all of them**")]:
        lines.append(f"| {title} | {' | '.join(columns[key].get(name, '- | -') for key in result)} |")
    return lines


def _climbed(key: str, rungs: dict[str, Any]) -> dict[str, str]:
    """A configuration's cells, by the rung that is added; under "" the speed-up of the last step over the first."""
    found, before, first, slower = {}, None, None, None
    for name, contender in ladder(key).items():
        row = rungs.get(contender)
        slower = None if row is None else float(np.median(ratios(row)))  # relative to the unchanged library
        first = slower if name == TEXTBOOK else first
        gain = f"{before / slower:.2f}" if before and slower else ""
        found[name] = f"{slower * _as_it_is(rungs):.1f} | {gain}" if slower else " | "
        before = slower
    found[""] = f" | **{first / slower:.1f}**" if first and slower else " | "
    return found


def _as_it_is(rungs: dict[str, Any]) -> float:
    """ms of a step of the unchanged library: the median over all its measurements."""
    return 1e3 * float(np.median(np.concatenate([row["beside"] for row in rungs.values()])))


def _taken_away(result: dict[str, Any]) -> list[str]:
    lines = ["| the library's choice | instead | " + " | ".join(result) + " |", "|---|---|" + "---|" * len(result)]
    if not any(row["rungs"] for row in result.values()):
        return []
    shown = [f"{_as_it_is(row['rungs']):.1f} ms" if row["rungs"] else "" for row in result.values()]
    lines.append(f"| **the library as it is** | | {' | '.join(shown)} |")
    previous = ""
    for name, rung in RUNGS.items():
        cells = []
        for key, row in result.items():
            cell = "-" if not applies(name, key) else ""
            if name in row["rungs"]:
                low, middle, high = np.percentile(ratios(row["rungs"][name]), [10, 50, 90])
                cell = f"{middle:.2f} ({low:.2f} to {high:.2f})"
            cells.append(cell)
        lines.append(f"| {'' if rung.choice == previous else rung.choice} | {rung.instead} | {' | '.join(cells)} |")
        previous = rung.choice
    return lines


def _remark(key: str, row: dict[str, Any]) -> str:
    machine, rungs = row["machine"], row["rungs"].values()
    worst = max(rungs, key=lambda rung: rung["check"]["off"])["check"]
    return (
        f"- {key}: {row['tokens']:,.0f} real tokens a step, {row['padded']:,.0f} with padding; lengths "
        f"{row['options']['lengths']}; {row['options']['rounds']} rounds of {STEPS} steps. "
        f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, NumPy {machine['numpy']}, code of "
        f"commit {machine['commit']}, {machine['date']}; OPENBLAS_CORETYPE was {row['OPENBLAS_CORETYPE'] or 'not set'} "
        f"and is not set for any process. The check's worst: {worst['worst']}, off by {worst['off']:.0e}. At most "
        f"{100 * max(rung['idle'] for rung in rungs):.1f} % of a core while a process waited."
    )


LADDER = """
From what a textbook would do to the library as it is, one choice more a line. Gain: how many times as fast as the line
before. The time of each line is divided by that of the library as it is, in the same rounds; the gain is the ratio of
two medians of these. The textbook's way is the same network with the same layers: one process takes the whole batch, as
wide as its longest history, through the readable `attention`, sums with `np.sum`, draws masks with `rng.random`, adds
up embedding gradients with `np.add.at`, and Adam moves every row.
"""
TAKEN_AWAY = """
The library with all its choices but one: its time over that of the library as it is, in the same rounds (10 to 90 % of
rounds). Below 1: it would be faster without. What a choice is worth depends on the others, so gains above and costs
here need not agree.
"""
HOW = f"""
Each rung is the library, in a process of its own, with the functions of a choice replaced by their plain counterparts
(benchmarks/peers/rungs.py). A replacement that reaches nothing, or is never called, is an error. Each gave, without
dropout, the library's loss and all gradients in float64 to {TOLERANCE:g} of a parameter's largest. Up to {TOGETHER} of
them and the library as it is train on the same {STEPS} batches, one after the other and in random order each round,
with {THREADS} workers unless a line says otherwise. Ratios are taken within a round, and their median counts; ms in the
first table are that median times the ms of the library as it is, the median over all rounds.
"""


def pages() -> dict[Path, str]:
    makes = makes_in(RESULT)
    return {PAGE: by_make(makes, page), SPEED: tables(newest(makes)) + others(makes, PAGE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the two data files, for real lengths")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--config", default=",".join(SHOWN), metavar="A,B", help="configurations")
    parser.add_argument(
        "--rungs",
        default=",".join([ALL_STEPS, *RUNGS]),
        metavar="NAME,NAME",
        help=f"{ALL_STEPS}, and {', '.join(RUNGS)}",
    )
    parser.add_argument("--again", action="store_true", help="repeat measurements that there are already")
    args = parser.parse_args()
    for words, known in ((args.config, SHOWN), (args.rungs, [ALL_STEPS, *RUNGS])):
        unknown = [name for name in words.split(",") if name not in known]
        if unknown:
            parser.error(f"{', '.join(unknown)}: expected some of {', '.join(known)}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    result = makes_in(RESULT).get(describe()["cpu"], {})
    for key in args.config.split(","):
        names = [name for name in args.rungs.split(",") if name != ALL_STEPS and applies(name, key)]
        if ALL_STEPS in args.rungs.split(","):
            names = list(dict.fromkeys([*ladder(key).values(), *names]))
        row = _kept(key, result, args)
        result = {k: row if k == key else result[k] for k in SHOWN if k in result or k == key}
        todo = [name for name in names if args.again or name not in row["rungs"]]
        tell(f"{key}: {row['title']}: {len(names) - len(todo)} rungs measured already, {len(todo)} to do")
        for group in [todo[i : i + TOGETHER] for i in range(0, len(todo), TOGETHER)]:
            row["rungs"] |= measure(CONFIGURATIONS[key], group, args.rounds, args.data)
            RESULTS.mkdir(exist_ok=True)
            write_make(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


def _kept(key: str, result: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """The configuration's known row if its code, machine and options are today's, else a new one."""
    machine = describe_code("tinyattn", *(f"benchmarks/peers/{name}.py" for name in ("rungs", "patch", "ours")))
    options = {"rounds": args.rounds, "lengths": "drawn" if args.data is None else "real"}
    old = result.get(key)
    if old is not None:
        same = old["machine"]["commit"] == machine["commit"] and not unlike(old["machine"], machine)
        if same and old["options"] == options:
            return old
        tell(f"{key}: what was measured with other code or options, or on another machine, is left out")
    batches = draw(CONFIGURATIONS[key], args.data)
    return {
        "title": CONFIGURATIONS[key].title,
        "tokens": float(np.mean([np.sum(batch.weight) for batch in batches])),
        "padded": float(np.mean([batch.ids.size for batch in batches])),
        "machine": machine,
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
        "options": options,
        "rungs": {},
    }


if __name__ == "__main__":
    main()
