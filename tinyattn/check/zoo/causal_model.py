"""A causal model, and its known bugs: a small one with fixed random weights, and every way to leak or see too little.

A leak is recognised by which inputs move which outputs, so any model with the same leak is named.
"""

import numpy as np

from .bug import planted

W = np.random.default_rng(1).standard_normal((6, 6))


def forward(x):
    """A weighted sum of tanh(x W) over what a token sees, of vectors of width 6."""
    n = x.shape[1]
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    sees = (j <= i)
    weights = sees / (1.0 + np.abs(i - j))
    y = np.zeros_like(x)
    for t in range(n):  # one by one, so that sums have the same bits
        for s in range(n):
            if sees[t, s]:
                y[:, t] += weights[t, s] * np.tanh(x[:, s] @ W)
    return y


BUGS, make = planted(__name__, dim=6)
