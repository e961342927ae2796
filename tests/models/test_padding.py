"""Padding that attention looks at, as ports of SASRec to PyTorch have it."""

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.data import Sampler, pad
from tinyattn.layers import BLOCK_FORMS
from tinyattn.models import SASRecNetwork
from tinyattn.models.recommenders.sasrec import NETWORKS
from tinyattn.tree import add_to, leaves, tree_map

DATA = uneven()
CASES = [(padding, form) for padding in ("blank", "tokens") for form in BLOCK_FORMS]


def made(padding, form="pre", **options):
    """A network, and parameters far from their initial values, padding's included."""
    options = {"maxlen": 6, "dim": 8, "heads": 2, "eps": 1e-3, "dropout": 0.0, **options}
    network = NETWORKS[padding](n_items=DATA.n_items, padding=padding, block_form=form, objective="ce", **options)
    rng = np.random.default_rng(0)
    return network, tree_map(lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape), network.init(rng))


@pytest.mark.parametrize(("padding", "form"), CASES)
def test_the_gradient_is_that_of_the_loss(padding, form):
    """Along a direction in which all parameters change but that of padding, which does not learn."""
    network, p = made(padding, form, last_eps=1e-2)
    batch = Sampler(DATA, 6, DATA.n_users, 0, False).batch(0)
    _, cache = network.loss(p, batch)
    grads = tree_map(np.zeros_like, p)
    add_to(grads, network.loss_backward(p, 1.0, cache))
    rng, h = np.random.default_rng(1), 1e-5
    along = tree_map(lambda leaf: rng.normal(size=leaf.shape), p)
    along["items"][0] = 0
    by_name = dict(leaves(along))
    ahead, behind = (network.loss(_plus(p, by_name, step), batch)[0] for step in (h, -h))
    expected = sum(np.sum(g * by_name[name]) for name, g in leaves(grads))
    assert (ahead - behind) / (2 * h) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert not np.any(grads["items"][0])


def _plus(p, along, step):
    names = iter([name for name, _ in leaves(p)])
    return tree_map(lambda leaf: leaf + step * along[next(names)], p)


@pytest.mark.parametrize(("padding", "form"), CASES)
def test_the_last_state_is_that_of_forward_however_a_batch_is_cut(padding, form):
    network, p = made(padding, form)
    rows = [np.array([1, 2, 3, 4, 5, 6]), np.array([7]), np.array([2, 9])]
    h, cache = network.forward(p, pad(rows, 6))
    together = network.last_state(p, pad(rows, 6))
    for i, row in enumerate(rows):
        np.testing.assert_allclose(h[i, len(row) - 1], together[i], rtol=1e-10)
        np.testing.assert_allclose(network.last_state(p, pad([row], 6))[0], together[i], rtol=1e-10)
    weights = network.attention(cache)[0]
    assert weights.shape == (3, 2, 6, 6)
    np.testing.assert_allclose(weights[0].sum(-1), 1)
    assert np.all(weights[1, :, 0, 0] < 1)               # the rest went to padding


@pytest.mark.parametrize("padding", ["blank", "tokens"])
def test_padding_is_a_token_before_the_items(padding):
    """Compared with a history in which padding is an item, without positions."""
    network, p = made(padding, position="none", blocks=1)
    history, n = np.array([3, 4]), network.maxlen
    other = SASRecNetwork(n_items=DATA.n_items + 1, maxlen=n, dim=8, heads=2, eps=1e-3, position="none", blocks=1)
    row = p["items"][:1] if padding == "tokens" else 0 * p["items"][:1]
    q = p | {"items": np.concatenate([p["items"], row])}
    filled = pad([np.concatenate([np.full(n - 2, DATA.n_items + 1), history])], n)
    np.testing.assert_allclose(network.last_state(p, pad([history], n)), other.last_state(q, filled), rtol=1e-10)


def test_nothing_is_kept_of_items_that_move():
    network, _ = made("tokens", position="rope")
    assert not network.extends
    assert not network.is_plain
    assert made("hidden", position="rope")[0].extends


def test_a_network_that_hides_padding_refuses_to_show_it():
    with pytest.raises(ValueError, match="padding is 'blank', expected hidden"):
        SASRecNetwork(n_items=3, padding="blank")
