"""Seconds an epoch of three networks of equal size (Kang & McAuley 2018, section IV-F, "training efficiency")."""

from __future__ import annotations

import statistics
from typing import Any

from .datasets import ML_1M
from .experiment import Experiment, Results, Row
from .tables import heading, page

TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "dropout": 0.2, "epochs": 3, "patience": 0}
MODELS: dict[str, tuple[str, str]] = {
    "sasrec": ("SASRec", "sasrec"),
    "gru4rec": ("GRU4Rec, basic form", "gru4rec"),
    "caser": ("Caser", "caser"),
}


def _page(experiment: Experiment, results: Results) -> str:
    lines = heading(["seconds an epoch", "beside SASRec", "rounds"])
    base = [run["epoch_seconds"] for run in results["sasrec"]]
    for key, (title, _) in MODELS.items():
        mine = [run["epoch_seconds"] for run in results[key]]
        ratios = [a / b for a, b in zip(mine, base, strict=False)]
        cells = [f"{statistics.median(mine):.2f}", f"{statistics.median(ratios):.2f}"] if ratios else ["", ""]
        lines.append(f"| {title} | {' | '.join(cells)} | {len(mine) or 'to come'} |")
    return page(experiment, results, [lines])


EXPERIMENT = Experiment(
    name="speed",
    title="Seconds an epoch",
    question="""
Training steps of an epoch on MovieLens 1M, n 50 and d 50, BCE with one negative, one core. Rows take turns, one run
at a time: a round is a seed, times are medians over rounds, and ratios medians of those within a round. The paper
has SASRec an order of magnitude faster than Caser and GRU4Rec+, on a GPU.
""",
    datasets={"ml-1m": ML_1M},
    rows={key: Row(title, "ml-1m", model, TRAINED, minutes=0.3) for key, (title, model) in MODELS.items()},
    page=_page,
    seeds=5,
    alone=True,
)
