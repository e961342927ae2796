"""Each model where its assumption holds: there it must beat popularity by far."""

import pytest

from tests.models.worlds import chain, low_rank
from tinyattn.data import leave_one_out
from tinyattn.models import EASE, FISM, FPMC, MF, Fossil, Markov, Popularity

pytestmark = pytest.mark.host
SMALL = {"dim": 16, "maxlen": 12, "batch_size": 32, "workers": 1, "dropout": 0.0, "epochs": 20, "lr": 0.02}


def first_hits(world, *models):
    """How often each model's first recommendation is what came next."""
    split = leave_one_out(world)
    how = [{"progress": False} if hasattr(model, "epochs") else {} for model in models]
    return [m.fit(split, **h).evaluate(split, ks=(1,))["hr@1"] for m, h in zip(models, how, strict=True)]


@pytest.mark.parametrize(
    ("model", "world"),
    [
        (MF(**SMALL), low_rank()),
        (FISM(**SMALL), low_rank()),
        (EASE(l2=20.0), low_rank()),
        (FPMC(**SMALL), chain(1)),
        (Fossil(**SMALL), chain(1)),
        (Markov(), chain(1)),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_it_wins_where_its_assumption_holds(model, world):
    mine, popularity = first_hits(world, model, Popularity())
    assert mine > 3 * popularity, (mine, popularity)


def test_only_the_order_of_the_world_tells_what_comes_next():
    """A chain of order 3 is noise to shorter chains."""
    third, second, popularity = first_hits(chain(3, users=2000, items=15), Markov(3), Markov(2), Popularity())
    assert third > 3 * max(second, popularity), (third, second, popularity)
