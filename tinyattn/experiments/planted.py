"""Planted truth: generated worlds with a known best ranking, and the models that come near it."""

import statistics
from dataclasses import replace
from functools import cache
from typing import Any

from ..data import leave_one_out
from ..data.worlds import ChainWorld, SeriesWorld, TasteWorld, World
from ..evaluation import evaluate
from .experiment import CLOSE_SEEDS, Dataset, Experiment, Results, Row, Runs
from .pictures import Dot, Dots, Picture
from .tables import figures, grid, page, values

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
LONGER = TRAINED | {"epochs": 200}                # models that still improve after 60 epochs
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
    "gru4rec": ("GRU4Rec, cross-entropy", "gru4rec", LONGER | {"loss": "ce"}),
    "narm": ("NARM, cross-entropy", "narm", LONGER | {"loss": "ce"}),
    "caser": ("Caser, cross-entropy", "caser", TRAINED | {"loss": "ce"}),
    "bert4rec": ("BERT4Rec", "bert4rec", TRAINED | {"epochs": 200, "patience": 40}),      # it begins on a plateau
    "sasrec": ("SASRec, cross-entropy", "sasrec", LONGER | {"loss": "ce"}),
    "sasrec-bce": ("SASRec, BCE", "sasrec", LONGER),
}
FITS = {
    "iid": ("popularity",),
    "low rank": ("mf", "fism", "ease"),
    "drift": ("gru4rec", "narm", "bert4rec", "sasrec", "sasrec-bce"),
    "order 1": ("markov", "fpmc", "fossil"),
    "order 2": ("markov2", "caser"),
    "series": ("narm", "bert4rec", "sasrec", "sasrec-bce"),
}  # models whose assumption holds: they should win there, or tie
TIE = 0.03                                        # the distance of a tie, as a share of the winner's NDCG@10

# More worlds, to find out why some models in FITS do not win
MORE_WORLDS: dict[str, tuple[str, World]] = {
    "short tastes": ("tastes, 8 to 14 items a person", TasteWorld(shortest=8, longest=14)),
    "long tastes": ("tastes, 30 to 50 items a person", TasteWorld(shortest=30, longest=50)),
    "order 1, many": ("the last item, 12,000 people", ChainWorld(users=12000)),
    "order 2, many": ("the last two items, 12,000 people", ChainWorld(users=12000, order=2, groups=5)),
}
LONGEST = TRAINED | {"epochs": 600, "patience": 40}
# key: title, world, model, options; one seed each
TRIED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    **{
        f"{world.replace(' ', '-')}-{key}": (COMPARED[key][0], world, COMPARED[key][1], COMPARED[key][2] | more)
        for world, more in (("short tastes", {}), ("long tastes", {"maxlen": 50}))
        for key, more in (("ease", {}), ("mf", more), ("fism", more), ("sasrec-bce", more))
    },
    "order-1-many-markov": ("Markov, order 1", "order 1, many", "markov", {}),
    "order-1-many-fpmc": ("FPMC", "order 1, many", "fpmc", TRAINED),
    "order-2-many-markov2": ("Markov, order 2", "order 2, many", "markov", {"order": 2}),
    "order-2-many-caser": ("Caser, cross-entropy", "order 2, many", "caser", TRAINED | {"loss": "ce"}),
    "low-rank-sasrec-sampled": ("SASRec, sampled softmax", "low rank", "sasrec", LONGER | {"loss": "sampled-softmax"}),
    "drift-sasrec-sampled": ("SASRec, sampled softmax", "drift", "sasrec", LONGER | {"loss": "sampled-softmax"}),
    "series-sasrec-sampled": ("SASRec, sampled softmax", "series", "sasrec", LONGER | {"loss": "sampled-softmax"}),
    "drift-gru4rec-bce": ("GRU4Rec, BCE", "drift", "gru4rec", LONGER | {"loss": "bce"}),
    "drift-bert4rec-longer": ("BERT4Rec, up to 600 epochs", "drift", "bert4rec", LONGEST),
    "series-bert4rec-longer": ("BERT4Rec, up to 600 epochs", "series", "bert4rec", LONGEST),
}


