"""The LSTM that reads its past states: plain loops, gradients, and what it keeps."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_layer
from tinyattn.layers import nbytes
from tinyattn.layers.mixers import LSTMN
from tinyattn.ops import Mask

B, N, D = 2, 6, 4
CAUSAL = Mask(causal=True)


@pytest.fixture
def given(rng):
    p = noisy(LSTMN().init(rng, D), rng)
    return p, rng.standard_normal((B, N, D))


def by_loops(p, x):
    """One sequence, token by token and unit by unit: equations 4 to 9. -> states, weights."""
    def sigma(u):
        return 1 / (1 + math.exp(-u))

    n = len(x)
    h, c, weights, read = [], [], np.zeros((n, n)), [0.0] * D
    for t in range(n):
        scores = [
            sum(
                p["v"][j] * math.tanh(sum(
                    h[i][k] * p["Wh"][k, j] + x[t][k] * p["Wx"][k, j] + read[k] * p["Wr"][k, j] for k in range(D)
                ))
                for j in range(D)
            )
            for i in range(t)
        ]  # fmt: skip
        for i in range(t):
            weights[t, i] = math.exp(scores[i]) / sum(map(math.exp, scores))
        read, cell = ([sum(weights[t, i] * a[i][k] for i in range(t)) for k in range(D)] for a in (h, c))
        u = [p["b"][o] + sum(x[t][k] * p["W"][k, o] + read[k] * p["U"][k, o] for k in range(D)) for o in range(4 * D)]
        c.append([sigma(u[D + k]) * cell[k] + sigma(u[k]) * math.tanh(u[3 * D + k]) for k in range(D)])
        h.append([sigma(u[2 * D + k]) * math.tanh(c[t][k]) for k in range(D)])
    return h, weights


def test_it_is_its_equations(given):
    p, x = given
    y, cache = LSTMN().forward(p, x, mask=CAUSAL)
    for i in range(B):
        h, weights = by_loops(p, x[i])
        np.testing.assert_allclose(y[i], h, rtol=0, atol=1e-13)
        np.testing.assert_allclose(cache.weights[i], weights, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, N])
def test_gradients(given, n):
    p, x = given
    lstmn = LSTMN()
    assert gradcheck_layer(lambda p, x: lstmn.forward(p, x, mask=CAUSAL), lstmn.run_backward, p, x[:, :n])


def test_what_is_kept_grows_with_the_tokens(given):
    """States, cells and keys of all, and what the last token read; nothing is written into it."""
    p, x = given
    lstmn = LSTMN()
    whole = lstmn.forward(p, x, mask=CAUSAL)[0]
    past = None
    for t in range(N):
        before = None if past is None else [a.copy() for a in past]
        y, after = lstmn.extend(p, x[:, t : t + 1], None, past)
        np.testing.assert_allclose(y[:, 0], whole[:, t], rtol=0, atol=1e-13)
        assert nbytes(after) == B * (3 * (t + 1) + 1) * D * 8
        for a, b in zip(past or (), before or (), strict=True):
            np.testing.assert_array_equal(a, b)
        past = after
