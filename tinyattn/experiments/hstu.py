"""HSTU beside SASRec: what a bias of times brings, and what attention without softmax brings, each alone."""

from dataclasses import replace
from typing import Any

from .datasets import BEAUTY_TIMES, ML_1M_TIMES, ML_100K
from .experiment import CLOSE_SEEDS, Experiment, Results, Row
from .full import ESASREC, HSTU_BLOCK, HSTU_PLACES, OF_DATA, SAMPLED, SASREC
from .pictures import Dots, Picture
from .tables import TRAINING, contrasts, dots, figures, page, ranked, table

COLUMNS = [("full", "hr@10"), ("full", "ndcg@10")]
DATASETS = {"beauty": BEAUTY_TIMES, "ml-100k": ML_100K, "ml-1m": ML_1M_TIMES}
TITLES = {data: dataset.title.split(",")[0] for data, dataset in DATASETS.items()}
TIMES = HSTU_PLACES | {"position": "timed"}

# key: title, options, minutes on ml-1m and beauty
MODELS: dict[str, tuple[str, dict[str, Any], tuple[float, float]]] = {
    "hstu": ("HSTU: no softmax, times", HSTU_BLOCK | TIMES | {"mechanism": "pointwise"}, (20, 12)),
    "hstu-places": ("HSTU without times", HSTU_BLOCK | HSTU_PLACES | {"mechanism": "pointwise"}, (14, 10)),
    "softmax": ("HSTU's block with softmax, times", HSTU_BLOCK | TIMES, (20, 12)),
    "softmax-places": ("HSTU's block with softmax, without times", HSTU_BLOCK | HSTU_PLACES, (14, 10)),
    "sasrec-times": ("SASRec, sampled softmax, times", SASREC | SAMPLED | TIMES, (16, 12)),
    "sampled-softmax": ("SASRec, sampled softmax", SASREC | SAMPLED, (6, 7)),
    "ce": ("SASRec, cross-entropy", SASREC | {"loss": "ce"}, (16, 10)),
    "gbce": ("SASRec, gBCE", SASREC | {"loss": "gbce"}, (9, 6)),
    "esasrec": ("eSASRec", ESASREC, (12, 8)),
}

# what distinguishes two rows: the rows
PARTS = {
    "times, with pointwise attention": ("hstu", "hstu-places"),
    "times, with softmax": ("softmax", "softmax-places"),
    "times, and distances for places, in SASRec": ("sasrec-times", "sampled-softmax"),
    "pointwise attention for softmax, with times": ("hstu", "softmax"),
    "pointwise attention for softmax, without times": ("hstu-places", "softmax-places"),
    "HSTU's block for SASRec's, with softmax and times": ("softmax", "sasrec-times"),
    "HSTU beside SASRec with the same loss": ("hstu", "sampled-softmax"),
    "HSTU beside SASRec with cross-entropy": ("hstu", "ce"),
    "HSTU beside SASRec with gBCE": ("hstu", "gbce"),
    "HSTU beside eSASRec": ("hstu", "esasrec"),
}


def _keys(data: str) -> list[str]:
    return [f"{data}-time-{key}" for key in MODELS]


def _page(experiment: Experiment, results: Results) -> str:
    parts = []
    for data, title in TITLES.items():
        parts += [[f"## {title}"]]
        if not any(results[key] for key in _keys(data)):
            parts += [["No runs yet."]]
            continue
        pairs = {what: (f"{data}-time-{one}", f"{data}-time-{other}") for what, (one, other) in PARTS.items()}
        parts += [table(experiment, results, _keys(data), COLUMNS, TRAINING),
                  contrasts(experiment, results, pairs, COLUMNS[1]),
                  ranked(experiment, results, _keys(data), COLUMNS[1])]  # fmt: skip
    return page(experiment, results, [*parts, figures(experiment, results)])


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {title: dots(experiment, results, _keys(data), COLUMNS[1]) for data, title in TITLES.items()}
    return {"hstu": Dots("NDCG@10 of HSTU, its parts, and SASRec", "NDCG@10", panels)}


EXPERIMENT = Experiment(
    name="hstu",
    title="HSTU: times, and no softmax",
    question="""
HSTU (Zhai et al. 2024) differs from SASRec in its block, in attention without softmax, and in a bias of times. Its
block is trained with and without times, and with and without softmax; beside it stand SASRec with times, SASRec with
three losses, and eSASRec. All have n 50 and d 64. Rows of HSTU's block have the loss of SASRec with times: sampled
softmax with 256 negatives. SASRec with times has HSTU's biases of distances, too, in the place of learned positions.
Full ranking, split by time: of each user the first item after nine tenths of all interactions. Validation chooses the
epoch, with a patience of 15, on Beauty 8, and at most 200 epochs. Four seeds. MovieLens 1M needs a file with a time on
each line, `user item time`, made of its ratings.dat. Without times HSTU stands [beside all models](../full/README.md),
by leave-one-out.
""",
    datasets={f"{data}-time": replace(dataset, split="time") for data, dataset in DATASETS.items()},
    rows={
        f"{data}-time-{key}": Row(title, f"{data}-time", "sasrec", OF_DATA.get(data, OF_DATA["ml-1m"]) | options,
                                  minutes={"ml-1m": minutes[0], "beauty": minutes[1], "ml-100k": minutes[0] / 8}[data])
        for data in DATASETS
        for key, (title, options, minutes) in MODELS.items()
    },
    seeds=CLOSE_SEEDS,
    page=_page,
    pictures=_pictures,
)  # fmt: skip