@cache
def optimum(world: World) -> float:
    """NDCG@10 of the best possible ranking, expected under the truth."""
    split = leave_one_out(world.generate())
    return evaluate(lambda h, users: world.best_ranking(h), split, truth=world.next_item)["full"]["ndcg@10"]


def _page(experiment: Experiment, results: Results) -> str:
    best = {name: optimum(_world(experiment, name)) for name in (*WORLDS, *MORE_WORLDS)}
    rows = [("*the best there is*", [f"*{best[name]:.4f}*" for name in WORLDS])]
    for model, (title, _, _) in COMPARED.items():
        shares = {name: _share(results[_key(name, model)], best[name]) for name in WORLDS}
        rows.append((title, [f"**{x}**" if x and model in FITS[name] else x for name, x in shares.items()]))
    tried = ((title, [(WORLDS | MORE_WORLDS)[name][0], _share(results[key], best[name]) or "to come",
                      f"*{best[name]:.4f}*"]) for key, (title, name, _, _) in TRIED.items())  # fmt: skip
    return page(experiment, results, [
        grid([title for title, _ in WORLDS.values()], rows), _behind(results), figures(experiment, results),
        ["## Why some models in bold do not win"], grid(["world", "NDCG@10", "the best there is"], tried),
    ])  # fmt: skip


def _key(world: str, model: str) -> str:
    return f"{world.replace(' ', '-')}-{model}"


def _share(runs: Runs, best: float) -> str:
    """The mean of the runs, and its share of the best; with several runs, ± the standard deviation of the share."""
    seeds = values(runs, NDCG)
    if not seeds:
        return ""
    spread = f" ± {statistics.stdev(seeds) / best:.1%}" if len(seeds) > 1 else ""
    return f"{statistics.mean(seeds):.4f} ({statistics.mean(seeds) / best:.1%}{spread})"


def _behind(results: Results) -> list[str]:
    """A line that names the models of FITS that neither win nor tie; nothing before all have been run."""
    if not all(results[_key(name, model)] for name in WORLDS for model in COMPARED):
        return []
    behind = []
    for name, fits in FITS.items():
        means = {model: statistics.mean(values(results[_key(name, model)], NDCG)) for model in COMPARED}
        lacking = {m: 1 - means[m] / max(means.values()) for m in fits}
        far = [f"{COMPARED[m][0]} ({share:.0%})" for m, share in lacking.items() if share > TIE]
        behind += [f"in {WORLDS[name][0]} {', '.join(far)}"] if far else []
    about = f"In bold, and more than {TIE:.0%} behind the model that is best in their world"
    return [f"{about}: {'; '.join(behind) or 'none'}."]


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {}
    for name, (world, _) in WORLDS.items():
        best = optimum(_world(experiment, name))
        runs = {title: results[_key(name, model)] for model, (title, *_) in COMPARED.items()}
        panels[world] = {title: Dot(values(each, NDCG), best) for title, each in runs.items() if each}
    return {"planted": Dots("NDCG@10 of every model in every world, and the best there is", "NDCG@10", panels,
                            "the best there is")}  # fmt: skip


def _world(experiment: Experiment, name: str) -> World:
    data = experiment.datasets[name]
    assert isinstance(data, Dataset)
    assert data.world is not None
    return data.world


def _row(title: str, world: str, model: str, options: dict[str, Any]) -> Row:
    return Row(title, world, model, options, minutes=0.5 if "epochs" in options else 0.05)


EXPERIMENT = Experiment(
    name="planted",
    title="Planted truth",
    question="""
Worlds with a known next-item distribution, and so a known best ranking. NDCG@10 under full ranking, expected under the
truth, and its share of the best. Models whose assumption holds in a world are in bold: each should win there, or tie. A
world has one structure and no other; in `no structure` all users draw from one distribution, and a model that beats
popularity there has seen the test items. Four seeds, as most models were within two standard deviations of another
after two; one seed in the second table.
""",
    datasets={name: Dataset(title, world=world) for name, (title, world) in (WORLDS | MORE_WORLDS).items()},
    rows={
        _key(name, key): _row(title, name, model, options)
        for name in WORLDS
        for key, (title, model, options) in COMPARED.items()
    } | {key: replace(_row(*tried), seeds=1) for key, tried in TRIED.items()},
    page=_page,
    pictures=_pictures,
    seeds=CLOSE_SEEDS,
)  # fmt: skip
