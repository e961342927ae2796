"""STOSA: its states are those of the equations, its scores are distances, and it sees nothing ahead."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tests.models.worlds import uneven
from tinyattn.check import gradcheck_model
from tinyattn.data import Interactions, Sampler, pad
from tinyattn.layers import REFINEMENTS
from tinyattn.models import STOSA, STOSANetwork
from tinyattn.ops import Mask
from tinyattn.random import Stream, generator
from tinyattn.tree import add_to, flatten, leaves, tree_map

DATA = uneven(users=9, items=12)
HISTORY = np.array([4, 1, 9, 2, 4])
MODES = [{}, {"root": True}, {"mean_passthrough": True}]


def make(**options):
    """A small network in float64, whose parameters all matter."""
    given = {"n_items": DATA.n_items, "maxlen": 6, "dim": 8, "heads": 2, "blocks": 2, "dropout": 0.3} | options
    network, rng = STOSANetwork(**given), np.random.default_rng(1)
    p = noisy(network.init(generator(0, Stream.INIT)), rng)
    p["items"][0] = 0
    return network, flatten(p, np.float64)[1]


def elu(x):
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def ln(p, x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["gamma"] + p["beta"]


def linear(p, x):
    return x @ p["W"] + p["b"]


def after(p, x, a):
    u = ln(p["norm_1"], x + linear(p["output"], a))
    return ln(p["norm_2"], u + linear(p["feed_forward"]["outer"], elu(linear(p["feed_forward"]["inner"], u))))


def by_the_equations(p, ids, slots, heads, root=False, mean_passthrough=False):
    """Means and covariances of one history; attention position by position, pair by pair."""
    x = p["items"][ids] + p["positions"][slots]
    n, d = len(ids), x.shape[1] // 2
    mean, cov = elu(ln(p["norms"]["mean"], x[:, :d])), elu(ln(p["norms"]["cov"], x[:, d:])) + 1
    for block in p["blocks"]:
        q, k, v = (linear(block["mean"][name], mean) for name in ("query", "key", "value"))
        Q, K, V = (elu(linear(block["cov"][name], cov)) + 1 for name in ("query", "key", "value"))
        a, c = np.zeros((n, d)), np.zeros((n, d))
        for own in np.split(np.arange(d), heads):
            for i in range(n):
                squared = [np.sum((q[i] - k[j])[own] ** 2) + np.sum((np.sqrt(Q[i]) - np.sqrt(K[j]))[own] ** 2)
                           for j in range(i + 1)]  # fmt: skip
                s = -(np.sqrt(squared) if root else np.array(squared)) / math.sqrt(d / heads)
                weights = np.exp(s) / np.sum(np.exp(s))
                a[i, own] = sum(w * v[j, own] for j, w in enumerate(weights))
                c[i, own] = sum(w**2 * V[j, own] for j, w in enumerate(weights))
        mean = mean if mean_passthrough else after(block["mean"], mean, a)
        cov = elu(after(block["cov"], cov, c)) + 1
    return mean, cov


@pytest.mark.host
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_states_are_those_of_the_equations_and_scores_the_distances_to_items(mode):
    network, p = make(**mode)
    batch = pad([HISTORY], 6)
    h, cache = network.forward(p, batch)
    mean, cov = by_the_equations(p, HISTORY, batch.slots[0], 2, **mode)
    np.testing.assert_allclose(h[0], np.concatenate([mean, np.sqrt(cov)], axis=1), rtol=0, atol=1e-12)
    m, S = p["items"][:, :8], elu(p["items"][:, 8:]) + 1
    distances = np.sum((mean[-1] - m) ** 2, axis=1) + np.sum((np.sqrt(cov[-1]) - np.sqrt(S)) ** 2, axis=1)
    scores = network.score(p, batch)[0]
    assert scores[0] == -np.inf
    np.testing.assert_allclose(scores[1:], -distances[1:], rtol=0, atol=1e-12)
    for item in (3, 7):
        gradient, step = network.score_gradient(p, h[0, -1], item), 1e-6
        for at in (0, 11):
            ends = [network.score_items(p, h[0, -1:] + sign * step * np.eye(16)[at])[0, item] for sign in (1, -1)]
            np.testing.assert_allclose(gradient[at], (ends[0] - ends[1]) / (2 * step), rtol=0, atol=1e-7)
    for weights in network.attention(cache):
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-12)


@pytest.mark.host
@pytest.mark.parametrize("mode", [*MODES[1:], {"pvn_weight": 2.0}], ids=str)
def test_gradients_in_every_mode(mode):
    network, p = make(blocks=1, **mode)
    report = gradcheck_model(network, p, Sampler(DATA, 6, DATA.n_users, 0, True).batch(0), key=3, entries=2)
    assert report, f"\n{report}"


def test_with_the_released_codes_defect_the_mean_is_that_of_the_last_item_alone(device):
    network, p = make(mean_passthrough=True, dropout=0.0)
    other = HISTORY.copy()
    other[0] = 8
    (mine, _), (theirs, _) = (network.forward(p, pad([history], 6)) for history in (HISTORY, other))
    np.testing.assert_array_equal(mine[0, 1:, :8], theirs[0, 1:, :8])
    assert np.all(np.abs(mine - theirs)[0, 1:, 8:].max(axis=1) > 1e-6)  # deviations still say what was before
    _, cache = network.loss(p, Sampler(DATA, 6, 9, 0, True).batch(0))
    total = tree_map(np.zeros_like, p)
    add_to(total, network.loss_backward(p, 1.0, cache))
    dead = {"value", "output", "norm_1", "feed_forward", "norm_2"}
    for name, g in leaves(total["blocks"][0]):
        stream, part = name.split(".")[:2]
        assert np.any(g) != (stream == "mean" and part in dead), name


@pytest.mark.host
@pytest.mark.parametrize("name", REFINEMENTS)
def test_a_fresh_model_attends_to_all_about_alike(name):
    """Distances of fresh distributions are small: with wide ones a refinement would begin with one weight of 1."""
    network = STOSANetwork(n_items=200, maxlen=20, dim=64, heads=4, dropout=0.0, refine=name)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float32)[1]
    history = np.random.default_rng(0).integers(1, 201, 20)
    weights = network.attention(network.forward(p, pad([history], 20))[1])[0][0]
    assert weights[:, -1].max() < 3 / 20


@pytest.mark.parametrize("name", [name for name, cls in REFINEMENTS.items() if not cls.identity])
def test_refined_scores(name, device):
    """AWRSR's host: gradients, no look ahead, and one row that is as all rows have it."""
    network, p = make(refine=name, dropout=0.0)
    assert set(p["blocks"][0]) == {"mean", "cov", "refinement"}
    if device == "cpu":
        one_block = make(refine=name, dropout=0.0, blocks=1)
        assert gradcheck_model(*one_block, Sampler(DATA, 6, 9, 0, True).batch(0), key=3, entries=1)
    h, _ = network.forward(p, pad([HISTORY, HISTORY[:2]], 6))
    np.testing.assert_allclose(network.last_state(p, pad([HISTORY], 6))[0], h[0, 4], rtol=0, atol=1e-12)
    np.testing.assert_allclose(network.last_state(p, pad([HISTORY[:2]], 6))[0], h[1, 1], rtol=0, atol=1e-12)
    later = network.forward(p, pad([np.array([4, 1, 9, 2, 7]), HISTORY[:2]], 6))[0]
    assert np.any(later[0, :4] != h[0, :4]) == REFINEMENTS[name].reads_all


