"""Losses on negatives that a row shares: plain loops, and what they become at the ends of their options."""

import math

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.data import Interactions, Sampler
from tinyattn.models import SASRec, SASRecNetwork
from tinyattn.models.objectives import OBJECTIVES

DATA = uneven(users=9, items=12)
K = 3


def drawn(rng, dtype=np.float64, k=K):
    """A batch with k shared negatives a row, and hidden states and a table for it."""
    batch = Sampler(DATA, 6, DATA.n_users, 0, True, k).batch(0)
    h, E = rng.standard_normal((*batch.ids.shape, 4)), rng.standard_normal((DATA.n_items + 1, 4))
    return batch, h.astype(dtype), E.astype(dtype)


def by_loops(each, h, E, batch):
    """The mean of `each(score of the target, scores of the row's negatives)` over real positions."""
    found = [
        each(float(h[b, t] @ E[batch.targets[b, t]]), [float(h[b, t] @ E[i]) for i in batch.shared[b, 0]])
        for b, t in np.argwhere(batch.targets)
    ]
    return sum(found) / len(found)


def log_sigmoid(z):
    return -math.log1p(math.exp(-z))


def test_sampled_softmax_by_loops(rng):
    batch, h, E = drawn(rng)
    expected = by_loops(lambda z, others: math.log(sum(map(math.exp, [z, *others]))) - z, h, E, batch)
    found = OBJECTIVES["sampled-softmax"].forward(h, E, batch, n_negatives=K)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_bpr_max_by_loops(rng):
    batch, h, E = drawn(rng)

    def each(z, others):
        s = [math.exp(r) / sum(map(math.exp, others)) for r in others]
        wins = sum(w / (1 + math.exp(r - z)) for w, r in zip(s, others, strict=True))
        return -math.log(wins) + 0.3 * sum(w * r * r for w, r in zip(s, others, strict=True))

    found = OBJECTIVES["bpr-max"].forward(h, E, batch, n_negatives=K, regularisation=0.3)[0]
    np.testing.assert_allclose(found, by_loops(each, h, E, batch), rtol=1e-12)


def one_negative_each(rng):
    """A batch with padding and a negative at every position, and hidden states and a table for it."""
    batch = Sampler(DATA, 6, DATA.n_users, 0, True).batch(0)
    assert (batch.targets == 0).any()
    return batch, rng.standard_normal((*batch.ids.shape, 4)), rng.standard_normal((DATA.n_items + 1, 4))


@pytest.mark.parametrize(("name", "each"), [
    ("bce", lambda z, other: -log_sigmoid(z) - log_sigmoid(-other)), ("bpr", lambda z, other: -log_sigmoid(z - other)),
])  # fmt: skip
def test_losses_with_a_negative_a_position_by_loops(name, each, rng):
    batch, h, E = one_negative_each(rng)
    found = [each(float(h[b, t] @ E[batch.targets[b, t]]), float(h[b, t] @ E[batch.negatives[b, t]]))
             for b, t in np.argwhere(batch.targets)]  # fmt: skip
    np.testing.assert_allclose(OBJECTIVES[name].forward(h, E, batch)[0], sum(found) / len(found), rtol=1e-12)
    weight = batch.weight * np.array([1.0, 3.0, 0.0])[np.arange(batch.weight.size) % 3].reshape(batch.weight.shape)
    weights = weight[tuple(np.argwhere(batch.targets).T)]
    expected = sum(w * x for w, x in zip(weights, found, strict=True)) / weights.sum()
    np.testing.assert_allclose(OBJECTIVES[name].forward(h, E, batch._replace(weight=weight))[0], expected, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_over_all_items_by_loops(smoothing, rng):
    """The target has 1 - ε, and ε is shared by all items, the target among them. Padding is no candidate."""
    batch, h, E = one_negative_each(rng)
    items, found = range(1, len(E)), []
    for b, t in np.argwhere(batch.targets):
        z = [float(h[b, t] @ E[i]) for i in items]
        total = math.log(sum(map(math.exp, z)))
        wanted = [(1 - smoothing) * (i == batch.targets[b, t]) + smoothing / len(z) for i in items]
        found.append(sum(w * (total - s) for w, s in zip(wanted, z, strict=True)))
    value = OBJECTIVES["ce"].forward(h, E, batch, label_smoothing=smoothing)[0]
    np.testing.assert_allclose(value, sum(found) / len(found), rtol=1e-12)


@pytest.mark.parametrize(("t", "base_rate"), [(0.0, False), (0.75, False), (1.0, True)])
def test_gbce_by_loops(t, base_rate, rng):
    """The paper's β, term by term."""
    batch, h, E = drawn(rng)
    alpha = K / (DATA.n_items - 1)
    beta = alpha * (t * (1 - 1 / alpha) + 1 / alpha)
    b = math.log(K) if base_rate else 0

    def each(z, others):
        return -beta * log_sigmoid(z - b) - sum(log_sigmoid(b - s) for s in others)

    expected = by_loops(each, h, E, batch)
    found = OBJECTIVES["gbce"].forward(h, E, batch, n_negatives=K, calibration=t, base_rate=base_rate)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_gbce_with_one_negative_and_no_calibration_is_bce(rng):
    """Loss and gradients, where bce is given the row's negative at every position."""
    batch, h, E = drawn(rng, k=1)
    same = batch._replace(negatives=np.broadcast_to(batch.shared[:, 0], batch.ids.shape))
    found = []
    for name, of, options in (("bce", same, {}), ("gbce", batch, {"n_negatives": 1, "calibration": 0.0})):
        loss, saved = OBJECTIVES[name].forward(h, E, of, **options)
        dh, scored = OBJECTIVES[name].backward(0.7, h, E, of, saved)
        dE = np.zeros_like(E)
        np.add.at(dE, scored.ids, scored.values)
        found.append((loss, dh, dE))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-15)


