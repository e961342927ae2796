"""The paper's ablations of SASRec, and its table of lengths (Kang & McAuley 2018, tables IV and V)."""

import statistics
from typing import Any

from .datasets import ML_1M
from .experiment import CLOSE_SEEDS, Experiment, Results, Row
from .pictures import Curves, Dots, Line, Picture
from .tables import TRAINING, cell, dots, figures, grid, page, ranked, table, values

NDCG = ("uni100", "ndcg@10")
COLUMNS = [NDCG, ("full", "ndcg@10")]
TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "epochs": 60, "patience": 0}
PUBLISHED, BY_LENGTH = "Kang & McAuley 2018, table IV, n 200", "Kang & McAuley 2018, by length"
ABLATIONS: dict[str, tuple[str, dict[str, Any], float]] = {
    "default": ("SASRec: two blocks, one head", {}, 0.5905),
    "no-positions": ("no positions", {"position": "none"}, 0.5772),
    "untied": ("untied item embedding", {"tied": False}, 0.4557),
    "no-residual": ("no residuals", {"block_form": "plain"}, 0.5535),
    "no-dropout": ("no dropout", {"dropout": 0.0}, 0.5801),
    "0-blocks": ("no block", {"blocks": 0}, 0.4830),
    "1-block": ("one block", {"blocks": 1}, 0.5653),
    "3-blocks": ("three blocks", {"blocks": 3}, 0.5931),
    "2-heads": ("two heads", {"heads": 2}, 0.5885),
}
# The rows above have n 50 and sixty epochs; these are trained to their end, some at the paper's n.
# key: title, options, published, minutes
TO_THE_END: dict[str, Any] = {"epochs": 300, "patience": 20, "dropout": 0.2}
LONGER: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "long-10": ("the default, n 10", {"maxlen": 10}, 0.480, 1),
    "long-10-longer": ("the default, n 10, 400 epochs, never stopped",
                       {"maxlen": 10, "epochs": 400, "patience": 0}, 0.480, 4),
    "long": ("the default, n 50", {}, 0.557, 6),
    "long-200": ("the default, n 200", {"maxlen": 200}, 0.5905, 14),
    "long-200-untied": ("untied item embedding, n 200", {"maxlen": 200, "tied": False}, 0.4557, 14),
    "long-200-no-dropout": ("no dropout, n 200", {"maxlen": 200, "dropout": 0.0}, 0.5801, 10),
}
LONGEST = f"""
At most {TO_THE_END['epochs']} epochs, with a patience of {TO_THE_END['patience']}, unless the row names others; the
second row was added when the first was more than .02 below the published value.
"""
LENGTHS = (10, 20, 50, 100, 200)
PUBLISHED_LENGTHS = {10: 0.480, 50: 0.557, 100: 0.571, 200: 0.587}


def _length(n: int) -> str:
    return "default" if n == TRAINED["maxlen"] else f"n-{n}"


def _page(experiment: Experiment, results: Results) -> str:
    lengths = grid(["seeds", "uni100 NDCG@10", "full NDCG@10", "published"], ((f"n {n}", [
        str(len(results[_length(n)]) or "to come"),
        *(cell(values(results[_length(n)], column)) for column in COLUMNS),
        f"*{PUBLISHED_LENGTHS[n]:.3f}*" if n in PUBLISHED_LENGTHS else "",
    ]) for n in LENGTHS))  # fmt: skip
    seconds = "What a length costs, measured with nothing else running: [seconds an epoch](../speed/README.md)."
    return page(experiment, results, [
        ["## What each part is worth"], table(experiment, results, list(ABLATIONS), COLUMNS),
        ranked(experiment, results, list(ABLATIONS), NDCG), ["## Length"], lengths, [seconds],
        figures(experiment, results),
        ["## Trained to the end", "", LONGEST.strip()],
        table(experiment, results, list(LONGER), COLUMNS, TRAINING),
    ])  # fmt: skip


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    ours = {n: statistics.mean(seeds) for n in LENGTHS if (seeds := values(results[_length(n)], NDCG))}
    lines: dict[str, Line] = {"ours": (list(ours), list(ours.values())),
                              "published": (list(PUBLISHED_LENGTHS), list(PUBLISHED_LENGTHS.values()))}  # fmt: skip
    return {
        "parts": Dots("NDCG@10 with each part changed, and published", "uni100 NDCG@10",
                      {"MovieLens 1M": dots(experiment, results, list(ABLATIONS), NDCG)}),
        "lengths": Curves("NDCG@10 by n, and published", "n", "uni100 NDCG@10",
                          {"MovieLens 1M": lines} if ours else {}),
    }  # fmt: skip


EXPERIMENT = Experiment(
    name="ablations",
    title="What each part of SASRec is worth",
    question="""
MovieLens 1M, the paper's form, n 50 unless the row names another, d 50, 60 epochs without early stopping, the same
budget for all rows; the epoch that validates best is kept. Four seeds of each part, as most were within two standard
deviations of each other after two; two seeds of each other length. The paper's ablations are at n 200.
""",
    datasets={"ml-1m": ML_1M},
    rows={
        key: Row(title, "ml-1m", "sasrec", TRAINED | {"dropout": 0.2} | options, {NDCG: published}, PUBLISHED, 3,
                 CLOSE_SEEDS)
        for key, (title, options, published) in ABLATIONS.items()
    } | {
        _length(n): Row(f"n {n}", "ml-1m", "sasrec", TRAINED | {"dropout": 0.2, "maxlen": n}, minutes=n / 15)
        for n in LENGTHS if n != TRAINED["maxlen"]
    } | {
        key: Row(title, "ml-1m", "sasrec", TRAINED | TO_THE_END | options, {NDCG: published},
                 PUBLISHED if options.get("maxlen") == 200 else BY_LENGTH, each, 1)
        for key, (title, options, published, each) in LONGER.items()
    },
    page=_page,
    pictures=_pictures,
    protocols=("full", "uni100"),
)  # fmt: skip
