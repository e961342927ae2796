"""Every model among 100 sampled items, beside published numbers."""

import statistics
from typing import Any

from .datasets import GAMES, ML_1M
from .experiment import CLOSE_SEEDS, Experiment, Results, Row
from .pictures import Dots, Picture
from .tables import TRAINING, dots, figures, page, ranked, table, values

COLUMNS = [("uni100", "hr@10"), ("uni100", "ndcg@10"), ("full", "hr@10"), ("full", "ndcg@10")]
KANG = "Kang & McAuley 2018, table III"
BAND = 0.02
TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50}
DATASETS = {"ml-1m": ML_1M, "games": GAMES}
OF_DATA: dict[str, dict[str, Any]] = {
    "ml-1m": {"dropout": 0.2, "epochs": 200, "patience": 15},
    "games": {"dropout": 0.5, "epochs": 100, "patience": 8},     # five times as many steps an epoch
}
LEFT_OUT = {("games", "bert4rec")}                               # slow, and without a published value
TWO_SEEDS = {"bert4rec"}                                         # the slowest

# key: title, model, options, HR@10 and NDCG@10 published on ml-1m and on games, minutes on ml-1m and games
COMPARED: dict[str, tuple[str, str, dict[str, Any], tuple[float, ...], tuple[float, float]]] = {
    "popularity": ("popularity", "popularity", {}, (0.4329, 0.2377, 0.4724, 0.2779), (0.1, 0.1)),
    "markov": ("Markov", "markov", {}, (), (0.1, 0.1)),
    "cosine": ("item cosine", "cosine", {}, (), (0.1, 0.3)),
    "ease": ("EASE", "ease", {}, (), (0.3, 2)),
    "mf": ("MF", "mf", TRAINED, (0.5781, 0.3287, 0.4853, 0.2875), (0.5, 3)),
    "fism": ("FISM", "fism", TRAINED, (), (1, 3)),
    "fpmc": ("FPMC", "fpmc", TRAINED, (0.7599, 0.5176, 0.6802, 0.4680), (1, 3)),
    "fossil": ("Fossil", "fossil", TRAINED, (), (1, 2)),
    "gru4rec": ("GRU4Rec, basic form", "gru4rec", TRAINED, (0.5581, 0.3381, 0.2938, 0.1837), (4, 4)),
    "gru4rec-plus": ("GRU4Rec, BPR-max on the batch's items", "gru4rec", TRAINED | {"loss": "bpr-max", "in_batch": 1.0},
                     (0.7501, 0.5513, 0.6599, 0.4759), (4, 3)),
    "narm": ("NARM", "narm", TRAINED, (), (14, 4)),
    "caser": ("Caser", "caser", TRAINED, (0.7886, 0.5538, 0.5282, 0.3214), (9, 4)),
    "bert4rec": ("BERT4Rec", "bert4rec", TRAINED | {"dim": 64}, (), (25, 60)),
    "sasrec": ("SASRec, released code's form", "sasrec", TRAINED | {"block_form": "sasrec"},
               (0.7934, 0.5570, 0.7410, 0.5360), (3, 4)),
}  # fmt: skip

# Variants of rows outside the band. key: title, model, options, minutes
DIAGNOSTICS: dict[str, tuple[str, str, dict[str, Any], float]] = {
    "mf-short": ("MF, stopped after 8 epochs", "mf", {"epochs": 8}, 0.2),
    "fpmc-dropout": ("FPMC, dropout .5, patience 30", "fpmc", {"dropout": 0.5, "patience": 30}, 3),
    "gru4rec-short": ("GRU4Rec, basic form, stopped after 30 epochs", "gru4rec", {"epochs": 30}, 1),
    "gru4rec-uniform": ("GRU4Rec, BPR-max on 256 items of the catalogue", "gru4rec", {"loss": "bpr-max"}, 8),
    "caser-wide": ("Caser, windows of 9, dropout .5, patience 40", "caser",
                   {"window": 9, "dropout": 0.5, "epochs": 300, "patience": 40}, 15),
    "caser-targets": ("Caser, three targets a position (T 3)", "caser", {"targets": 3}, 15),
}  # fmt: skip
ON_GAMES: dict[str, tuple[str, str, dict[str, Any], float]] = {
    "mf-short": ("MF, stopped after 8 epochs", "mf", {"epochs": 8}, 0.3),
    "fpmc-patience": ("FPMC, patience 30", "fpmc", {"patience": 30}, 6),
    "gru4rec-short": ("GRU4Rec, basic form, stopped after 20 epochs", "gru4rec", {"epochs": 20}, 3),
    "gru4rec-uniform": ("GRU4Rec, BPR-max on 256 items of the catalogue", "gru4rec", {"loss": "bpr-max"}, 25),
    "caser-targets": ("Caser, three targets a position (T 3)", "caser", {"targets": 3}, 20),
    "sasrec-longer": ("SASRec, released code's form, never stopped", "sasrec",
                      {"block_form": "sasrec", "patience": 0}, 9),
}  # fmt: skip
DIAGNOSES = {"ml-1m": DIAGNOSTICS, "games": ON_GAMES}