def test_more_negatives_than_items_are_a_whole_sample(rng):
    """α is at most 1: β does not exceed that of bce, whatever t is."""
    batch, h, E = drawn(rng, k=40)
    found = [OBJECTIVES["gbce"].forward(h, E, batch, n_negatives=40, calibration=t)[0] for t in (0.0, 1.0)]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["gbce", "sampled-softmax", "bpr-max"])
def test_large_scores_stay_finite_in_float32(name, rng):
    batch, h, E = drawn(rng, np.float32)
    part = SASRecNetwork(n_items=12, objective=name, n_negatives=K).loss_options
    loss, saved = OBJECTIVES[name].forward(1000 * h, E, batch, **part)
    dh, scored = OBJECTIVES[name].backward(1.0, 1000 * h, E, batch, saved)
    assert loss.dtype == dh.dtype == scored.values.dtype == np.float32
    assert all(np.all(np.isfinite(x)) for x in (loss, dh, scored.values))


def test_negatives_of_a_row_are_items_its_user_never_had_whatever_the_slices():
    batch = Sampler(DATA, 6, DATA.n_users, 0, True, 50).batch(3)
    assert batch.negatives is None
    assert batch.shared.shape == (len(batch.users), 1, 50)
    for user, row in zip(batch.users, batch.shared[:, 0], strict=True):
        unseen = set(range(1, DATA.n_items + 1)) - set(DATA.sequence(user - 1).tolist())
        assert set(row.tolist()) == unseen  # 50 draws of at most 11
    slices = batch.slices(9)
    assert len(slices) > 2
    of = dict(zip(batch.users.tolist(), batch.shared, strict=True))
    for part in slices:
        for user, row in zip(part.users.tolist(), part.shared, strict=True):
            np.testing.assert_array_equal(row, of[user])


def test_options_of_a_loss_are_its_own():
    assert SASRec(loss="gbce").identity()["calibration"] == 0.75
    assert not {"n_negatives", "calibration"} & SASRec(loss="bce").identity().keys()  # older runs are still theirs
    for options, says in (
        ({"loss": "gbce", "calibration": 1.5}, "calibration is 1.5, expected 0 to 1"),
        ({"loss": "gbce", "n_negatives": 0}, "n_negatives is 0, expected 1 to 1000000"),
        ({"loss": "sampled-softmax", "calibration": 0.5}, "calibration is 0.5, an option of loss gbce; loss is samp"),
        ({"n_negatives": 4}, "n_negatives is 4, an option of loss gbce or sampled-softmax or bpr-max; loss is bce"),
        ({"loss": "gbce", "in_batch": 0.5}, "in_batch is 0.5, an option of loss sampled-softmax or bpr-max; loss is"),
        ({"loss": "bpr-max", "in_batch": 1.5}, "in_batch is 1.5, expected 0 to 1"),
        ({"loss": "bpr-max", "popularity_power": -1}, "popularity_power is -1, expected 0 to 1"),
        ({"loss": "bpr-max", "popularity_power": 1000}, "popularity_power is 1000, expected 0 to 1"),
        ({"loss": "bpr-max", "regularisation": -1}, "regularisation is -1, expected at least 0"),
        ({"loss": "sampled"}, "did you mean sampled-softmax?"),
    ):
        with pytest.raises(ValueError, match=says.replace("?", r"\?")):
            SASRec(**options)
    with pytest.raises(ValueError, match="no negative can be drawn; use a loss without negatives, such as ce where"):
        SASRec(loss="gbce").fit(Interactions.from_sequences([[1, 2], [1, 2, 3]]))
