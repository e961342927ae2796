"""Write the verdicts and the table of docs/awrsr.md, from the runs of the experiment awrsr and the cost of refinements.

    python benchmarks/awrsr.py

It reads benchmarks/results/reproduce/awrsr and benchmarks/results/refinements.json, and trains nothing. Missing runs
are listed as still to come.
"""

import json
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import refinements
from benchmarks.machine import RESULTS, ROOT, read_no_arguments, write_pages
from tinyattn.experiments import EXPERIMENTS, Results, results_of
from tinyattn.experiments.awrsr.checks import checks
from tinyattn.experiments.awrsr.claims import gain, ndcg5, other_seeds, verdicts
from tinyattn.experiments.awrsr.grid import (
    BACKBONES,
    DATASETS,
    LATER,
    NDCG5_PRINTED,
    OF_BACKBONE,
    PUBLISHED,
    published_gain,
)
from tinyattn.experiments.tables import cell, heading, made, to_come

PAGE = ROOT / "docs" / "awrsr.md"
AWRSR, DEPTH = EXPERIMENTS["awrsr"], EXPERIMENTS["awrsr-depth"]
BESIDE = ("popularity", "markov", "sasrec-ce", "stosa-released")


def table(results: Results) -> list[str]:
    """NDCG@5 of every model with one layer, and the gain from each refinement, on both data sets."""
    shown = "gain, % of the backbone's"
    lines = heading([column for data in DATASETS.values() for column in (data.title, shown, "published")])
    for key in BESIDE:
        cells = [(_score(results[f"{data}-{key}"]), "", "") for data in DATASETS]
        lines.append(_line(AWRSR.rows[f"ml-1m-{key}"].title, cells))
    for backbone, (title, *_) in BACKBONES.items():
        backbones = {data: results[f"{data}-{backbone}-none"] for data in DATASETS}
        theirs = {data: PUBLISHED[data, backbone]["none"][NDCG5_PRINTED] for data in DATASETS}
        cells = [(_score(runs), "", f"*{theirs[data]:.4f}*") for data, runs in backbones.items()]
        lines.append(_line(f"**{title}**", cells))
        cells = [(_score(others), gain(others, first), "") for others, first in map(other_seeds, backbones.values())]
        lines.append(_line(f"{title}, other seeds beside the first", cells))
        for form in OF_BACKBONE[backbone][1:] + LATER[backbone]:
            cells = []
            for data, plain in backbones.items():
                runs, published = results[f"{data}-{backbone}-{form}"], published_gain(data, backbone, form)
                paper = "" if published is None else f"*{published:+.1%}*"
                cells.append((_score(runs), gain(runs, plain), paper))
            lines.append(_line(AWRSR.rows[f"ml-1m-{backbone}-{form}"].title, cells))
    return lines


def _line(title: str, cells: list[tuple[str, ...]]) -> str:
    return f"| {title} | {' | '.join(part for three in cells for part in three)} |"


def _score(runs: list[dict[str, Any]]) -> str:
    return cell([ndcg5(run) for run in runs]) or "to come"


def block(results: Results, costs: dict[str, Any]) -> str:
    deep = to_come(DEPTH, results_of(DEPTH, RESULTS / "reproduce" / DEPTH.name))
    return "\n".join([
        *verdicts(results, {"the cost is negligible": refinements.verdict(costs)}), "",
        *checks(results), "",
        *table(results), "",
        "NDCG@5 under full ranking. Means ± standard deviations over seeds; in brackets intervals of 95 % over seeds. "
        "Published: the NDCG@5 of backbones, and the gains of refinements. "
        f"{made(results)} {to_come(AWRSR, results)}{deep and f'Of STOSA with several layers {deep}'}".strip(),
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    results = results_of(AWRSR, RESULTS / "reproduce" / "awrsr")
    return {PAGE: block(results, json.loads(refinements.RESULT.read_text()))}


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
