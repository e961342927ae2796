"""NARM: its states are those of the paper's equations, position by position."""

import numpy as np
import pytest

from tinyattn.data import pad
from tinyattn.models import NARM
from tinyattn.ops import gru, sigmoid
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten


@pytest.mark.host
def test_each_state_decodes_the_last_state_and_a_sum_over_all_before_it():
    network = NARM(dim=5, maxlen=7).make_network(9, 0)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    history = np.array([4, 1, 9, 2, 4])
    found, _ = network.forward(p, pad([history], 7))
    h = gru(p["items"][history], *(p["encoder"][name] for name in "WUbc"))[0]
    for t in range(len(history)):
        alpha = [p["v"] @ sigmoid(h[t] @ p["A1"]["W"] + h[j] @ p["A2"]["W"]) for j in range(t + 1)]
        local = sum(a * h[j] for j, a in enumerate(alpha))
        expected = np.concatenate([h[t], local]) @ p["B"]["W"]
        np.testing.assert_allclose(found[0, t], expected, rtol=0, atol=1e-13)
