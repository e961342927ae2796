"""How long ten million interactions take to read, and how much memory: generated, three forms.

    python benchmarks/reading.py [--rows 10000000]

Writes benchmarks/results/reading.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, ROOT, clean_environment, describe, write_readme

FORMS = {
    "user item time, integers, TAB": ("{}\t{}\t{}\n", 1),
    "user,item,rating,time, string ids": ("A{:09d},B{:09d},5.0,{}\n", 1),
    "user item time, gzipped": ("{}\t{}\t{}\n", 2),
}
READ = (
    "import json, resource, sys, time; from tinyattn.data import read; began = time.monotonic(); "
    "data = read(sys.argv[1]); print(json.dumps({'seconds': round(time.monotonic() - began, 1), "
    "'peak memory, GB': round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2), 'rows': len(data)}))"
)


def write(path: Path, rows: int, line: str, compressed: bool) -> None:
    """A file of `rows` lines, a million at a time, users in blocks and items by popularity."""
    rng = np.random.default_rng(0)
    with gzip.open(path, "wt", compresslevel=1) if compressed else path.open("w") as file:
        for begin in range(0, rows, 1_000_000):
            n = min(1_000_000, rows - begin)
            users = np.sort(rng.integers(begin // 50, begin // 50 + 20_000, n))
            items = rng.zipf(1.2, n) % 60_000
            times = rng.integers(1_500_000_000, 1_700_000_000, n)
            columns = zip(users.tolist(), items.tolist(), times.tolist(), strict=True)
            file.write("".join(line.format(*row) for row in columns))


def text(result: dict[str, Any]) -> str:
    """What README says, from the results file alone."""
    seconds = [form["seconds"] for form in result["forms"].values()]
    memory = max(form["peak memory, GB"] for form in result["forms"].values())
    rows = next(iter(result["forms"].values()))["rows"]
    machine = result["machine"]
    return (
        f"{rows:,} rows take {min(seconds):.0f} to {max(seconds):.0f} s and {memory:.1f} GB to read, plain or gzipped, "
        f"with numbers or words for ids ({machine['cpu']}, NumPy {machine['numpy']}, {machine['date']}; "
        "[benchmarks/results/reading.json](benchmarks/results/reading.json))."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (line, kind) in FORMS.items():
            path = Path(folder) / "interactions"
            write(path, rows, line, kind == 2)
            done = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True,
                                  env=clean_environment(), cwd=ROOT)  # fmt: skip
            found[name] = json.loads(done.stdout) | {"file, MB": round(path.stat().st_size / 1e6)}
            print(name, found[name])
    RESULTS.mkdir(exist_ok=True)
    result = {"machine": describe(), "forms": found}
    (RESULTS / "reading.json").write_text(json.dumps(result, indent=1) + "\n")
    write_readme("reading", text(result))


if __name__ == "__main__":
    main()
