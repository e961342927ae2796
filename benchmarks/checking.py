"""Measure the CPU time of `tinyattn check` on right code, with imports and all of its processes.

    python benchmarks/checking.py [--against COMMIT] [--rounds 3]

It checks the library's own implementation of every kind. With --against, COMMIT is checked out into a temporary folder,
and its checker checks its own library. The two take turns in each round, for every kind that both have. Both are
compiled before the first round. A check that fails ends the measurement.
Writes benchmarks/results/checking.json and .md, and a sentence in docs/check.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.against import Side, both
from benchmarks.children import environment, tell
from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result
from tinyattn.check.command import ours
from tinyattn.check.specs import SPECS

RESULT, PAGE, DOCS = RESULTS / "checking.json", RESULTS / "checking.md", ROOT / "docs" / "check.md"


def cost(side: Side, kind: str) -> tuple[float, int]:
    """-> user and system seconds of one check, and the number of cases it tried."""
    command = [sys.executable, "-m", "tinyattn", "check", ours(kind), "--as", kind]
    started = subprocess.Popen(
        command, cwd=side.root, env=environment(side.root, **side.settings), stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    report = started.stdout.read().strip()
    _, status, used = os.wait4(started.pid, 0)  # includes the child processes that it waited for
    started.returncode = os.waitstatus_to_exitcode(status)
    tries = re.search(r"all hold, in ([\d,]+) tries$", report)
    if started.returncode or tries is None:
        raise SystemExit(f"{side.commit} does not call {kind} right:\n{report}")
    return used.ru_utime + used.ru_stime, int(tries[1].replace(",", ""))


def kinds_of(side: Side) -> list[str]:
    """The kinds that this checkout's checker has."""
    command, env = "from tinyattn.check.specs import SPECS; print(*SPECS)", environment(side.root, **side.settings)
    return subprocess.check_output([sys.executable, "-c", command], cwd=side.root, env=env, text=True).split()


def measure(sides: tuple[Side, ...], rounds: int) -> dict[str, Any]:
    known = {side.name: kinds_of(side) for side in sides}
    found: dict[str, Any] = {
        kind: {side.name: {"commit": side.commit, "seconds": []} for side in sides if kind in known[side.name]}
        for kind in SPECS
    }
    for side in sides:
        cost(side, known[side.name][0])  # compiles its modules before the first round
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        for kind, row in found.items():
            for side in sides[:: 1 if number % 2 else -1]:
                if side.name in row:
                    seconds, row[side.name]["tries"] = cost(side, kind)
                    row[side.name]["seconds"].append(round(seconds, 3))
    return found


def median(row: dict[str, Any]) -> float:
    return float(np.median(row["seconds"]))


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    rows = result["kinds"]
    both_have = [row for row in rows.values() if "theirs" in row]
    two = bool(both_have)
    rounds = f"medians of {result['rounds']} rounds" if result["rounds"] > 1 else "one round"
    intro = "CPU seconds of `tinyattn check` on the library's own code, with imports and all processes; "
    lines = ["# What a check costs", "", f"{intro}{rounds}."]
    if two:
        ours, theirs = (both_have[0][name]["commit"] for name in ("ours", "theirs"))
        shares = [median(row["ours"]) / median(row["theirs"]) for row in both_have]
        lines[-1] += f" Ours is commit {ours}, theirs {theirs}. Ours takes {min(shares):.2f} to {max(shares):.2f} of "
        lines[-1] += "the time of theirs; a kind that theirs lacks has a dash."
    lines += ["", "| kind | ours |" + " theirs | ours / theirs |" * two + " cases tried |" + " theirs |" * two]
    lines += ["|---|---|---|" + "---|---|---|" * two]
    for kind, row in rows.items():
        our, their = row["ours"], row.get("theirs")
        cells = [f"`{kind}`", f"{median(our):.1f}"]
        cells += [f"{median(their):.1f}", f"{median(our) / median(their):.2f}"] if their else ["-", "-"] * two
        cells += [f"{side['tries']:,}" if side else "-" for side in (our, their)[: 1 + two]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Measured on {made_on(result['machine'])}, by `python benchmarks/checking.py`.", ""])


def sentence(result: dict[str, Any]) -> str:
    seconds = [median(row["ours"]) for row in result["kinds"].values()]
    return (
        f"A check of this library's code takes {min(seconds):.1f} to {max(seconds):.1f} seconds of CPU time, by kind, "
        f"on an {result['machine']['cpu']} ([{len(seconds)} kinds](../benchmarks/results/checking.md))."
    )


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {PAGE: page(result), DOCS: sentence(result)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="measure that commit's checker, too")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    machine = describe()
    alone = nullcontext((Side("ours", ROOT, machine["commit"]),))
    with both(args.against) if args.against is not None else alone as sides:
        result = {"machine": machine, "rounds": args.rounds, "kinds": measure(sides, args.rounds)}
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))
