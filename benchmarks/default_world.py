"""The main job, `tinyattn train`, over several seeds: its table, its time, and the picture that README shows.

    python benchmarks/default_world.py [--seeds 3]              SASRec
    python benchmarks/default_world.py --others [--seeds 3]     what may stand in its place: OTHERS

Writes benchmarks/results/default_world.json, figures/attention.svg (SASRec's, of seed 0), and the block of README.md
that quotes them. A run of OTHERS that is there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import README, RESULTS, ROOT, clean_environment, describe, write_pages, write_result
from tinyattn.models import RunFolder, SASRec
from tinyattn.show import attention_map, save

RESULT, PICTURE = RESULTS / "default_world.json", ROOT / "figures" / "attention.svg"
HISTORY = "s12e3 s03e1 s01e1 s03e2 s01e2 s01e3 s03e3 s12e4"              # three series, in turn
OTHERS = {
    "GRU4Rec": "--model gru4rec",
    "SASRec, a window of 16": "--mechanism window --window 16",
    "SASRec, linear attention": "--mechanism linear",
    "SASRec, no positions": "--position none",
}
ROWS = {"popularity": "popularity", "markov": "Markov", "model": "**SASRec**", "optimum": "optimum"}


def measure(seeds: int) -> dict[str, Any]:
    """The runs; the weights of the first are drawn once all of them are there."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            out = Path(folder) / f"seed-{seed}"
            runs.append(train("", seed, out))
        save(picture(SASRec.load(Path(folder) / "seed-0" / "model.npz")), PICTURE)
    return {"machine": describe(), "command": "tinyattn train --seed S", "runs": runs}


def picture(model: Any) -> Any:
    """The weights of the last layer among eight episodes. -> matplotlib figure."""
    ids, weights = model.attention(HISTORY.split())
    title = f"weights in layer {len(weights)} of the trained model"
    return attention_map(weights[-1], ids, names=[title])


def train(flags: str, seed: int, out: Path) -> dict[str, Any]:
    """One training of the command with these flags: its seconds and metrics."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tinyattn", "train", *flags.split(), "--seed", str(seed), "--out", str(out)]
    subprocess.run(command, check=True, env=clean_environment())
    seconds = time.monotonic() - began
    metrics = {row: m["full"] for row, m in RunFolder(out).metrics().items()}
    return {"seed": seed, "seconds": round(seconds, 1), "metrics": metrics}


def measure_others(result: dict[str, Any], seeds: int) -> None:
    """Every row of OTHERS, written as it comes."""
    for title, flags in OTHERS.items():
        command = f"tinyattn train {flags} --seed S"
        row = result.setdefault("others", {}).setdefault(title, {"command": command, "runs": []})
        for seed in range(len(row["runs"]), seeds):
            with tempfile.TemporaryDirectory() as folder:
                row["runs"].append(train(flags, seed, Path(folder) / "run") | {"machine": describe()})
            write_result(RESULT, result)


def closed(run: dict[str, Any], name: str = "ndcg@10") -> float:
    """The part of the gap between Markov and the optimum that the model closes."""
    markov, model, optimum = (run["metrics"][row][name] for row in ("markov", "model", "optimum"))
    return (model - markov) / (optimum - markov)


def text(result: dict[str, Any]) -> str:
    """What README says, from the results file alone."""
    runs, machine = result["runs"], result["machine"]
    names = ("hr@10", "ndcg@10", "mrr")
    lines = ["| seed 0 | " + " | ".join(n.upper() for n in names) + " |", "|---|" + "---|" * len(names)]
    for row, title in ROWS.items():
        lines.append(f"| {title} | " + " | ".join(f"{runs[0]['metrics'][row][n]:.4f}" for n in names) + " |")
    for title, row in result.get("others", {}).items():
        values = row["runs"][0]["metrics"]["model"] if row["runs"] else {}
        if values:
            lines.insert(-1, f"| {title} | " + " | ".join(f"{values[n]:.4f}" for n in names) + " |")
    shares = {name: [100 * closed(run, name) for run in runs] for name in names}
    share = ", ".join(f"{min(v):.0f} to {max(v):.0f} % in {name.upper()}" for name, v in shares.items())
    seconds = [run["seconds"] for run in runs]
    lines += [
        "",
        "SASRec closes most of the gap between a Markov chain and the optimum: "
        f"{share} (over {len(runs)} seeds). A run took {min(seconds):.0f} to {max(seconds):.0f} s "
        f"on {machine['cores']} cores of {machine['cpu']} (NumPy {machine['numpy']}, Python {machine['python']}, "
        f"{machine['date']}). "
        "Figures: [benchmarks/results/default_world.json](benchmarks/results/default_world.json).",
    ]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    return {README: text(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--others", action="store_true", help=f"train {', '.join(OTHERS)} instead")
    options = parser.parse_args()
    RESULT.parent.mkdir(exist_ok=True)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if options.others:
        measure_others(result, options.seeds)
    else:
        result = result | measure(options.seeds)
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(text(result))


if __name__ == "__main__":
    main()
