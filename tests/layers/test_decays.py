"""Decays so fast that exp(log w) would overflow: nothing is left of a state, and every gradient is finite."""

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.layers.mixers import Mamba
from tinyattn.layers.mixers.rwkv import RWKV
from tinyattn.tree import leaves, tree_map

FAST = [(RWKV(), "log_w"), (Mamba(), "log_A"), (Mamba(exact_hold=True), "log_A")]


@pytest.mark.parametrize(("mixer", "name"), FAST, ids=["rwkv", "mamba", "mamba, exact"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_decay_that_overflows_forgets_as_one_that_does_not(mixer, name, dtype, rng):
    p = tree_map(lambda a: a.astype(dtype), mixer.init(rng, 4))
    x, found = rng.standard_normal((2, 40, 4)).astype(dtype), []
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for log in (20, 95, 1000):
            p[name][...] = log
            y, cache = mixer.run(p, x)
            dx, grads = mixer.run_backward(p, np.ones_like(y), cache)
            found.append((y, dx))
            for at, gradient in leaves(grads):
                assert np.all(np.isfinite(gradient)), at
            np.testing.assert_allclose(grads[name], 0, rtol=0, atol=1e-6)
    for y, dx in found[1:]:
        np.testing.assert_allclose(y, found[0][0], rtol=0, atol=1e-6)
        np.testing.assert_allclose(dx, found[0][1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("far", [4e4, 1e5, 1e30])
def test_an_exact_hold_of_any_length_is_finite_and_warns_of_nothing(far, rng):
    x, delta = np.ones((1, 9, 2), np.float32), np.full((1, 9, 2), far, np.float32)
    A, B, C = -np.ones((3, 2), np.float32), *(np.ones((1, 9, 3), np.float32) for _ in range(2))
    D = np.zeros(2, np.float32)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y, states = ops.selective_scan(x, delta, A, B, C, D, exact=True)
        grads = ops.selective_scan_backward(np.ones_like(y), x, delta, A, B, C, D, states, exact=True)
    np.testing.assert_allclose(y, 3, rtol=1e-6)              # held for long, h is B x / -A in each of three states
    assert all(np.all(np.isfinite(g)) for g in grads if g is not None)
