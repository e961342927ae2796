"""Losses and models under full ranking: one negative, many negatives, all items."""

from typing import Any

from .datasets import BEAUTY, ML_1M
from .experiment import CLOSE_SEEDS, Experiment, Results, Row
from .pictures import Dots, Picture
from .tables import TRAINING, beyond, dots, figures, page, ranked, table

COLUMNS = [("full", "hr@10"), ("full", "ndcg@10")]
TRAINED: dict[str, Any] = {"maxlen": 50, "epochs": 200}
SASREC = TRAINED | {"dim": 64, "block_form": "sasrec"}
ESASREC = TRAINED | {
    "dim": 64, "loss": "sampled-softmax", "block_form": "ligr", "feed_forward": "swiglu", "feed_forward_width": 4,
    "qkv_bias": True, "output_projection": True, "last_norm": False, "eps": 1e-5,
}  # fmt: skip
SAMPLED = {"loss": "sampled-softmax"}
HSTU_BLOCK: dict[str, Any] = TRAINED | SAMPLED | {"dim": 64, "block_form": "hstu", "emb_scale": True, "eps": 1e-6}
HSTU_PLACES = {"position": "t5", "buckets": 100, "furthest": 100}      # a number for each distance below maxlen, 50
DATASETS = {"ml-1m": ML_1M, "beauty": BEAUTY}
OF_DATA: dict[str, dict[str, Any]] = {
    "ml-1m": {"dropout": 0.2, "patience": 15},
    "beauty": {"dropout": 0.5, "patience": 8},                   # four times as many steps an epoch
}

# key: title, model, options, published on ml-1m, its source, minutes on ml-1m and beauty
COMPARED: dict[str, tuple[str, str, dict[str, Any], tuple[float, ...], str, tuple[float, float]]] = {
    "popularity": ("popularity", "popularity", {}, (), "", (0.1, 0.1)),
    "markov": ("Markov", "markov", {}, (), "", (0.1, 0.1)),
    "markov2": ("Markov, order 2", "markov", {"order": 2}, (), "", (0.1, 0.1)),
    "cosine": ("item cosine", "cosine", {}, (), "", (0.1, 0.2)),
    "ease": ("EASE", "ease", {}, (), "", (0.3, 2)),
    "bce": ("SASRec, BCE", "sasrec", SASREC, (0.1993, 0.1078), "Petrov & Macdonald 2022, n 50", (4, 3)),
    "gbce": ("SASRec, gBCE (gSASRec)", "sasrec", SASREC | {"loss": "gbce"}, (0.3003, 0.1726),
             "Petrov & Macdonald 2023, d 128, n 200", (9, 6)),
    "gbce-as-published": ("SASRec, gBCE as published (no base rate taken off)", "sasrec",
                          SASREC | {"loss": "gbce", "base_rate": False, "patience": 40}, (), "", (18, 18)),
    "ce": ("SASRec, cross-entropy", "sasrec", SASREC | {"loss": "ce"}, (0.3152, 0.1821),
           "Klenitskiy & Vasilev 2023, n 200", (16, 10)),
    "sampled-softmax": ("SASRec, sampled softmax", "sasrec", SASREC | SAMPLED, (), "", (6, 7)),
    "esasrec": ("eSASRec: gated blocks, sampled softmax", "sasrec", ESASREC, (), "", (12, 8)),
    "hstu": ("HSTU without times", "sasrec", HSTU_BLOCK | HSTU_PLACES | {"mechanism": "pointwise"}, (), "", (14, 5)),
    "bert4rec": ("BERT4Rec", "bert4rec", TRAINED | {"dim": 64}, (0.2843, 0.1537),
                 "Klenitskiy & Vasilev 2023, n 200", (34, 13)),
    "bert4rec-rho": ("BERT4Rec, ρ .6 as the paper has it for Beauty", "bert4rec", TRAINED | {"dim": 64, "rho": 0.6},
                     (), "", (34, 13)),
    "gru4rec": ("GRU4Rec, cross-entropy", "gru4rec", TRAINED | {"dim": 64, "loss": "ce"}, (), "", (18, 75)),
}  # fmt: skip

