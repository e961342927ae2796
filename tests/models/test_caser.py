"""Caser: its states are those of the paper's equations, window by window."""

import numpy as np
import pytest

from tinyattn.data import pad
from tinyattn.models import Caser
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten


@pytest.mark.host
@pytest.mark.parametrize("window", [1, 3, 9])  # the last is longer than any history
def test_each_state_is_made_of_the_window_that_ends_there_and_of_the_user(window):
    network = Caser(window=window, dim=4, nh=3, nv=2, maxlen=6).make_network(9, 2)
    p, rng = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1], np.random.default_rng(1)
    p["users"][1:] = rng.standard_normal((2, 4))
    for weights in p["horizontal"]:
        weights["b"][...] = rng.standard_normal(3)
    histories = [np.array([4, 1, 9, 2, 4]), np.array([3])]
    batch = pad(histories, 6, np.array([2, 0]))
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


@pytest.mark.parametrize(("options", "says"), [({"window": 0}, "window is 0, expected 1 to 1"),
                                               ({"nh": 0}, "nh is 0"), ({"nv": 2.5}, "nv is 2.5, expected a whole")])
def test_what_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        Caser(**options)
