"""Planted truth: worlds whose best ranking is known, and which model comes near it where."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

from ..data import leave_one_out
from ..data.worlds import ChainWorld, SeriesWorld, TasteWorld, World
from ..evaluation import evaluate
from .experiment import Dataset, Experiment, Results, Row
from .pictures import Dot, Dots, Picture
from .tables import figures, heading, page, remarks, values

NDCG = ("full", "ndcg@10")
WORLDS: dict[str, tuple[str, World]] = {
    "iid": ("no structure", TasteWorld(tastes=1)),
    "low rank": ("tastes", TasteWorld()),
    "drift": ("tastes that drift", TasteWorld(drift=0.15)),
    "order 1": ("the last item", ChainWorld()),
    "order 2": ("the last two items", ChainWorld(order=2, groups=5)),
    "series": ("series under way", SeriesWorld()),
}
TRAINED = {"epochs": 60, "patience": 8, "maxlen": 30}
LONGER = TRAINED | {"epochs": 200}                # of these 60 epochs are too few: they still rise
COMPARED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "popularity": ("popularity", "popularity", {}),
    "markov": ("Markov, order 1", "markov", {}),
    "markov2": ("Markov, order 2", "markov", {"order": 2}),
    "cosine": ("item cosine", "cosine", {}),
    "ease": ("EASE", "ease", {}),
    "mf": ("MF", "mf", TRAINED),
    "fism": ("FISM", "fism", TRAINED),
    "fpmc": ("FPMC", "fpmc", TRAINED),
    "fossil": ("Fossil", "fossil", TRAINED),
    "gru4rec": ("GRU4Rec", "gru4rec", LONGER | {"loss": "ce"}),
    "narm": ("NARM", "narm", LONGER | {"loss": "ce"}),
    "caser": ("Caser", "caser", TRAINED | {"loss": "ce"}),
    "bert4rec": ("BERT4Rec", "bert4rec", TRAINED | {"epochs": 200, "patience": 40}),      # it begins on a plateau
    "sasrec": ("SASRec", "sasrec", LONGER | {"loss": "ce"}),
    "sasrec-bce": ("SASRec, BCE", "sasrec", LONGER),
}
FITS = {
    "iid": ("popularity",),
    "low rank": ("mf", "fism"),
    "drift": ("gru4rec", "sasrec"),
    "order 1": ("markov", "fpmc"),
    "order 2": ("markov2",),
    "series": ("sasrec",),
}  # whose assumption holds: these should win there, or tie


REMARKS = """
Where a model whose assumption holds does not win. **Tastes**: MF has to find a vector for each person from eighteen
items, by gradient steps; FISM, EASE and the networks add up what the items themselves have learned from everybody.
That this is why is likely, and was not tried. **The last two items**: the next item depends on the groups of two items
together. A Markov chain over items sees each of some 3,500 pairs about a dozen times, and knows no groups; networks
learn the groups and share what they learn. Factorised models add what each of the two items says, and cannot say what
both together mean. **Series**: items that were seen are not ranked. The episodes that are left of the series under way
are then nearly all that order could point to, so that models which ignore order are nearest to the best: EASE and
FISM.

**SASRec's losses.** With one negative (BCE) it is ahead of itself with cross-entropy in five of six worlds, and
nearest to the best of all models in three: tastes, tastes that drift, the last two items. Cross-entropy has to learn
besides that what was seen does not come again, which ranking rules out anyway; negatives are never items that the user
has had. On real data, with thousands of items, it is the other way round ([full ranking](../full/README.md)).

Popularity may stand a few ten-thousandths above the best ranking in the first world: items that tie at the tenth place
have the mean rank 10.5, and both count as being among ten.
"""


@cache
def optimum(world: World) -> float:
    """NDCG@10 of the best ranking there is, expected under the truth."""
    def best(histories: Any, users: Any) -> Any:
        return world.best_ranking(histories)

    return evaluate(best, leave_one_out(world.generate()), truth=world.next_item)["full"]["ndcg@10"]


def _page(experiment: Experiment, results: Results) -> str:
    lines = heading([title for title, _ in WORLDS.values()])
    best = {name: optimum(_world(experiment, name)) for name in WORLDS}
    lines.append("| *the best there is* | " + " | ".join(f"*{value:.4f}*" for value in best.values()) + " |")
    for model, (title, _, _) in COMPARED.items():
        cells = []
        for name in WORLDS:
            found = values(results[f"{name.replace(' ', '-')}-{model}"], NDCG)
            share = f"{statistics.mean(found):.4f} ({statistics.mean(found) / best[name]:.0%})" if found else ""
            cells.append(f"**{share}**" if share and model in FITS[name] else share)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return page(experiment, results, [lines, figures(experiment, results), remarks(experiment, results, REMARKS)])


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {}
    for name, (world, _) in WORLDS.items():
        best = optimum(_world(experiment, name))
        runs = {title: results[f"{name.replace(' ', '-')}-{model}"] for model, (title, *_) in COMPARED.items()}
        panels[world] = {title: Dot(values(found, NDCG), best) for title, found in runs.items() if found}
    return {"planted": Dots("NDCG@10 of every model in every world, and the best there is", "NDCG@10", panels,
                            "the best there is")}  # fmt: skip


def _world(experiment: Experiment, name: str) -> World:
    data = experiment.datasets[name]
    assert isinstance(data, Dataset)
    assert data.world is not None
    return data.world


EXPERIMENT = Experiment(
    name="planted",
    title="Planted truth",
    question="""
Worlds whose next-item distribution is known, and with it the best ranking that there can be. NDCG@10 under full
ranking, expected under the truth, and its share of the best. In bold stand the models whose assumption holds in a
world: each should win there, or tie. A world has one structure and no other; in `no structure` all draw from one
distribution, and whoever beats popularity there has seen the test items.
""",
    datasets={name: Dataset(title, world=world) for name, (title, world) in WORLDS.items()},
    rows={
        f"{name.replace(' ', '-')}-{key}": Row(title, name, model, options, minutes=0.5 if options else 0.05,
                                               seeds=None if "epochs" in options else 1)
        for name in WORLDS
        for key, (title, model, options) in COMPARED.items()
    },
    page=_page,
    pictures=_pictures,
)  # fmt: skip
