"""A causal model, and its known bugs: a small model with fixed random weights, with every way to leak or to see too little.

A leak is recognised by which inputs move which outputs, so any model with the same leak is named.
"""

import numpy as np

from .bug import bug, planted

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


_SEES, _LAST, _REACHES = "sees = (j <= i) -> sees = {}", "Change the last token; which outputs moved?", "Does the first token reach the last?"

BUGS, make = planted(__name__, [
    bug("leak_one", "every position sees one token ahead in each layer", _LAST, _SEES.format("(j <= i + 1)"), {"leak_two": _SEES.format("(j <= i + 2)"), "leak_three": _SEES.format("(j <= i + 3)")}),
    bug("no_mask", "every position sees all others", _LAST, _SEES.format("(j >= 0) | (i < 0)")),
    bug("mask_transposed", "each position sees itself and the future only", "mask[i, j] = may query i look at key j.", _SEES.format("(j >= i)")),
    bug("over_masked", "no position sees itself", "Can a token see itself?", _SEES.format("(j < i)"), {"over_masked_twice": _SEES.format("(j < i - 1)")}),
    bug("window_of_one", "every position sees itself alone", "Does anything travel from one token to the next?", _SEES.format("(j == i)")),
    bug("short_window", "every position sees itself and a few before it, and nothing older", _REACHES, _SEES.format("(j <= i) & (j > i - 2)"),
        {f"window_of_{name}": _SEES.format(f"(j <= i) & (j > i - {size})") for name, size in (("three", 3), ("four", 4), ("five", 5))}),
    bug("blind", "the outputs do not depend on the input", "Is the input used at all?", "return y -> return np.zeros_like(x)"),
    bug("batch_norm", "statistics mix entries of the batch", "Try one user at a time.", "return y -> return y - np.mean(x, axis=(0, 1))", {"batch_norm_each": "return y -> return y - np.mean(x, axis=0)"}),
    bug("batch_reversed", "entries of the batch are exchanged", "Whose output is this?", "return y -> return y[::-1].copy()"),
    bug("sees_last", "every position sees the last one", _LAST, _SEES.format("(j <= i) | (j == np.max(j, initial=0))")),
    bug("first_unseen", "no other position sees the first token", _REACHES, _SEES.format("(j <= i) & ((j > 0) | (i == 0))"), {"first_dropped": _SEES.format("(j <= i) & (j > 0)")}),
    bug("length_leak", "the outputs depend on the sequence's length", "Which part of the model depends on how long it is?", "return y -> return y * n"),
], dim=6)  # fmt: skip
