"""Compare Popularity and Markov on four data sets with the numbers of another implementation on the same files.

    python benchmarks/baselines.py --data DIR

These baselines only count, so both implementations must agree if the evaluation protocol is right. Full metrics must
agree to four digits. Metrics of uni100 must agree to .01 only, because its candidates are sampled.
Writes benchmarks/results/baselines.json and .md. The data is not part of this project.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, describe, made_on, write_pages, write_result
from tinyattn.data import leave_one_out, read
from tinyattn.evaluation import draw_candidates, evaluate
from tinyattn.models import Markov, Popularity

RESULT, PAGE = RESULTS / "baselines.json", RESULTS / "baselines.md"
METRICS = [("full", "hr@5"), ("full", "ndcg@5"), ("full", "hr@10"), ("full", "ndcg@10"), ("uni100", "hr@10"),
           ("uni100", "ndcg@10")]  # fmt: skip
# numbers that came with the files, from an implementation that shares no code with this one
REFERENCE = {
    "ml-1m": {
        "popularity": (0.0200, 0.0126, 0.0369, 0.0180, 0.4329, 0.2370),
        "markov": (0.1533, 0.1062, 0.2144, 0.1259, 0.6412, 0.4565),
    },
    "ml-100k": {
        "popularity": (0.0583, 0.0357, 0.0859, 0.0442, 0.4093, 0.2244),
        "markov": (0.0944, 0.0607, 0.1453, 0.0769, 0.5175, 0.3304),
    },
    "games-kang205": {
        "popularity": (0.0122, 0.0077, 0.0190, 0.0099, 0.4790, 0.2787),
        "markov": (0.0532, 0.0379, 0.0738, 0.0445, 0.5033, 0.3252),
    },
    "beauty-5core": {
        "popularity": (0.0081, 0.0044, 0.0120, 0.0056, 0.2889, 0.1494),
        "markov": (0.0517, 0.0390, 0.0670, 0.0440, 0.3220, 0.1997),
    },
}


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone: our numbers, with those of REFERENCE in brackets."""
    intro = "Ours, and in brackets the numbers of another implementation, which is not published, on the same file."
    lines = ["# Baselines, to the digit", "", intro, ""]
    titles = " | ".join(f"{protocol} {metric.upper()}" for protocol, metric in METRICS)
    lines += [f"| | | {titles} |", "|---|---|" + "---|" * len(METRICS)]
    for name, rows in result["rows"].items():
        for model, values in rows.items():
            pairs = zip(values, REFERENCE[name][model], strict=True)
            cells = " | ".join(f"{ours:.4f} ({theirs:.4f})" for ours, theirs in pairs)
            lines.append(f"| {name} | {model} | {cells} |")
    off = [
        [abs(round(ours, 4) - theirs) for ours, theirs in zip(values, REFERENCE[name][model], strict=True)]
        for name, rows in result["rows"].items()
        for model, values in rows.items()
    ]
    full, sampled = max(max(row[:4]) for row in off), max(max(row[4:]) for row in off)
    machine = result["machine"]
    lines += [
        "",
        f"Largest difference: {full:.4f} in full metrics, {sampled:.4f} in sampled ones, which depend on the draw.",
        "",
        f"Made by `python benchmarks/baselines.py --data DIR`, {made_on(machine)}. "
        "A mean rank that ends in a half counts as within k when fewer than k items stand before it on average "
        "(rank < k + 1): these references were counted so.",
        "",
    ]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, metavar="DIR")
    folder = parser.parse_args().data
    result: dict[str, Any] = {"machine": describe(), "rows": {}}
    for name in REFERENCE:
        path = folder / f"{name}.txt.gz"
        if not path.exists():
            print(f"skipped: {path} is not there")
            continue
        split = leave_one_out(read(path))
        candidates = {"uni100": draw_candidates(split, "uni100")}
        for model in (Popularity(), Markov()):
            found = evaluate(model.fit(split), split, ks=(5, 10), sampled=candidates)
            values = [round(found[protocol][metric], 5) for protocol, metric in METRICS]
            result["rows"].setdefault(name, {})[model.name] = values
            print(name, model.name, values)
    RESULTS.mkdir(exist_ok=True)
    write_result(RESULT, result)
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