def _row(key: str, data: str, place: int) -> Row:
    title, model, options, published, minutes = COMPARED[key]
    pair = published[2 * place : 2 * place + 2]
    source = KANG if key != "sasrec" or place else "Kang & McAuley 2018, n 50; HR@10 from independent reruns"
    trained = options | OF_DATA[data] if options else {}
    return Row(title, data, model, trained, dict(zip(COLUMNS, pair, strict=False)), source, minutes[place],
               seeds=None if key in TWO_SEEDS else CLOSE_SEEDS)  # fmt: skip


def _page(experiment: Experiment, results: Results) -> str:
    parts = []
    for data, dataset in DATASETS.items():
        keys = _keys(data)
        parts += [[f"## {dataset.title}"], table(experiment, results, keys, COLUMNS, TRAINING)]
        parts += [misses(experiment, results, keys), ranked(experiment, results, keys, COLUMNS[1])]
    parts += [figures(experiment, results), ["## Why rows lie outside the band"]]
    for data, rows in DIAGNOSES.items():
        variants = table(experiment, results, [f"{data}-{key}" for key in rows], COLUMNS, TRAINING)
        parts += [[f"{DATASETS[data].title}:"], variants]
    return page(experiment, results, parts)


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {dataset.title.split(",")[0]: dots(experiment, results, _keys(data), COLUMNS[1])
              for data, dataset in DATASETS.items()}  # fmt: skip
    return {"sampled": Dots("NDCG@10 of every model among 100 sampled items, and published", "uni100 NDCG@10",
                            panels)}  # fmt: skip


def _keys(data: str) -> list[str]:
    return [f"{data}-{key}" for key in COMPARED if (data, key) not in LEFT_OUT]


def misses(experiment: Experiment, results: Results, keys: list[str]) -> list[str]:
    """A line for each metric that lies further from its published value than the band."""
    lines = []
    for key in keys:
        row, runs = experiment.rows[key], results[key]
        for (protocol, metric), theirs in row.published.items() if runs else ():
            mine = statistics.mean(values(runs, (protocol, metric)))
            if abs(mine - theirs) > BAND:
                where = f"{abs(mine - theirs):.3f} {'above' if mine > theirs else 'below'} the published value"
                lines.append(f"- {row.title}: {protocol} {metric.upper()} {mine:.4f} is {where}")
    return lines


EXPERIMENT = Experiment(
    name="sampled",
    title="Among 100 sampled items",
    question=f"""
Each user's last item is ranked among 100 items drawn uniformly from those not in the user's training items, the
protocol of Kang & McAuley (2018), whose numbers are in italics; beside it full ranking, for which they published none.
n 50 and d 50 for all except BERT4Rec (d 64), which is not run on Games (no published row, and slow). Validation chooses
the epoch, of 200 at most with a patience of 15, on Games of 100 with 8. Trained rows have four seeds, as many were
within two standard deviations of each other after two; BERT4Rec, the slowest, has two. A published number further away
than {BAND}, the *band*, is named below its table.
""",
    datasets=DATASETS,
    rows={
        f"{data}-{key}": _row(key, data, place)
        for place, data in enumerate(DATASETS) for key in COMPARED if (data, key) not in LEFT_OUT
    } | {
        f"{data}-{key}": Row(title, data, model, TRAINED | OF_DATA[data] | options, minutes=minutes, seeds=1)
        for data, rows in DIAGNOSES.items() for key, (title, model, options, minutes) in rows.items()
    },
    page=_page,
    pictures=_pictures,
    protocols=("full", "uni100"),
)
