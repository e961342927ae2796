"""The factorised models' scores, in the papers' sums."""

import numpy as np
import pytest

from tinyattn.data import pad
from tinyattn.models import FISMNetwork, FossilNetwork, FPMCNetwork, MFNetwork

pytestmark = pytest.mark.host
SIZES = {"n_items": 9, "n_users": 4, "dim": 3, "maxlen": 5}
HISTORIES = [np.array([3, 1, 4, 1, 5]), np.array([2, 7]), np.array([6])]
USERS = np.array([2, 4, 0])


def scores(network, rng):
    """-> parameters, all of them drawn but those of user 0, and the scores of items 1.. for the three histories."""
    p = {name: rng.standard_normal(leaf.shape) for name, leaf in network.init(rng).items()}
    if "users" in p:
        p["users"][0] = 0
    return p, network.score(p, pad(HISTORIES, 5, USERS))[:, 1:]


def test_mf(rng):
    p, found = scores(MFNetwork(**SIZES), rng)
    q, b = p["output"][1:, :-1], p["output"][1:, -1]
    np.testing.assert_allclose(found, [q @ p["users"][u] + b for u in USERS], rtol=1e-12)
    np.testing.assert_array_equal(found[2], b)  # nobody: the biases


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_fism(alpha, rng):
    p, found = scores(FISMNetwork(**SIZES, alpha=alpha), rng)
    q, b = p["output"][1:, :-1], p["output"][1:, -1]
    wanted = [q @ sum(p["items"][j] for j in h) / len(h) ** alpha + b for h in HISTORIES]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_fpmc(rng):
    p, found = scores(FPMCNetwork(**SIZES), rng)
    of_user, of_last = p["output"][1:, :3], p["output"][1:, 3:]
    wanted = [of_user @ p["users"][u] + of_last @ p["items"][h[-1]] for u, h in zip(USERS, HISTORIES, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 3, 8])
def test_fossil(order, rng):
    p, found = scores(FossilNetwork(**SIZES, order=order, alpha=0.7), rng)
    q, b = p["output"][1:, :-1], p["output"][1:, -1]
    for row, u, h in zip(found, USERS, HISTORIES, strict=True):
        x = sum(p["items"][j] for j in h) / len(h) ** 0.7
        for k, j in enumerate(h[::-1][:order]):
            x = x + (p["weights"][k] + p["users"][u, k]) * p["items"][j]
        np.testing.assert_allclose(row, q @ x + b, rtol=1e-12)