# Variants of eSASRec, which on Beauty is behind plain SASRec. key: title, options
DIAGNOSTICS: dict[str, tuple[str, dict[str, Any]]] = {
    "esasrec-dropout": ("eSASRec, dropout .2", {"dropout": 0.2}),
    "esasrec-norm": ("eSASRec with a last norm", {"last_norm": True}),
    "esasrec-scale": ("eSASRec, embeddings times √d", {"emb_scale": True}),
    "esasrec-both": ("eSASRec with a last norm, embeddings times √d", {"last_norm": True, "emb_scale": True}),
    "esasrec-narrow": ("eSASRec, SASRec's feed-forward network", {"feed_forward": "relu", "feed_forward_width": 1}),
}
DIAGNOSED = ["beauty-sampled-softmax", "beauty-esasrec", *(f"beauty-{key}" for key in DIAGNOSTICS)]
LEFT_OUT = {("beauty", "gbce-as-published"), ("ml-1m", "bert4rec-rho")}
DIAGNOSES = {"gbce-as-published", "bert4rec-rho"}  # variants of the row above them, with one seed
CLOSE = {("ml-1m", key) for key in ("gbce", "ce", "sampled-softmax", "esasrec", "hstu", "bert4rec", "gru4rec")}
CLOSE |= {("beauty", key) for key in ("bce", "sampled-softmax", "esasrec", "hstu", "bert4rec", "gru4rec")}


def _row(key: str, data: str, place: int) -> Row:
    title, model, options, published, source, minutes = COMPARED[key]
    of_data = OF_DATA[data] if "epochs" in options else {}
    theirs = dict(zip(COLUMNS, published, strict=False)) if data == "ml-1m" else {}
    seeds = 1 if key in DIAGNOSES else CLOSE_SEEDS if (data, key) in CLOSE else None
    return Row(title, data, model, of_data | options, theirs, source, minutes[place], seeds)


def _page(experiment: Experiment, results: Results) -> str:
    parts = []
    for data, dataset in DATASETS.items():
        keys = _keys(data)
        titles = {key: experiment.rows[key].title for key in keys}
        parts += [[f"## {dataset.title}"], table(experiment, results, keys, COLUMNS, TRAINING),
                  ranked(experiment, results, keys, COLUMNS[1]),
                  ["Beyond accuracy:"], beyond(results, keys, titles, f"{data}-popularity")]  # fmt: skip
    parts += [figures(experiment, results), ["## Why eSASRec is behind on Beauty"]]
    return page(experiment, results, [*parts, table(experiment, results, DIAGNOSED, COLUMNS, TRAINING)])


def _keys(data: str) -> list[str]:
    return [f"{data}-{key}" for key in COMPARED if (data, key) not in LEFT_OUT]


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {dataset.title: dots(experiment, results, _keys(data), COLUMNS[1]) for data, dataset in DATASETS.items()}
    return {"full": Dots("NDCG@10 of every model under full ranking, and published", "full NDCG@10", panels)}


EXPERIMENT = Experiment(
    name="full",
    title="Under full ranking",
    question="""
Each user's last item is ranked among all items that the user has not had. n 50 and d 64 for all; the paper's SASRec
with the losses proposed for it, eSASRec (2025), the block of HSTU without its times, BERT4Rec, GRU4Rec, and models
without gradients. Validation chooses the epoch, of 200 at most, with a patience of 15, on Beauty 8; gBCE as published
has 40. Two seeds; four for models within two standard deviations of each other after two. Published rows, in italics,
have the n and d that they name.

Beyond accuracy, of each user's ten best: coverage is the share of the catalogue that is recommended to anybody; novelty
the mean of -log2 of an item's share of the training interactions; popularity the mean popularity of recommended items,
divided by that of items in histories; overlap the share of a list that is in popularity's list, too, over 200 users.
""",
    datasets=DATASETS,
    rows={
        f"{data}-{key}": _row(key, data, place)
        for place, data in enumerate(DATASETS)
        for key in COMPARED
        if (data, key) not in LEFT_OUT
    } | {
        f"beauty-{key}": Row(title, "beauty", "sasrec", OF_DATA["beauty"] | ESASREC | options, minutes=20, seeds=1)
        for key, (title, options) in DIAGNOSTICS.items()
    },
    page=_page,
    pictures=_pictures,
)
