"""Train with the defaults of `tinyattn train`, over seeds and processor types, for README's table and picture.

    python benchmarks/default_world.py [--seeds 3]              SASRec
    python benchmarks/default_world.py --others [--seeds 2]     the alternatives to it: OTHERS

The last digits of a product depend on the processor, and the epoch that validates best may depend on these digits. So
each seed is trained twice: with the kernels that OpenBLAS and NumPy choose here, and with those for AVX2 (MAKES),
which processors without AVX-512 use. Each make of processor has runs of these in the results file.

Writes benchmarks/results/default_world.json after each run, figures/attention.svg (from SASRec with seed 0), and the
block of README.md that quotes the results. A run that is in the results file is not repeated on a CPU of the same make.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import README, RESULTS, ROOT, clean_environment, describe, made_on, write_pages, write_result
from tinyattn.machine import avx2
from tinyattn.models import RunFolder, SASRec
from tinyattn.show import attention_map, save

RESULT, PICTURE = RESULTS / "default_world.json", ROOT / "figures" / "attention.svg"
HISTORY = "s12e3 s03e1 s01e1 s03e2 s01e2 s01e3 s03e3 s12e4"              # three series, in turn
MAKES: dict[str, dict[str, str]] = {                                     # {kernels: environment variables}
    "its own": {},
    **({"AVX2": avx2()} if avx2() else {}),                              # a processor without it has one kind alone
}
OTHERS = {
    "GRU4Rec": "--model gru4rec",
    "SASRec, a window of 16": "--mechanism window --window 16",
    "SASRec, linear attention": "--mechanism linear",
    "SASRec, no positions": "--position none",
}
ROWS = {"popularity": "popularity", "markov": "Markov", "model": "**SASRec**", "optimum": "optimum"}
NAMES = ("hr@10", "ndcg@10", "mrr")


def measure(result: dict[str, Any], seeds: int) -> None:
    """Train every missing run of SASRec; draw the attention weights of the first."""
    runs = result.setdefault("runs", [])
    result["command"] = "tinyattn train --seed S"
    for seed in range(seeds):
        for make in MAKES:
            if any((run["seed"], run["kernels"], cpu(run)) == (seed, make, describe()["cpu"]) for run in runs):
                continue
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                runs.append(train("", seed, out, make))
                if not seed and not MAKES[make]:
                    save(picture(SASRec.load(out / "model.npz")), PICTURE)
            write_result(RESULT, result)


def picture(model: Any) -> Any:
    """The attention weights of the last layer between eight episodes. -> matplotlib figure."""
    ids, weights = model.attention(HISTORY.split())
    title = f"weights in layer {len(weights)} of the trained model"
    return attention_map(weights[-1], ids, names=[title])


def train(flags: str, seed: int, out: Path, make: str = "its own") -> dict[str, Any]:
    """Run `tinyattn train` with these flags. -> its metrics, and the CPU seconds of all its processes."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tinyattn", "train", *flags.split(), "--seed", str(seed), "--out", str(out)]
    subprocess.run(command, check=True, env=clean_environment() | MAKES[make])
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    run = RunFolder(out)
    metrics = {row: m["full"] for row, m in run.metrics().items() if "full" in m}
    epochs = len((out / "training.csv").read_text().splitlines()) - 1
    return {
        "seed": seed, "kernels": make, "epochs": epochs, "cpu_seconds": round(seconds, 1), "metrics": metrics,
        "machine": describe(),
    }  # fmt: skip


def cpu(run: dict[str, Any]) -> str:
    return str(run["machine"]["cpu"])


def measure_others(result: dict[str, Any], seeds: int) -> None:
    """Train every missing run of OTHERS, and write the results after each."""
    for seed in range(seeds):
        for title, flags in OTHERS.items():
            command = f"tinyattn train {flags} --seed S"
            row = result.setdefault("others", {}).setdefault(title, {"command": command, "runs": []})
            if all((run["seed"], cpu(run)) != (seed, describe()["cpu"]) for run in row["runs"]):
                with tempfile.TemporaryDirectory() as folder:
                    row["runs"].append(train(flags, seed, Path(folder) / "run"))
                write_result(RESULT, result)


def closed(run: dict[str, Any], name: str = "ndcg@10") -> float:
    """The share of the gap between Markov and the optimum that the model closes."""
    markov, model, optimum = (run["metrics"][row][name] for row in ("markov", "model", "optimum"))
    return float((model - markov) / (optimum - markov))


def reach(numbers: Iterable[float], digits: int) -> tuple[float, float]:
    """The minimum, rounded down, and the maximum, rounded up."""
    values, unit = list(numbers), 10.0**digits
    return math.floor(min(values) * unit) / unit, math.ceil(max(values) * unit) / unit


def between(numbers: Iterable[float], digits: int = 2) -> str:
    low, high = (f"{end:.{digits}f}" for end in reach(numbers, digits))
    return low if low == high else f"{low} to {high}"


def text(result: dict[str, Any]) -> str:
    """README's table and paragraph, from the results file alone."""
    runs, others = result["runs"], result.get("others", {})
    lines = [f"| | {' | '.join(name.upper() for name in NAMES)} |", "|---|" + "---|" * len(NAMES)]
    for row, title in ROWS.items():
        seen = [run["metrics"][row] for run in runs]
        cells = [between(m[n] for m in seen) if row == "model" else f"{seen[0][n]:.4f}" for n in NAMES]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for title, row in others.items():
        seen = [run["metrics"]["model"] for run in row["runs"]]
        lines.insert(-1, f"| {title} | {' | '.join(between(m[n] for m in seen) for n in NAMES)} |")
    share = ", ".join(f"{between((100 * closed(run, n) for run in runs), 0)} % in {n.upper()}" for n in NAMES)
    seconds, seeds = [run["cpu_seconds"] for run in runs], {run["seed"] for run in runs}
    every = [*runs, *(run for row in others.values() for run in row["runs"])]
    fewer = " or ".join(sorted({str(len({run["seed"] for run in row["runs"]})) for row in others.values()}))
    cpus = list(dict.fromkeys(map(cpu, runs)))
    lines += [
        "",
        "Trained rows show a range, rounded outwards: another seed, or a processor that rounds differently, ends a "
        f"little elsewhere. SASRec was trained with {len(seeds)} seeds, each by the kernels that OpenBLAS "
        f"and NumPy choose for {' and '.join(cpus)}, and by those for AVX2, as processors without AVX-512 "
        f"use; the others with {fewer}, by the former. SASRec closes most of the gap between a Markov chain and the "
        f"optimum: {share}. Its runs took {between(seconds, 0)} s of CPU time each, of all cores together "
        f"({made_on(*(run['machine'] for run in every))}). "
        "Figures: [benchmarks/results/default_world.json](benchmarks/results/default_world.json).",
    ]  # fmt: skip
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    return {README: text(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="number of seeds (default: 3; with --others 2)")
    parser.add_argument("--others", action="store_true", help=f"train {', '.join(OTHERS)} instead")
    options = parser.parse_args()
    RESULT.parent.mkdir(exist_ok=True)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if options.others:
        measure_others(result, options.seeds or 2)
    else:
        measure(result, options.seeds or 3)
    write_pages(__file__, pages())
    print(text(result))


if __name__ == "__main__":
    main()
