"""SASRec, a recurrent network and a Markov chain on ever shorter histories."""

import statistics
from dataclasses import replace
from typing import Any

from .datasets import ML_1M
from .experiment import CLOSE_SEEDS, Experiment, Results, Row
from .pictures import Curves, Line, Picture
from .tables import cell, figures, grid, page, values

NDCG = ("full", "ndcg@10")
A_USER = 163                                      # training items of a user, on average
KEPT = (5, 20, 50, 1_000_000)                     # training items kept of each user; the last: all
TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "dropout": 0.2, "epochs": 100, "patience": 10, "loss": "ce"}
COMPARED: dict[str, tuple[str, str, dict[str, Any], float]] = {
    "popularity": ("popularity", "popularity", {}, 0.1),
    "markov": ("Markov", "markov", {}, 0.1),
    "gru4rec": ("GRU4Rec, cross-entropy", "gru4rec", TRAINED | {"epochs": 300}, 30),
    "sasrec": ("SASRec, cross-entropy", "sasrec", TRAINED, 20),
}
# Tied after two seeds: SASRec with the chain, and with GRU4Rec
CLOSE = {(5, "sasrec"), (50, "sasrec"), (50, "gru4rec")}


def _name(kept: int) -> str:
    return "all" if kept == KEPT[-1] else f"newest-{kept}"


def _page(experiment: Experiment, results: Results) -> str:
    cells = {title: [cell(values(results[f"{_name(kept)}-{key}"], NDCG)) for kept in KEPT]
             for key, (title, *_) in COMPARED.items()}  # fmt: skip
    table = grid([experiment.datasets[_name(kept)].title for kept in KEPT], cells.items())
    return page(experiment, results, [["NDCG@10 under full ranking:"], table, figures(experiment, results)])


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    lines: dict[str, Line] = {}
    for key, (title, *_) in COMPARED.items():
        by_kept = {kept: values(results[f"{_name(kept)}-{key}"], NDCG) for kept in KEPT}
        means = {min(kept, A_USER): statistics.mean(seeds) for kept, seeds in by_kept.items() if seeds}
        if means:
            lines[title] = list(means), list(means.values())
    x = f"newest items kept of each user (all: {A_USER} on average)"
    return {"density": Curves("NDCG@10 of each model by how many of a user's newest items are kept", x, "NDCG@10",
                              {experiment.title: lines})}  # fmt: skip


EXPERIMENT = Experiment(
    name="density",
    title="As data thins out",
    question="""
MovieLens 1M with only each user's newest training items; validation and test items are always the same. Kang & McAuley
(2018, section IV-H) say that SASRec leans on the last items where data is sparse and on long histories where it is
dense: it should stay near the Markov chain on the left, and lead on the right. n 50, d 50; validation chooses the
epoch, with a patience of 10, SASRec's of 100 at most, GRU4Rec's of 300. Two seeds; four where models were tied after
two.
""",
    datasets={
        _name(kept): replace(ML_1M, newest=kept, title="all items" if kept == KEPT[-1] else f"newest {kept}")
        for kept in KEPT
    },
    rows={
        f"{_name(kept)}-{key}": Row(title, _name(kept), model, options, minutes=minutes,
                                    seeds=CLOSE_SEEDS if (kept, key) in CLOSE else None)
        for kept in KEPT
        for key, (title, model, options, minutes) in COMPARED.items()
    },
    page=_page,
    pictures=_pictures,
)  # fmt: skip
