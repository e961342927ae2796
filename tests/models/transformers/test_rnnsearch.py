"""RNNsearch end to end: gradients, its equations a string at a time, who sees what, parameters, the first loss."""

import math

import numpy as np
import pytest

from tests.devices import On
from tests.helpers import noisy
from tests.models.transformers.test_transformer import batch_of, count
from tinyattn.check import gradcheck_model
from tinyattn.data import TASKS, pair_batch
from tinyattn.models import RNNsearch, RNNsearchNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten

D = 8


def make(dropout=0.0, device="cpu"):
    network = RNNsearchNetwork(n_sources=5, n_targets=5, maxlen=8, dim=D, dropout=dropout)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    p = noisy(p, rng, 0.2)
    return On(device).methods(network) if device != "cpu" else network, flatten(p, np.float64)[1]


def test_gradients_of_the_whole_model_with_dropout(device):
    network, p = make(0.3, device)
    report = gradcheck_model(network, p, batch_of(), key=3, entries=4)
    assert report, f"\n{report}"


def gru_step(p, x, h):
    """One step as it is written in books, from tokens and states that are vectors."""
    (ur, uz, un), (vr, vz, vn) = (np.split(u, 3) for u in (x @ p["W"] + p["b"], h @ p["U"] + p["c"]))
    r, z = (1 / (1 + np.exp(-u)) for u in (ur + vr, uz + vz))
    return (1 - z) * np.tanh(un + r * vn) + z * h


def test_scores_and_alignment_are_those_of_the_equations_a_string_at_a_time():
    network, p = make()
    batch = batch_of()
    scores, cache = network.forward(p, batch)
    (weights,) = network.alignment(cache)
    for row, (m, n) in enumerate(((4, 3), (2, 5), (6, 1))):
        read = p["source"][batch.source[row, :m]]
        f, b, h = np.zeros((m, D)), np.zeros((m, D)), np.zeros(D)
        for j in range(m):
            f[j] = h = gru_step(p["encoder"]["forward"], read[j], h)
        h = np.zeros(D)
        for j in reversed(range(m)):
            b[j] = h = gru_step(p["encoder"]["backward"], read[j], h)
        memory, decoder = np.concatenate([f, b], axis=1), p["decoder"]
        h = np.tanh(memory[0] @ decoder["W0"])
        for t in range(n + 1):
            e = [decoder["w"] @ np.tanh(h @ decoder["Wq"] + m_j @ decoder["Wk"]) for m_j in memory]
            a = np.exp(e) / np.sum(np.exp(e))
            c, y = a @ memory, p["target"][batch.written[row, t]]
            h = gru_step(decoder, np.concatenate([y, c]), h)
            hidden = np.tanh(np.concatenate([h, c, y]) @ p["readout"]["W"] + p["readout"]["b"])
            np.testing.assert_allclose(scores[row, t], hidden @ p["output"]["W"] + p["output"]["b"], rtol=0, atol=1e-12)
            np.testing.assert_allclose(weights[row, 0, t, :m], a, rtol=0, atol=1e-12)


def test_what_is_written_later_changes_no_bit_of_what_is_written_now():
    network, p = make()
    batch = batch_of([(4, 5)] * 2)
    scores, _ = network.forward(p, batch)
    for at in range(1, 6):
        other = batch.written.copy()
        other[:, at:] = 1 + other[:, at:] % 5
        changed, _ = network.forward(p, batch._replace(written=other))
        np.testing.assert_array_equal(changed[:, :at], scores[:, :at])
        assert np.all(np.abs(changed[:, at] - scores[:, at]).max(axis=-1) > 1e-6)


def test_padding_changes_neither_a_strings_loss_nor_its_gradients():
    """A pair alone, and in a batch with longer ones: the losses add up, the gradients too, and 0 is never read."""
    network, p = make()
    batch = batch_of()
    loss, cache = network.loss(p, batch)
    grads, sums = network.loss_backward(p, 1.0, cache), []
    for row in range(3):
        alone = batch._take(np.array([row]), np.sum(batch.weight, axis=1).astype(int))
        share = alone.total / batch.total
        one, remembered = network.loss(p, alone)
        sums.append((share * one, flatten(network.loss_backward(p, share, remembered), np.float64)[0]))
    assert float(loss) == pytest.approx(sum(one for one, _ in sums), abs=1e-12)
    np.testing.assert_allclose(flatten(grads, np.float64)[0], sum(of for _, of in sums), rtol=0, atol=1e-12)
    assert not grads["source"][0].any()
    filled = np.where(batch.source == 0, 3, batch.source)
    np.testing.assert_array_equal(network.forward(p, batch._replace(source=filled))[0], network.forward(p, batch)[0])


def test_the_decoder_begins_where_the_reading_backward_ends():
    """The state before the first character knows all of the source, through its second half."""
    network, p = make()
    batch = pair_batch([np.array([3, 1, 4, 2])], [np.array([2])], np.zeros(1, dtype=int))
    p["decoder"]["W0"][:D] = 0
    first = network.decode(p, batch.written, network.encode(p, batch.source, batch.lengths)[0], batch.lengths)
    for at in range(4):
        other = batch.source.copy()
        other[0, at] = 5
        memory, _ = network.encode(p, other, batch.lengths)
        _, cache = network.decode(p, batch.written, memory, batch.lengths)
        assert np.abs(cache.gru.start - first[1].gru.start).max() > 1e-6


def test_parameters_are_as_many_as_the_formula_says():
    """3 D (i + D + 2) of a GRU that reads i; W_q, W_k and w are D² + 2 D² + D, and the first state has 2 D²."""
    V, encoder, decoder = 6, 2 * 3 * D * (2 * D + 2), 3 * D * (3 * D + D + 2) + D * D + 2 * D * D + D + 2 * D * D
    readout = 4 * D * D + D + D * V + V
    assert count(make()[1]) == 2 * V * D + encoder + decoder + readout


def test_the_first_loss_is_the_logarithm_of_the_number_of_symbols():
    batch = pair_batch(*([np.random.default_rng(0).integers(1, 51, (64, 12))] * 2), np.arange(64))
    network = RNNsearchNetwork(n_sources=50, n_targets=50)
    assert network.loss(network.init(generator(0, Stream.INIT)), batch)[0] == pytest.approx(math.log(51), abs=0.02)


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize(("name", "epochs"), [("copy", 4), ("reverse", 2)])
def test_the_largest_weight_of_the_alignment_stands_at_the_letter_that_is_copied(name, epochs):
    """Of words of random letters, in which no letter says which one comes next.

    The memory is read both ways, and says of each letter what stands beside it as well. Where that is told by the
    letter, looking there does: digits of a date's year are often copied from one place further.
    """
    parts = TASKS[name]().generate().split()
    model = RNNsearch(dim=32, epochs=epochs, workers=1).fit(parts.train, progress=False)
    off = []
    for source, target in zip(parts.test.sources[:200], parts.test.targets[:200], strict=True):
        places = np.arange(len(source))[:: -1 if name == "reverse" else 1]
        off.extend(model.alignment(source, target)[0, 0, :-1].argmax(axis=-1) - places)      # without the end
    assert len(off) > 1000
    assert np.mean(np.equal(off, 0)) >= 0.95
    assert np.mean(np.abs(off) < 2) >= 0.99
