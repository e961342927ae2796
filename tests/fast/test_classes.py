"""Cross-entropy in tiles: where logits are many, models have the loss and the gradients of the readable form."""

import numpy as np
import pytest

from tests.models.transformers import test_decoder
from tests.models.worlds import TINY
from tinyattn.data import leave_one_out
from tinyattn.fast import classes
from tinyattn.fast.classes import TiledLoss
from tinyattn.forms import readable
from tinyattn.models import SASRec
from tinyattn.models.cross_entropy import table_loss
from tinyattn.tree import leaves


@pytest.mark.parametrize(("bytes_", "tiled"), [(5 * 7 * 8, False), (5 * 7 * 8 - 1, True)])
def test_logits_of_more_bytes_than_that_are_made_in_tiles(bytes_, tiled, rng, monkeypatch):
    monkeypatch.setattr(classes, "MANY", bytes_)
    h, E = rng.standard_normal((1, 5, 3)), rng.standard_normal((7, 3))
    value, saved = table_loss(h, E, np.zeros((1, 5), int), np.ones((1, 5)), 0.0)
    assert isinstance(saved, TiledLoss) == tiled
    assert value == pytest.approx(np.mean(np.log(np.sum(np.exp(h @ E.T), axis=-1)) - h @ E[0]), rel=1e-12)
    with readable():
        assert type(table_loss(h, E, np.zeros((1, 5), int), np.ones((1, 5)), 0.0)[1]) is tuple


@pytest.mark.parametrize("options", [{}, {"tied": False}, {"label_smoothing": 0.2}], ids=str)
def test_a_decoder_over_many_tokens(options, monkeypatch):
    network, p = test_decoder.make(dropout=0.0, **options)
    batch = test_decoder.batch_of()
    losses, grads, measured = [], [], []
    for most in (1 << 40, 0):
        monkeypatch.setattr(classes, "MANY", most)
        loss, cache = network.loss(p, batch)
        losses.append(loss)
        grads.append(dict(leaves(network.loss_backward(p, 0.7, cache))))
        measured.append(network.measure(p, batch)["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)
    assert measured[1] == pytest.approx(measured[0], rel=1e-12)
    assert grads[0].keys() == grads[1].keys()
    for name, gradient in grads[0].items():
        np.testing.assert_allclose(grads[1][name], gradient, rtol=0, atol=1e-13)


@pytest.mark.host
@pytest.mark.parametrize("workers", [1, 2])
def test_a_recommender_over_many_items_trains_to_the_same_losses(workers, monkeypatch):
    split = leave_one_out(TINY.generate())
    small = {"maxlen": 6, "dim": 8, "epochs": 2, "loss": "ce", "workers": workers, "label_smoothing": 0.1}
    histories = []
    for most in (1 << 40, 0):
        monkeypatch.setattr(classes, "MANY", most)
        histories.append(SASRec(**small).fit(split, progress=False).history)
    for row, other in zip(*histories, strict=True):
        assert other["loss"] == pytest.approx(row["loss"], rel=1e-5)
        assert other["gradient_norm"] == pytest.approx(row["gradient_norm"], rel=1e-3)
