"""How long does it take to read ten million generated interactions in three formats, and how much memory?

    python benchmarks/reading.py [--rows 10000000] [--rounds 3] [--against COMMIT | --parquet]

Each file is read in a process of its own. Time is processor time, the median over rounds; memory is the peak of the
process, the highest over rounds. With --against, the library of another commit reads the same files in the same rounds,
in a random order, and must read the same interactions. --parquet compares Parquet with text of the same rows; it needs
the extra `parquet`, and leaves the results without Parquet as they are.

Writes benchmarks/results/reading.json, which has one entry for each make of CPU that was measured.
"""

import argparse
import gzip
import json
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.against import Side, both
from benchmarks.children import environment
from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result

RESULT = RESULTS / "reading.json"
PIECE = 250_000          # rows written at a time: few, because the peak memory of a child starts at its parent's
FORMS = {
    "user item time, integers, TAB": ("{}\t{}\t{}\n", 1),
    "user,item,rating,time, string ids": ("A{:09d},B{:09d},5.0,{}\n", 1),
    "user item time, gzipped": ("{}\t{}\t{}\n", 2),
}
READ = """
import json, resource, sys, time
from tinyattn.data import read
began, by_clock = time.process_time(), time.monotonic()
data = read(sys.argv[1])
found = {"seconds": time.process_time() - began, "by the clock": time.monotonic() - by_clock}
found |= {"peak memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "rows": len(data)}
print(json.dumps(found | {"what": data.fingerprint()}))
"""


