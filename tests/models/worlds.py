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


def chain(order, users=300, items=20, length=12, noise=0.1):
    """What comes next is a fixed function of the last `order` items together; of fewer, nothing can be told."""
    rng = np.random.default_rng(0)
    swap = rng.permutation(items)
    sequences = rng.integers(0, items, (users, length))
    for t in range(order, length):
        known = rng.random(users) > noise
        sequences[known, t] = swap[np.sum(sequences[known, t - order : t], axis=1) % items]
    return Interactions.from_sequences(sequences + 1)


def few_negatives(loss):
    """Options with which a small world is not swamped by the negatives that a row of this loss shares."""
    return {"n_negatives": 3} if "n_negatives" in {o.name for o in options_of(OBJECTIVES[loss].options)} else {}


def drifting_ratings(users=60, items=30, each=24, noise=0.2):
    """Ratings of the model's own form: biases, tastes in two dimensions, and users who grow milder or stricter."""
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(users), each), np.argsort(rng.random((users, items)))[:, :each].ravel()
    day = rng.uniform(0, 100, user.size)
    away = day - np.repeat(day.reshape(users, each).mean(axis=1), each)
    drift = 0.15 * rng.standard_normal(users)[user] * np.sign(away) * np.abs(away) ** 0.4
    biases = 0.4 * rng.standard_normal(users)[user] + 0.4 * rng.standard_normal(items)[item]
    tastes = np.sum(0.8 * rng.standard_normal((users, 2))[user] * rng.standard_normal((items, 2))[item], axis=1)
    ratings = 3 + biases + drift + tastes + noise * rng.standard_normal(user.size)
    return Interactions.from_columns(user + 1, item + 1, day * 86400, ratings=ratings)


def write_tiny(path):
    """TINY as a file of `user item` lines."""
    world = TINY.generate()
    rows = ((u + 1, item) for u in range(world.n_users) for item in world.items.decode(world.sequence(u)))
    path.write_text("".join(f"{user} {item}\n" for user, item in rows))
    return path
