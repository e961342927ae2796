"""How many users have both of two items, for item cosine and EASE."""

from collections.abc import Iterator

import numpy as np

from ...data import Interactions, distinct
from ...data.distinct import ranges


def co_occurrence(train: Interactions) -> Iterator[np.ndarray]:
    """The rows of XᵀX for items 0, 1, 2, ...: in row i (n_items + 1,), entry j is how many users have items i and j."""
    size = train.n_items + 1
    pairs = distinct(train.owner * np.int64(size) + train.flat)     # each user's set of items
    user, item = pairs // size, pairs % size
    starts = np.searchsorted(user, np.arange(train.n_users + 1))
    order = np.argsort(item, kind="stable")
    users_of = user[order]                                     # item i's users: users_of[begins[i]:begins[i + 1]]
    begins = np.searchsorted(item[order], np.arange(size + 1))
    for i in range(size):
        mine = users_of[begins[i] : begins[i + 1]]
        yield np.bincount(item[ranges(starts[mine], starts[mine + 1])], minlength=size)