@pytest.mark.host
@pytest.mark.parametrize("leaks", [False, True])
def test_where_nothing_can_be_told_the_loss_is_no_better_than_chance(leaks, monkeypatch):
    """The iid oracle. Of items in no order, each once, target and negative are alike to who sees the past alone: BPR
    cannot be below ln 2. Who sees the target can be."""
    if leaks:
        monkeypatch.setattr(STOSANetwork, "_mask", lambda self, batch: Mask())
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(np.arange(1, 31), (1200, 1)), axis=1)[:, :8]
    train, fresh = Interactions.from_sequences(orders[:600]), Interactions.from_sequences(orders[600:])
    model = STOSA(maxlen=7, dim=8, heads=2, dropout=0.0, epochs=8, lr=0.02, batch_size=60, pvn_weight=0.0, workers=1)
    model.fit(train, progress=False)
    found = float(model.network.loss(model.parameters, Sampler(fresh, 7, 600, 0, True).batch(0))[0])
    assert (found < 0.6) if leaks else (found > math.log(2) - 0.005), found


@pytest.mark.host
def test_similar_items_are_the_nearest_ones():
    model = STOSA(maxlen=6, dim=8, epochs=1, workers=1).fit(DATA, progress=False)
    points = model.network.item_vectors(model.parameters).astype(np.float64)
    ids, scores = model.similar(model.items.ids[2], 4)
    distances = np.sum((points - points[3]) ** 2, axis=1)
    expected = [i for i in np.argsort(distances, kind="stable") if i not in (0, 3)][:4]
    assert ids.tolist() == model.items.ids[np.array(expected) - 1].tolist()
    np.testing.assert_allclose(scores, -distances[expected], rtol=1e-5, atol=1e-5)


@pytest.mark.host
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loss": "ce"}, "loss is 'ce', expected bpr: stosa learns from the distances"),
        ({"loss": "mse"}, "loss is 'mse', expected one of bce, bpr"),
        ({"dim": 10}, "dim 10 is not divisible by heads 4"),
        ({"pvn_weight": -0.1}, r"pvn_weight is -0\.1, expected at least 0"),
        ({"refine_scale": "n"}, "refine_scale is n, an option of refine simp or .*; refine is none"),
        ({"blocks": 0}, "blocks is 0, expected 1 to 1000"),
    ],
    ids=str,
)
def test_what_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        STOSA(**options)
