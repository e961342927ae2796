"""A small causal model with fixed random weights, and its known bugs: ways to leak, and to see too little.

A bug is recognised by which inputs move which outputs, so it is named in any model.
"""

import numpy as np

from .bug import planted

W = np.random.default_rng(1).standard_normal((6, 6))


def forward(x):
    """For each token a weighted sum of tanh(x W) over the tokens that it sees; x has width 6."""
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
