"""The effect of a split by time: the same models tested on each user's last item, and on items after one moment."""

from dataclasses import replace
from typing import Any

from .datasets import BEAUTY_TIMES, ML_100K
from .experiment import CLOSE_SEEDS, Experiment, Results, Row
from .full import ESASREC
from .pictures import Dots, Picture
from .tables import cell, dots, figures, grid, page, ranked, values

COLUMNS = [("full", "hr@10"), ("full", "ndcg@10")]
SPLIT_BY = {"last": "leave-one-out", "time": "time"}
TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "dropout": 0.5, "epochs": 100, "patience": 10}
DATASETS = {"ml-100k": ML_100K, "beauty": BEAUTY_TIMES}
MODELS: dict[str, tuple[str, str, dict[str, Any], float]] = {
    "popularity": ("popularity", "popularity", {}, 0.1),
    "markov": ("Markov", "markov", {}, 0.1),
    "cosine": ("item cosine", "cosine", {}, 0.1),
    "ease": ("EASE", "ease", {}, 1),
    "fpmc": ("FPMC", "fpmc", TRAINED, 0.5),
    "bce": ("SASRec, BCE", "sasrec", TRAINED, 1),
    "ce": ("SASRec, cross-entropy", "sasrec", TRAINED | {"loss": "ce"}, 16),
}
# The other models, on Beauty by time alone and with one seed, for the column of docs/models.md
ALSO_BY_TIME: dict[str, tuple[str, str, dict[str, Any], float]] = {
    "mf": ("MF", "mf", TRAINED, 3),
    "fism": ("FISM", "fism", TRAINED, 3),
    "fossil": ("Fossil", "fossil", TRAINED, 3),
    "gbce": ("SASRec, gBCE", "sasrec", TRAINED | {"loss": "gbce"}, 10),
    "sampled-softmax": ("SASRec, sampled softmax", "sasrec", TRAINED | {"loss": "sampled-softmax"}, 8),
    "caser": ("Caser", "caser", TRAINED, 7),
    "narm": ("NARM", "narm", TRAINED, 5),
    "gru4rec": ("GRU4Rec", "gru4rec", TRAINED, 4),
    "gru4rec-plus": ("GRU4Rec, BPR-max", "gru4rec", TRAINED | {"loss": "bpr-max", "in_batch": 1.0}, 5),
    "esasrec": ("eSASRec", "sasrec", ESASREC | TRAINED, 13),
    "bert4rec": ("BERT4Rec", "bert4rec", TRAINED, 10),
    "gru4rec-ce": ("GRU4Rec, cross-entropy", "gru4rec", TRAINED | {"loss": "ce"}, 60),
}
# Tied with another model after two seeds
CLOSE = {("ml-100k", key) for key in MODELS} | {("beauty", "fpmc"), ("beauty", "bce")}


def _page(experiment: Experiment, results: Results) -> str:
    parts = []
    for data, dataset in DATASETS.items():
        cells = {title: [cell(values(results.get(f"{data}-{split}-{key}", []), column))
                         for split in SPLIT_BY for column in COLUMNS]
                 for key, (title, *_) in _models(data, "time").items()}  # fmt: skip
        columns = [f"{metric.upper()}, {split}" for split in SPLIT_BY.values() for _, metric in COLUMNS]
        parts += [[f"## {dataset.title}"], grid(columns, cells.items())]
        for split, by in SPLIT_BY.items():
            parts += [[f"### By {by}"], ranked(experiment, results, _keys(data, split), COLUMNS[1])]
    return page(experiment, results, [*parts, figures(experiment, results)])


def _models(data: str, split: str) -> dict[str, tuple[str, str, dict[str, Any], float]]:
    return MODELS | ALSO_BY_TIME if (data, split) == ("beauty", "time") else MODELS


def _keys(data: str, split: str) -> list[str]:
    return [f"{data}-{split}-{key}" for key in _models(data, split)]


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {f"{dataset.title.split(',')[0]}, {by}": dots(experiment, results, _keys(data, split), COLUMNS[1])
              for data, dataset in DATASETS.items() for split, by in SPLIT_BY.items()}  # fmt: skip
    return {"splits": Dots("NDCG@10 of every model by leave-one-out and by time", "NDCG@10", panels)}


EXPERIMENT = Experiment(
    name="splits",
    title="What a split by time changes",
    question="""
Leave-one-out tests on each user's last item, whenever that was: the model was trained on later interactions of other
users. A split by time picks one moment, after nine tenths of all interactions, and tests users seen before it on their
first item after it. Nothing later is trained on, as in practice. Full ranking, n 50, d 50; validation chooses the
epoch, of 100 at most, with a patience of 10. The two splits test different users on different items, so only the order
of the models and their distances can be compared. Two seeds; four where models were tied after two; one for models that
are tested by time alone.
""",
    datasets={
        f"{data}-{split}": replace(dataset, split=by)
        for data, dataset in DATASETS.items()
        for split, by in SPLIT_BY.items()
    },
    rows={
        f"{data}-{split}-{key}": Row(title, f"{data}-{split}", model, options, minutes=minutes,
                                     seeds=CLOSE_SEEDS if (data, key) in CLOSE else 1 if key in ALSO_BY_TIME else None,
                                     late=int(key in ALSO_BY_TIME))
        for data in DATASETS
        for split in SPLIT_BY
        for key, (title, model, options, minutes) in _models(data, split).items()
    },
    page=_page,
    pictures=_pictures,
)  # fmt: skip
