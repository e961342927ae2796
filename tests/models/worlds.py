"""Small generated data for tests."""

import numpy as np

from tinyattn.data import Interactions, SeriesWorld
from tinyattn.models.objectives import OBJECTIVES
from tinyattn.options import options_of

TINY = SeriesWorld(series=4, episodes=4, users=60, most_open=2, shortest=4, longest=9)


def uneven(seed=0, users=7, items=11, longest=9):
    """A few users with histories of uneven length, two of them too short to be evaluated."""
    rng = np.random.default_rng(seed)
    lengths = [1, 2, *rng.integers(3, longest + 1, size=users - 2).tolist()]
    return Interactions.from_sequences([rng.permutation(items)[:n] + 1 for n in lengths])


def few_negatives(loss):
    """Options with which a small world is not swamped by the negatives that a row of this loss shares."""
    return {"n_negatives": 3} if "n_negatives" in {o.name for o in options_of(OBJECTIVES[loss].options)} else {}
