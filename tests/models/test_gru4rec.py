"""GRU4Rec: session-parallel mini-batches, the papers' way, beside the padded batches here."""

import numpy as np
import pytest

from tinyattn.data import Interactions, Sampler
from tinyattn.models import GRU4Rec
from tinyattn.ops import gru, gru_backward
from tinyattn.random import Stream, generator
from tinyattn.tree import add_to, flatten, leaves, tree_map

WEIGHTS = "WUbc"


def session_parallel(p, histories, lanes):
    """One event a lane in each step: -> the sum of the cross-entropies, and gradients that stop at the step.

    A lane reads a history item by item; where it ends, the lane takes the next one, with its states at 0. The gradient
    of a step stops at the states that come in, as in the released code.
    """
    waiting, depth = list(histories), len(p["layers"])
    reading = [waiting.pop(0) for _ in range(lanes)]
    place = [0] * lanes
    states = np.zeros((depth, lanes, p["items"].shape[1]))
    total, grads = 0.0, tree_map(np.zeros_like, p)
    while any(history is not None for history in reading):
        for lane in range(lanes):
            if reading[lane] is None:
                continue
            item, target = reading[lane][place[lane]], reading[lane][place[lane] + 1]
            x, caches = p["items"][[item]], []                       # (1, D)
            for layer, weights in enumerate(p["layers"]):
                before = states[layer, lane].copy()
                h, gates, recalled = gru(x, *(weights[name] for name in WEIGHTS), before)
                caches.append((x, weights["W"], weights["U"], h, gates, recalled, before))
                states[layer, lane], x = h[0], h
            z = p["items"][1:] @ x[0]
            shares = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            total -= np.log(shares[target - 1])
            dz = shares - (np.arange(1, len(p["items"])) == target)
            grads["items"][1:] += np.outer(dz, x[0])
            dx = (dz @ p["items"][1:])[None]
            for layer in reversed(range(depth)):
                dx, *found, _ = gru_backward(dx, *caches[layer])     # what goes to the state before is dropped
                for name, gradient in zip(WEIGHTS, found, strict=True):
                    grads["layers"][layer][name] += gradient
            grads["items"][item] += dx[0]
            place[lane] += 1
            if place[lane] + 1 == len(reading[lane]):                # no target is left
                reading[lane], place[lane] = waiting.pop(0) if waiting else None, 0
                states[:, lane] = 0
    return total, grads


def both_ways(lengths, lanes):
    """Losses and gradients of `session_parallel` and of the network's own batch of whole histories, both sums."""
    data = Interactions.from_sequences([np.random.default_rng(n).integers(1, 13, n) for n in lengths])
    network = GRU4Rec(dim=5, layers=2, maxlen=9, loss="ce", dropout=0.0).make_network(data.n_items, 0)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    batch = Sampler(data, maxlen=9, batch_size=len(lengths), seed=0, negatives=False).batch(0)
    value, cache = network.loss(p, batch)
    whole = tree_map(np.zeros_like, p)
    add_to(whole, network.loss_backward(p, batch.total, cache))
    total, cut = session_parallel(p, [data.sequence(user) for user in range(data.n_users)], lanes)
    return (total, cut), (value * batch.total, whole)


@pytest.mark.host
@pytest.mark.parametrize("lanes", [1, 3, 7])
def test_session_parallel_batches_have_the_same_loss_and_gradients_that_stop_at_one_item(lanes):
    (mine, cut), (network, whole) = both_ways((5, 2, 9, 3, 7, 2, 4), lanes)
    assert mine == pytest.approx(network, rel=0, abs=1e-10)
    for name, leaf in leaves(cut):
        assert not np.allclose(leaf, dict(leaves(whole))[name], rtol=1e-3, atol=1e-3), name


@pytest.mark.host
def test_gradients_of_histories_with_a_single_event_are_the_same():
    """There is no state whose gradient could be dropped: what differs above is that, and nothing else."""
    (mine, cut), (network, whole) = both_ways((2, 2, 2, 2), lanes=2)
    assert mine == pytest.approx(network, rel=0, abs=1e-10)
    for name, leaf in leaves(cut):
        np.testing.assert_allclose(leaf, dict(leaves(whole))[name], rtol=0, atol=1e-10, err_msg=name)
