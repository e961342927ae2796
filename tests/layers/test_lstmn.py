"""The LSTM that reads its past states: plain loops, gradients, what it is if it reads the last state only."""

import math

import numpy as np
import pytest

from tinyattn.check import gradcheck_layer
from tinyattn.layers import nbytes
from tinyattn.layers.mixers import LSTM, LSTMN
from tinyattn.ops import Mask
from tinyattn.tree import tree_map

B, N, D = 2, 6, 4
CAUSAL = Mask(causal=True)


@pytest.fixture
def given(rng):
    p = tree_map(lambda a: a + 0.3 * rng.standard_normal(a.shape), LSTMN().init(rng, D))
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


def test_a_token_looks_at_all_before_it_and_at_nothing_else(given):
    p, x = given
    weights = LSTMN().forward(p, x, mask=CAUSAL)[1].weights
    assert weights.shape == (B, N, N)
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(np.tri(N, k=-1, dtype=bool), weights.shape))
    np.testing.assert_allclose(weights[:, 1:].sum(axis=-1), 1, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, N])
def test_gradients(given, n):
    p, x = given
    lstmn = LSTMN()
    assert gradcheck_layer(lambda p, x: lstmn.forward(p, x, mask=CAUSAL), lstmn.run_backward, p, x[:, :n])


def test_if_only_the_last_state_is_looked_at_it_is_the_lstm(given, rng):
    """One unit counts tokens, and the score is what it shows, times 10⁵: the newest state has all of the weight."""
    p, x = given
    W, U, b = (p[name].reshape(-1, 4, D) for name in ("W", "U", "b"))
    W[..., -1] = U[..., -1] = 0
    b[0, :, -1] = 50, 50, 50, 0.2                               # i, f, o open; c grows by tanh(0.2)
    p["Wh"][...] = p["Wx"][...] = p["Wr"][...] = 0
    p["Wh"][-1, 0] = 1
    p["v"][0] = 1e5
    of_lstm = {name: p[name] for name in ("W", "U", "b")}
    (y, cache), (other, known) = LSTMN().forward(p, x, mask=CAUSAL), LSTM().forward(of_lstm, x, mask=CAUSAL)
    np.testing.assert_array_equal(cache.weights, np.broadcast_to(np.eye(N, k=-1), (B, N, N)))
    np.testing.assert_allclose(y, other, rtol=0, atol=1e-13)
    dy = rng.standard_normal(y.shape)
    dx, grads = LSTMN().run_backward(p, dy, cache)
    dother, others = LSTM().run_backward(of_lstm, dy, known)
    np.testing.assert_allclose(dx, dother, rtol=0, atol=1e-12)
    for name, g in others.items():
        np.testing.assert_allclose(grads[name], g, rtol=0, atol=1e-12, err_msg=name)


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
