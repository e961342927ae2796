"""Recommenders with random parameters, which nobody had to train."""

import numpy as np

from tinyattn.data import Vocabulary
from tinyattn.models.parameters import named
from tinyattn.tree import tree_map

ITEMS, USERS = 11, 6


def untrained(kind, **options):
    """A recommender of this kind, of items 10, 20, ..., with parameters far from their start."""
    model = kind(**{"maxlen": 9, "dim": 4, "workers": 1, "dropout": 0.0, **options})
    rng = np.random.default_rng(0)
    p = model.make_network(ITEMS, USERS).init(rng)
    p = tree_map(lambda leaf: (leaf + 0.3 * rng.normal(size=leaf.shape)).astype(np.float32), p)
    if "items" in p:
        p["items"][0] = 0
    items, users = Vocabulary(10 * np.arange(1, ITEMS + 1), "item"), Vocabulary(np.arange(1, USERS + 1), "user")
    return model.learned_elsewhere(items, users, named(p).items())


def histories(model, count=7):
    """Histories of many lengths: -> item numbers, the same padded on the right, user numbers."""
    rng = np.random.default_rng(1)
    lengths = [1, model.maxlen, *rng.integers(1, model.maxlen + 1, size=count - 2)]
    rows = [rng.integers(1, ITEMS + 1, size=n) for n in lengths]
    ids = np.zeros((count, model.maxlen), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return rows, ids, np.arange(count) % (USERS + 1)
