"""The embedding, and its known bugs."""

import numpy as np

from .bug import entry, in_place, planted


def embedding(ids, E):
    at = ids.astype(np.int64)
    y = E[at]
    return y


def embedding_backward(dy, ids, E):
    flat, given = ids.astype(np.int64), dy
    flat, given = flat.reshape(-1), given.reshape(-1, E.shape[1])
    dE = np.zeros_like(E)
    np.add.at(dE, flat, given)
    return dE


BUGS, make = planted(__name__)
