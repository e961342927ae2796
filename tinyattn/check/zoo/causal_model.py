"""Causal models with bugs: small models with fixed random weights, each with one way to leak or to see too little.

A leak is recognised by which inputs move which outputs, so any model with the same leak is named.
"""

from types import SimpleNamespace

import numpy as np

from .bug import Bug

BUGS = [
    Bug("leak_one", "every position sees one token ahead in each layer",
        "Change the last token; which outputs moved?", also=("leak_two", "leak_three")),
    Bug("no_mask", "every position sees all others", "Change the last token; which outputs moved?"),
    Bug("mask_transposed", "each position sees itself and the future only", "mask[i, j] = may query i look at key j."),
    Bug("over_masked", "no position sees itself", "Can a token see itself?", also=("over_masked_twice",)),
    Bug("window_of_one", "every position sees itself alone", "Does anything travel from one token to the next?"),
    Bug("short_window", "every position sees itself and a few before it, and nothing older", "Does the first token reach the last?",
        also=("window_of_three", "window_of_four", "window_of_five")),
    Bug("blind", "the outputs do not depend on the input", "Is the input used at all?"),
    Bug("batch_norm", "statistics mix entries of the batch", "Try one user at a time.", also=("batch_norm_each",)),
    Bug("batch_reversed", "entries of the batch are exchanged", "Whose output is this?"),
    Bug("sees_last", "every position sees the last one", "Change the last token; which outputs moved?"),
    Bug("first_unseen", "no other position sees the first token", "Does the first token reach the last?",
        also=("first_dropped",)),
    Bug("length_leak", "the outputs depend on the sequence's length", "Which part of the model depends on how long it is?"),
]
_SEES = {
    "leak_one": lambda i, j: j <= i + 1,
    "leak_two": lambda i, j: j <= i + 2,
    "leak_three": lambda i, j: j <= i + 3,
    "no_mask": lambda i, j: (j >= 0) | (i < 0),
    "mask_transposed": lambda i, j: j >= i,
    "over_masked": lambda i, j: j < i,
    "over_masked_twice": lambda i, j: j < i - 1,
    "window_of_one": lambda i, j: j == i,
    "short_window": lambda i, j: (j <= i) & (j > i - 2),
    "window_of_three": lambda i, j: (j <= i) & (j > i - 3),
    "window_of_four": lambda i, j: (j <= i) & (j > i - 4),
    "window_of_five": lambda i, j: (j <= i) & (j > i - 5),
    "sees_last": lambda i, j: (j <= i) | (j == np.max(j, initial=0)),
    "first_unseen": lambda i, j: (j <= i) & ((j > 0) | (i == 0)),
    "first_dropped": lambda i, j: (j <= i) & (j > 0),
}


def make(bugs=frozenset()):
    """-> a causal model with these bugs, of vectors of width 6: a weighted sum of tanh(x W) over what a token sees."""
    W = np.random.default_rng(1).standard_normal((6, 6))

    def forward(x):
        n = x.shape[1]
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        sees = j <= i
        for name, rule in _SEES.items():
            sees = rule(i, j) if name in bugs else sees
        if "blind" in bugs:
            return np.zeros_like(x)
        weights = sees / (1.0 + np.abs(i - j))
        y = np.zeros_like(x)
        for t in range(n):                                               # one by one, so that sums have the same bits
            for s in range(n):
                if sees[t, s]:
                    y[:, t] += weights[t, s] * np.tanh(x[:, s] @ W)
        y = y - np.mean(x, axis=(0, 1)) if "batch_norm" in bugs else y
        y = y - np.mean(x, axis=0) if "batch_norm_each" in bugs else y
        y = y[::-1].copy() if "batch_reversed" in bugs else y
        return y * n if "length_leak" in bugs else y

    return SimpleNamespace(forward=forward, dim=6)
