"""Each family of models where its assumption holds: there it comes near the optimum, and popularity does not."""

from functools import cache

import pytest

from tests.models.worlds import chain
from tinyattn.data import SeriesWorld, leave_one_out
from tinyattn.data.worlds import ChainWorld, TasteWorld
from tinyattn.evaluation import full_ranking
from tinyattn.models import (
    EASE,
    FISM,
    FPMC,
    MF,
    NARM,
    STOSA,
    BERT4Rec,
    Caser,
    Fossil,
    GRU4Rec,
    ItemCosine,
    Markov,
    Popularity,
    SASRec,
)

pytestmark = pytest.mark.host
SIZES = {"users": 600, "shortest": 8, "longest": 16}
WORLDS = {
    "tastes": TasteWorld(**SIZES, items=60, tastes=4, sharpness=3.0),
    "chain": ChainWorld(**SIZES, items=40, groups=40, followers=2, noise=0.1),
    "series": SeriesWorld(**SIZES | {"users": 1000}, series=4, episodes=6, most_open=3),
}
METRIC = {"tastes": "hr@1", "chain": "hr@1", "series": "hr@3"}  # up to three series are open: three answers are right
HOW = {"maxlen": 16, "batch_size": 32, "workers": 1}
LINEAR = HOW | {"epochs": 15, "lr": 0.02}
LONG = pytest.mark.slow(seconds=20)
DEEP = HOW | {"dim": 24, "dropout": 0.1, "epochs": 12, "lr": 0.005}


@cache
def split_and_optimum(name):
    """The split of a world, and the metric of the ranking by the true probabilities: nothing can have more."""
    world = WORLDS[name]
    split = leave_one_out(world.generate())
    best = full_ranking(lambda histories, users: world.best_ranking(histories), split, "test", (1, 3), world.next_item)
    return split, best[METRIC[name]]


def share(name, model):
    """The share of the optimum that a model reaches in training; both are expectations under the truth."""
    split, best = split_and_optimum(name)
    model.fit(split.train, **({"progress": False} if hasattr(model, "epochs") else {}))
    return model.evaluate(split, ks=(1, 3), truth=WORLDS[name].next_item)[METRIC[name]] / best


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize(
    ("name", "model", "least"),
    [
        ("tastes", MF(dim=4, dropout=0.2, **LINEAR), 0.75),
        ("tastes", FISM(dim=16, dropout=0.0, **LINEAR), 0.78),
        ("tastes", EASE(l2=20.0), 0.88),
        ("tastes", ItemCosine(), 0.65),
        ("chain", FPMC(dim=16, dropout=0.0, **LINEAR), 0.8),
        ("chain", Fossil(dim=16, dropout=0.0, **LINEAR), 0.83),
        ("chain", Markov(), 0.95),
        ("series", SASRec(**DEEP), 0.88),
        pytest.param("series", GRU4Rec(loss="ce", **DEEP), 0.85, marks=LONG),
        pytest.param("series", NARM(loss="ce", **DEEP), 0.88, marks=LONG),
        pytest.param("series", STOSA(**DEEP | {"epochs": 20}), 0.85, marks=LONG),
        pytest.param("series", Caser(window=9, nh=4, **DEEP | {"epochs": 20}), 0.85, marks=LONG),
        pytest.param("series", BERT4Rec(mask_last=0.5, **DEEP | {"epochs": 80}), 0.82, marks=LONG),
    ],
    ids=lambda x: getattr(x, "name", ""),
)  # fmt: skip
def test_it_comes_near_the_optimum_where_its_assumption_holds(name, model, least):
    assert least < share(name, model) < 1


def test_what_sees_less_than_a_world_asks_for_stays_far_below():
    for name, model, most in (
        ("tastes", Popularity(), 0.25),
        ("tastes", Markov(), 0.6),
        ("chain", Popularity(), 0.2),
        ("chain", EASE(l2=20.0), 0.5),  # reads no order
        ("series", Popularity(), 0.5),
        ("series", Markov(), 0.75),  # sees one of the series that are open
    ):
        found = share(name, model)
        assert found < most, (name, model.name, found)


def test_only_the_order_of_the_world_tells_what_comes_next():
    """A chain of order 3 is noise to shorter chains."""
    split = leave_one_out(chain(3, users=2000, items=15))
    models = Markov(3), Markov(2), Popularity()
    third, second, popularity = (model.fit(split).evaluate(split, ks=(1,))["hr@1"] for model in models)
    assert third > 3 * max(second, popularity), (third, second, popularity)
