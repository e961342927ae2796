"""Time and memory of the commands on generated files of 2 and 20 million rows, for docs/models.md.

    python benchmarks/millions.py [--rows 2000000 20000000]

Each command is a process that reads its data itself. Time is the CPU time of all its threads, memory its peak. Writes
benchmarks/results/millions.json, with an entry for each number of rows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.children import environment
from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result

RESULT = RESULTS / "millions.json"
ITEMS = 26_000
PIECE = 100_000          # rows written at a time: few, because a child's peak memory starts at its parent's
A_USER = 145             # mean number of rows of a user, as in MovieLens 20M
COMMANDS = {
    "data FILE": "data {file}",
    "train FILE --epochs 1": "train {file} --epochs 1 --workers 1 --maxlen 50 --valid-users 10000 "
                             "--baselines popularity --out {run}",
    "evaluate RUN": "evaluate {run} --baselines popularity",
    "recommend RUN --users all": "recommend {run} --users all --out {best}",
}  # fmt: skip


def write(path: Path, rows: int) -> None:
    """Write lines of user, item and time; half of the items are popular ones, half are of the user's group."""
    rng, users = np.random.default_rng(0), rows // A_USER
    with path.open("w") as file:
        for begin in range(0, rows, PIECE):
            n = min(PIECE, rows - begin)
            user = rng.integers(0, users, n)
            popular = np.minimum(rng.zipf(1.3, n) - 1, ITEMS - 1)
            item = np.where(rng.random(n) < 0.5, popular, (user % 260) * 100 + rng.integers(0, 100, n))
            time = rng.integers(1_500_000_000, 1_700_000_000, n)
            columns = zip(user.tolist(), item.tolist(), time.tolist(), strict=True)
            file.write("".join(map("{0[0]}\t{0[1]}\t{0[2]}\n".format, columns)))


def measured(command: str) -> dict[str, float]:
    """CPU seconds of a command, and its peak memory in GB. Exits if the command fails."""
    words = [sys.executable, "-P", "-m", "tinyattn", *command.split()]
    process = subprocess.Popen(words, env=environment(ROOT), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tinyattn {command} ended with {process.returncode}")
    return {"seconds": round(used.ru_utime + used.ru_stime, 1), "peak memory, GB": round(used.ru_maxrss / 1e6, 2)}


def text(result: dict[str, Any]) -> str:
    """The table of docs/models.md, from the results file alone."""
    sizes = sorted(result.values(), key=lambda one: one["rows"])
    titles = [f"{one['rows'] // 1_000_000} million rows" for one in sizes]
    lines = [f"| `tinyattn` | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    for name in COMMANDS:
        took = (one["commands"].get(name) for one in sizes)
        cells = (f"{_time(each['seconds'])}, {each['peak memory, GB']:.1f} GB" if each else "" for each in took)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    machine = sizes[-1]["machine"]
    users = " and ".join(f"{one['rows'] // A_USER:,}" for one in sizes)
    about = (
        f"Processor time and peak memory of each command, which reads the file again: {users} users, {ITEMS:,} items, "
        f"SASRec as it is by default, validation on 10,000 users ({made_on(machine)}; "
        "[benchmarks/results/millions.json](../benchmarks/results/millions.json))."
    )
    return "\n".join([*lines, "", about])


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def pages() -> dict[Path, str]:
    return {ROOT / "docs" / "models.md": text(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 20_000_000])
    options = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            names = {name: f"{folder}/{name}" for name in ("file", "run", "best")}
            write(Path(names["file"]), rows)
            found: dict[str, Any] = {}
            result[str(rows)] = {"machine": describe(), "rows": rows, "commands": found}
            for name, command in COMMANDS.items():
                found[name] = measured(command.format(**names))
                print(rows, name, found[name], flush=True)
                write_result(RESULT, result)
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
