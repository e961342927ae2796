"""The paper's ablations of SASRec, and its table of lengths (Kang & McAuley 2018, tables IV and V)."""

from __future__ import annotations

from typing import Any

from .datasets import ML_1M
from .experiment import Experiment, Results, Row
from .tables import cell, heading, page, table

NDCG = ("uni100", "ndcg@10")
COLUMNS = [NDCG, ("full", "ndcg@10")]
TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "epochs": 60, "patience": 0}
PUBLISHED = "Kang & McAuley 2018, table IV, n 200"
ABLATIONS: dict[str, tuple[str, dict[str, Any], float]] = {
    "default": ("SASRec: two blocks, one head", {}, 0.5905),
    "no-positions": ("no positions", {"position": "none"}, 0.5772),
    "untied": ("a table of its own for scores", {"tied": False}, 0.4557),
    "no-residual": ("no residuals", {"block_form": "plain"}, 0.5535),
    "no-dropout": ("no dropout", {"dropout": 0.0}, 0.5801),
    "0-blocks": ("no block", {"blocks": 0}, 0.4830),
    "1-block": ("one block", {"blocks": 1}, 0.5653),
    "3-blocks": ("three blocks", {"blocks": 3}, 0.5931),
    "2-heads": ("two heads", {"heads": 2}, 0.5885),
}
LENGTHS = {10: 0.480, 50: 0.557, 100: 0.571, 200: 0.587}


def _length(n: int) -> str:
    return "default" if n == TRAINED["maxlen"] else f"n-{n}"


def _page(experiment: Experiment, results: Results) -> str:
    lengths = heading(["seeds", "uni100 NDCG@10", "full NDCG@10", "seconds an epoch", "published"])
    for n in (10, 20, 50, 100, 200):
        runs = results[_length(n)]
        found = [cell([run["metrics"][p][m] for run in runs]) for p, m in COLUMNS]
        seconds = cell([run["epoch_seconds"] for run in runs], digits=1)
        theirs = f"*{LENGTHS[n]:.3f}*" if n in LENGTHS else ""
        lengths.append(f"| n {n} | {len(runs) or 'to come'} | {' | '.join(found)} | {seconds} | {theirs} |")
    return page(experiment, results, [
        ["## What each part is worth"], table(experiment, results, list(ABLATIONS), COLUMNS), ["## Length"], lengths,
    ])  # fmt: skip


EXPERIMENT = Experiment(
    name="ablations",
    title="What each part of SASRec is worth",
    question="""
MovieLens 1M, the paper's form, n 50 unless the row says another, d 50, 60 epochs without early stopping, so that
all rows have the same budget; the epoch that validates best is kept. The paper's own ablations are at n 200.
Seconds are those of training, on one core, while another run had the other.
""",
    datasets={"ml-1m": ML_1M},
    rows={
        key: Row(title, "ml-1m", "sasrec", TRAINED | {"dropout": 0.2} | options, {NDCG: published}, PUBLISHED, 3)
        for key, (title, options, published) in ABLATIONS.items()
    } | {
        _length(n): Row(f"n {n}", "ml-1m", "sasrec", TRAINED | {"dropout": 0.2, "maxlen": n}, minutes=n / 15)
        for n in (10, 20, 100, 200)
    },
    page=_page,
    protocols=("full", "uni100"),
)  # fmt: skip
