"""Caser: its states are those of the paper's equations, window by window."""

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.check import gradcheck_model
from tinyattn.data import Interactions, pad
from tinyattn.models import Caser, SASRec
from tinyattn.models.objectives import OBJECTIVES
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves


@pytest.mark.host
@pytest.mark.parametrize("window", [1, 3, 9])  # the last is longer than any history here
def test_each_state_is_made_of_the_window_that_ends_there_and_of_the_user(window):
    network = Caser(window=window, dim=4, nh=3, nv=2, maxlen=9).make_network(9, 2)
    p, rng = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1], np.random.default_rng(1)
    p["users"][1:] = rng.standard_normal((2, 4))
    for weights in p["horizontal"]:
        weights["b"][...] = rng.standard_normal(3)
    histories = [np.array([4, 1, 9, 2, 4]), np.array([3])]
    batch = pad(histories, 9, np.array([2, 0]))
    h, _ = network.forward(p, batch)
    for row, history in enumerate(histories):
        for t in range(len(history)):
            E = np.zeros((window, 4))
            for back in range(min(window, t + 1)):
                E[window - 1 - back] = p["items"][history[t - back]]
            found = []
            for height, weights in enumerate(p["horizontal"], start=1):
                places = [E[i : i + height] for i in range(window - height + 1)]
                responses = [np.tensordot(place, weights["W"], 2) + weights["b"] for place in places]
                found.append(np.maximum(responses, 0).max(axis=0))
            found.append((E.T @ p["vertical"][:, 0]).reshape(-1))
            z = np.maximum(np.concatenate(found) @ p["fc"]["W"] + p["fc"]["b"], 0)
            expected = np.concatenate([z, p["users"][batch.users[row]], [1]])
            np.testing.assert_allclose(h[row, t], expected, rtol=0, atol=1e-13)


@pytest.mark.host
def test_users_make_a_difference_and_biases_are_learned():
    sequences = [["a", "b", "c", "d"], ["b", "c", "d", "e"], ["a", "c", "a", "b"]]
    model = Caser(maxlen=6, dim=8, epochs=30, lr=0.05, workers=1, loss="ce").fit(sequences, progress=False)
    assert model.parameters["outputs"][1:, -1].all()
    assert not model.parameters["users"][0].any()
    scores = [model.recommend(["a", "b"], 2, users=[user])[1].tolist() for user in (1, 2)]
    assert scores[0] != scores[1]


@pytest.mark.parametrize("loss", ["bce", "ce"])
def test_each_position_is_trained_on_the_items_that_follow_it(loss):
    """Against the loss of each position and each of its targets alone; and the gradients."""
    data = Interactions.from_sequences([[1, 2, 3, 4, 5, 6, 2], [3, 4, 7], [5, 1, 2, 3]])
    model = Caser(window=2, targets=3, dim=4, nh=2, nv=1, maxlen=6, batch_size=3, loss=loss, dropout=0.0)
    network, batch = model.make_network(data.n_items, data.n_users), model.sampler(data).batch(0)
    p, rng = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1], np.random.default_rng(1)
    for _, leaf in leaves(p):
        leaf += 0.3 * rng.standard_normal(leaf.shape)
    h, _ = network.forward(p, batch)
    total = 0.0
    for row, t in np.argwhere(batch.targets != 0):
        following = [target for target in batch.targets[row, t : t + 3] if target]
        negatives = None if batch.negatives is None else batch.negatives[row : row + 1, t : t + 1]
        for target in following:
            alone = batch._replace(targets=np.full((1, 1), target), negatives=negatives, weight=np.ones((1, 1)))
            value, _ = OBJECTIVES[loss].forward(h[row : row + 1, t : t + 1], p["outputs"], alone)
            total += float(value) / len(following)
    np.testing.assert_allclose(network.loss(p, batch)[0], total / batch.total, rtol=1e-12)
    report = gradcheck_model(network, p, batch, entries=2)
    assert report, f"\n{report}"


@pytest.mark.parametrize(("options", "says"), [({"window": 0}, "window is 0, expected 1 to 1"),
                                               ({"targets": 0}, "targets is 0, expected 1 to 1000"),
                                               ({"nh": 0}, "nh is 0"), ({"nv": 2.5}, "nv is 2.5, expected a whole")])
def test_what_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        Caser(**options)


@pytest.mark.host
def test_a_window_that_no_history_fills_is_refused_and_of_the_default_it_is_said(capsys, tmp_path):
    """When it learns: a model of such a window scores as it should, and its file opens."""
    data, how = uneven(longest=4), {"dim": 4, "epochs": 1, "workers": 1, "loss": "ce"}
    short = how | {"maxlen": 6}                                       # as long as the window
    for model in (Caser(window=6, nh=1, nv=1, **short), SASRec(mechanism="window", window=6, **short)):
        with pytest.raises(ValueError, match="window is 6, expected at most 4: the longest training history"):
            model.check_data(data)
        with pytest.raises(ValueError, match="window is 6, expected at most 4"):
            model.fit(data)
    with pytest.raises(ValueError, match="window is 6, expected at most maxlen 3: no history is longer"):
        SASRec(mechanism="longformer", window=6, maxlen=3, **how).fit(data)
    SASRec(mechanism="window", window=4, **how).fit(data)
    capsys.readouterr()
    SASRec(mechanism="window", **how).fit(data, progress=False)
    assert capsys.readouterr().err == ""
    model = SASRec(mechanism="window", **how).fit(data)
    assert capsys.readouterr().err.startswith("note: window is 16, of which at most 4 are used: the longest")
    model.save(tmp_path / "model.npz")
    assert SASRec.load(tmp_path / "model.npz").window == 16