def write(path: Path, rows: int, line: str, compressed: bool) -> None:
    """A file of `rows` lines, users in blocks and items by popularity."""
    rng = np.random.default_rng(0)
    with gzip.open(path, "wt", compresslevel=1) if compressed else path.open("w") as file:
        for begin in range(0, rows, PIECE):
            n = min(PIECE, rows - begin)
            users = np.sort(rng.integers(begin // 50, begin // 50 + 20_000, n))
            items = rng.zipf(1.2, n) % 60_000
            times = rng.integers(1_500_000_000, 1_700_000_000, n)
            columns = zip(users.tolist(), items.tolist(), times.tolist(), strict=True)
            file.write("".join(line.format(*row) for row in columns))


def as_parquet(path: Path, separator: str) -> Path:
    """Write the rows of a text file as Parquet, with the usual names of columns."""
    csv, parquet = import_module("pyarrow.csv"), import_module("pyarrow.parquet")
    names = ["user_id", "item_id", *(["rating"] if separator == "," else []), "timestamp"]
    options = csv.ReadOptions(column_names=names), csv.ParseOptions(delimiter=separator)
    written, batches = path.with_suffix(".parquet"), csv.open_csv(path, *options)
    with parquet.ParquetWriter(written, batches.schema) as file:
        for batch in batches:
            file.write_batch(batch)
    return written


def once(side: Side, path: Path) -> dict[str, Any]:
    """Read the file once, with the library of this side -> seconds, memory, and a digest of the interactions."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ, str(path)],
        check=True, capture_output=True, text=True, cwd=side.root, env=environment(side.root, **side.settings),
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(sides: tuple[Side, ...], path: Path, rounds: int) -> dict[str, Any]:
    """{name of a side: median time, highest memory}. Ends the program where two sides read different interactions."""
    found: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in random.sample(sides, len(sides)):
            found[side.name].append(once(side, path))
    if len({(one["what"], one["rows"]) for ones in found.values() for one in ones}) > 1:
        raise SystemExit(f"not measured: {' and '.join(side.commit for side in sides)} read different things")
    return {
        name: {
            "seconds": round(statistics.median(one["seconds"] for one in ones), 2),
            "by the clock": round(statistics.median(one["by the clock"] for one in ones), 2),
            "peak memory, GB": round(max(one["peak memory, GB"] for one in ones), 2),
        }
        for name, ones in found.items()
    }


def text(results: dict[str, Any]) -> str:
    """The sentences of docs/data.md, made from the results file alone."""
    plain = [_sentence(result) for result in results.values() if "forms" in result]
    return " ".join(plain + [_on_parquet(result["parquet"]) for result in results.values() if "parquet" in result])


def _sentence(result: dict[str, Any]) -> str:
    forms, machine = result["forms"].values(), result["machine"]
    seconds = [form["ours"]["seconds"] for form in forms]
    memory = max(form["ours"]["peak memory, GB"] for form in forms)
    before = ""
    if "against" in result:
        times = [form["theirs"]["seconds"] / form["ours"]["seconds"] for form in forms]
        before = f", {min(times):.1f} to {max(times):.1f} times as fast as this library was at {result['against']}"
    return (
        f"{result['rows']:,} rows take {min(seconds):.0f} to {max(seconds):.0f} s of one core and {memory:.1f} GB to "
        f"read, plain or gzipped, with numbers or words for ids{before} ({made_on(machine)}; "
        "[benchmarks/results/reading.json](../benchmarks/results/reading.json))."
    )


def _on_parquet(result: dict[str, Any]) -> str:
    by_form = {form: [one[form]["ours"] for one in result["forms"].values()] for form in ("Parquet", "text")}
    spans = {form: _span([one["seconds"] for one in ones]) for form, ones in by_form.items()}
    most = {form: max(one["peak memory, GB"] for one in ones) for form, ones in by_form.items()}
    machine = result["machine"]
    return (
        f"As Parquet {result['rows']:,} rows take {spans['Parquet']} s of one core and {most['Parquet']:.1f} GB, and "
        f"as text {spans['text']} s and {most['text']:.1f} GB ({made_on(machine)})."
    )


def _span(seconds: list[float]) -> str:
    low, high = f"{min(seconds):.0f}", f"{max(seconds):.0f}"
    return low if low == high else f"{low} to {high}"


def pages() -> dict[Path, str]:
    return {ROOT / "docs" / "data.md": text(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--against", metavar="COMMIT")
    which.add_argument("--parquet", action="store_true")
    options = parser.parse_args()
    if options.parquet:
        beside_parquet(options.rows, options.rounds)
        return
    alone = nullcontext((Side("ours", ROOT, ""),))
    machine, found = describe(), {}
    with tempfile.TemporaryDirectory() as folder, both(options.against) if options.against else alone as sides:
        for name, (line, kind) in FORMS.items():
            path = Path(folder) / "interactions"
            write(path, options.rows, line, kind == 2)
            found[name] = measured(sides, path, options.rounds) | {"file, MB": round(path.stat().st_size / 1e6)}
            print(name, found[name])
        against = {"against": sides[-1].commit} if options.against else {}
    about = {"machine": machine, "rows": options.rows, "rounds": options.rounds} | against
    keep(machine["cpu"], about | {"forms": found})


def beside_parquet(rows: int, rounds: int) -> None:
    """Compare Parquet with text, for the forms in `FORMS` that are not gzipped."""
    machine, alone, found = describe(), (Side("ours", ROOT, ""),), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (line, kind) in FORMS.items():
            if kind == 1:
                path = Path(folder) / "interactions"
                write(path, rows, line, False)
                files = {"text": path, "Parquet": as_parquet(path, "," if "," in line else "\t")}
                found[name] = {
                    form: measured(alone, file, rounds) | {"file, MB": round(file.stat().st_size / 1e6)}
                    for form, file in files.items()
                }
                print(name, found[name])
    keep(machine["cpu"], {"parquet": {"machine": machine, "rows": rows, "rounds": rounds, "forms": found}})


def keep(cpu: str, found: dict[str, Any]) -> None:
    """Write the numbers of this make of CPU, and keep its older ones that were not measured now."""
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[cpu] = result.get(cpu, {}) | found
    RESULTS.mkdir(exist_ok=True)
    write_result(RESULT, result)
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
