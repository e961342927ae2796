"""BERT4Rec: no hidden item leaks, both sides are seen, and a [MASK] after the history predicts what follows."""

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.data import ClozeSampler, Interactions, pad
from tinyattn.models import BERT4Rec
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves

SMALL = {"maxlen": 6, "dim": 8, "workers": 1, "patience": 0}


def make(data, **more):
    model = BERT4Rec(**SMALL | {"dropout": 0.0} | more)
    network = model.make_network(data.n_items, data.n_users)
    return network, flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]


@pytest.mark.host
def test_of_items_drawn_independently_it_learns_their_frequency_and_nothing_more():
    """The iid oracle: no model can be better than the entropy, unless it sees what it is asked for."""
    p = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    entropy, rng = -np.sum(p * np.log(p)), np.random.default_rng(0)
    learn, fresh = (Interactions.from_sequences(1 + rng.choice(6, (users, 9), p=p)) for users in (300, 3000))
    model = BERT4Rec(**SMALL | {"maxlen": 9}, epochs=25, lr=1e-2, rho=0.3).fit(learn, progress=False)
    batch = ClozeSampler(fresh, 9, 3000, 1, False, rho=0.3, mask_last=0.1).batch(0)
    loss = model.network.loss(model.parameters, batch)[0]
    assert entropy - 0.03 < loss < entropy + 0.06 < np.log(6)
    assert model.history[-1]["loss"] > entropy - 0.1  # nor is the loss in training


@pytest.mark.host
def test_it_begins_with_weights_that_are_drawn_and_a_vector_for_each_item():
    """BERT's weights could not be used: it has vectors for words, not for items."""
    network, p = make(uneven(items=12))
    other = flatten(network.init(generator(1, Stream.INIT)), np.float64)[1]
    assert len(p["items"]) == 13  # and padding
    pairs = zip(leaves(p), leaves(other), strict=True)
    maps = [(one, another) for (_, one), (_, another) in pairs if one.ndim > 1]
    assert len(maps) > 10
    assert all(np.mean(one != another) > 0.8 for one, another in maps)


def test_a_hidden_item_is_no_input(device):
    """Neither a bit of any state nor a gradient comes from it; histories here have no item twice."""
    data = uneven(users=9, items=12)
    network, p = make(data)
    batch = ClozeSampler(data, 6, 9, 0, False, rho=0.4, mask_last=0.2).batch(0)
    h, cache = network.forward(p, batch)
    dx, _ = network.backward(p, np.random.default_rng(0).standard_normal(h.shape), cache)
    rows = network.item_rows(batch)
    for row, targets in enumerate(batch.targets):
        read = {item for item, d in zip(rows[row], dx[row], strict=True) if d.any()}
        assert read
        assert not read & set(targets[targets != 0])
        assert not dx[row, batch.ids[row] > data.n_items].any()
    moved = p | {"items": p["items"].copy()}
    hidden = batch.targets[0][batch.targets[0] != 0]
    moved["items"][hidden] += 1
    one = batch._replace(**{name: x[:1] for name, x in batch._asdict().items() if x is not None})
    np.testing.assert_array_equal(network.forward(moved, one)[0], network.forward(p, one)[0])


def test_a_gap_is_seen_from_both_sides(device):
    network, p = make(uneven(items=12))
    histories = [np.array([1, 2, 13, 4, 5]), np.array([9, 2, 13, 4, 5]), np.array([1, 2, 13, 4, 9])]
    h, _ = network.forward(p, pad(histories, 6))
    for other in (1, 2):
        assert np.abs(h[other, 2] - h[0, 2]).max() > 1e-6


def test_what_follows_is_asked_of_a_mask_after_the_newest_items(device):
    network, p = make(uneven(items=12))
    long, short = np.array([3, 1, 4, 5, 9, 2, 6]), np.array([7, 8])
    asked = network.asking(pad([long, short], 6))
    assert asked.ids.tolist() == [[4, 5, 9, 2, 6, 13], [7, 8, 13, 0, 0, 0]]
    assert asked.slots[:, 0].tolist() == [0, 3]
    assert asked.slots[0, 5] == asked.slots[1, 2] == 5  # the mask stands at the last slot
    scores = network.score(p, pad([long], 6))
    assert scores.shape == (1, 13)  # items and padding: [MASK] is never recommended
    np.testing.assert_allclose(scores, network.score(p, pad([long[-5:]], 6)), atol=1e-12)


@pytest.mark.slow(seconds=1)
@pytest.mark.host
@pytest.mark.parametrize("loss", ["ce", "bce"])
def test_it_learns_what_follows(loss):
    sequences = [[f"i{(n + k) % 12}" for k in range(4 + n % 3)] for n in range(48)]
    model = BERT4Rec(**SMALL | {"dim": 16}, epochs=60, batch_size=8, lr=1e-2, dropout=0.0, loss=loss, mask_last=0.3)
    model.fit(sequences, progress=False)
    right = [model.recommend([f"i{(i + k) % 12}" for k in range(3)], 1)[0][0] == f"i{(i + 3) % 12}" for i in range(12)]
    assert np.mean(right) >= 0.6
    assert model.parameters["items"][1:, -1].all()  # biases are learned


@pytest.mark.host
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rho": 0.0}, "rho is 0.0, expected above 0 and below 1"),
        ({"rho": 1.0}, "rho is 1.0, expected above 0 and below 1"),
        ({"mask_last": 1.5}, "mask_last is 1.5, expected 0 to 1"),
        ({"mask_last": -0.1}, "mask_last is -0.1, expected 0 to 1"),
        ({"heads": 3}, "dim 64 is not divisible by heads 3"),
        ({"maxlen": 1}, "maxlen is 1, expected 2 to 1"),
        ({"loss": "bpr-min"}, "loss is 'bpr-min', expected one of bce, bpr, ce"),
    ],
)
def test_what_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        BERT4Rec(**options)
