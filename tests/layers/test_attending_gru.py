"""The decoder that aligns: gradients, what padding may do, steps one at a time, and its alignment."""

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_layer
from tinyattn.layers import AttendingGRU

B, N, M, D, E = 2, 4, 5, 3, 4
LENGTHS = np.array([5, 3])


@pytest.fixture
def given(rng):
    p = noisy(AttendingGRU().init(rng, D, E), rng)
    return p, rng.standard_normal((B, N, D)), rng.standard_normal((B, M, E))


def forward(p, x, memory):
    """States and what was seen as one output."""
    h, seen, cache = AttendingGRU().forward(p, x, memory, LENGTHS)
    return np.concatenate([h, seen], axis=-1), cache


def backward(p, dy, cache):
    return AttendingGRU().backward(p, dy[..., :D], dy[..., D:], cache)


def test_gradients(given, rng):
    p, x, memory = given
    assert gradcheck_layer(lambda p, x: forward(p, x, memory), lambda p, dy, c: _of_x(p, dy, c), p, x)
    dy = rng.standard_normal((B, N, D + E))
    dmemory, step = backward(p, dy, forward(p, x, memory)[1])[1], rng.standard_normal(memory.shape)
    ahead, behind = (np.sum(dy * forward(p, x, memory + h * step)[0]) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(np.sum(dmemory * step), (ahead - behind) / 2e-6, rtol=1e-7)


def _of_x(p, dy, cache):
    dx, _, grads = backward(p, dy, cache)
    return dx, grads


def test_padding_of_the_memory_is_never_seen(given):
    p, x, memory = given
    y, cache = forward(p, x, memory)
    moved = memory.copy()
    moved[1, 3:] = 7
    np.testing.assert_array_equal(forward(p, x, moved)[0], y)
    np.testing.assert_array_equal(cache.weights[1, :, 3:], 0)
    np.testing.assert_allclose(cache.weights.sum(axis=-1), 1, rtol=0, atol=1e-12)
    assert not backward(p, np.ones_like(y), cache)[1][1, 3:].any()


def test_one_step_at_a_time_is_all_at_once(given):
    p, x, memory = given
    layer = AttendingGRU()
    h, _, _ = layer.forward(p, x, memory, LENGTHS)
    state = None
    for t in range(N):
        state, _, _ = layer.forward(p, x[:, t : t + 1], memory, LENGTHS, state)
        np.testing.assert_allclose(state[:, 0], h[:, t], rtol=0, atol=1e-13)
