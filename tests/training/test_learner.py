"""Tables that are kept lazily: the same training as dense Adam's, and the same bits after an interruption."""

import os
import signal

import numpy as np
import pytest

from tests.models.worlds import few_negatives
from tinyattn.data import Interactions, Sampler
from tinyattn.models import SASRecNetwork
from tinyattn.training import InterruptedRunError, Learner, Settings, learner, train
from tinyattn.tree import leaves

pytestmark = pytest.mark.host  # a device sweeps its one vector
RNG = np.random.default_rng(0)
# Everybody knows four of forty items, and four that nobody else has: 1,040 in all; a batch of four reads about seventy.
DATA = Interactions.from_sequences([[*RNG.permutation(40)[:4], *range(100 + 4 * i, 104 + 4 * i)] for i in range(250)])
SETTINGS = Settings(epochs=2, patience=0)


def network(loss="bce", users=0):
    options = {"maxlen": 6, "dim": 8, "n_users": users, "user_embedding": users > 0, **few_negatives(loss)}
    return SASRecNetwork(n_items=DATA.n_items, objective=loss, **options)


def sampler(loss="bce"):
    return Sampler(DATA, 6, 4, 0, loss != "ce", few_negatives(loss).get("n_negatives", 0))


def run(model, loss="bce", **how):
    p, history = train(model, sampler(loss), SETTINGS, workers=1, progress=False, **how)
    return np.concatenate([leaf.ravel() for _, leaf in leaves(p)]), history


@pytest.mark.parametrize(
    ("loss", "users", "beta2", "lazy"),
    [("bce", 0, 0.98, ["items"]), ("bce", 250, 0.98, ["items", "users"]), ("ce", 0, 0.98, []), ("bce", 0, 0.85, [])],
)
def test_which_tables_are_kept_lazily(loss, users, beta2, lazy):
    """Those of which a step reads a tenth of the rows or less, where rows without a gradient stop soon enough."""
    found = Learner(network(loss, users), Settings(beta2=beta2), [sampler(loss).batch(0)], steps=1)
    assert list(found.lazy) == lazy
    dense = sum(piece.stop - piece.start for piece in found._dense)
    assert dense + sum(x.table.size for x in found.lazy.values()) == found.vector.size
    assert found.lazy == {} or np.shares_memory(found.lazy["items"].table, found.vector)


@pytest.mark.parametrize(("loss", "users"), [("bce", 0), ("bce", 250), ("gbce", 0)])
def test_the_training_is_dense_adams(loss, users, monkeypatch):
    lazily, history = run(network(loss, users), loss)
    monkeypatch.setattr(learner, "LAZY_FROM", 10**9)
    densely, other = run(network(loss, users), loss)
    np.testing.assert_allclose(lazily, densely, rtol=0, atol=2e-5)
    for row, theirs in zip(history, other, strict=True):
        np.testing.assert_allclose(row["loss"], theirs["loss"], rtol=1e-5)
        np.testing.assert_allclose(row["gradient_norm"], theirs["gradient_norm"], rtol=1e-4)


@pytest.mark.parametrize("n", [1, 7, 40, 62, 100])
def test_interrupted_and_resumed_it_has_the_same_bits(n, tmp_path):
    """The checkpoint says what rows have missed; bringing them up to date there would round differently."""

    class Stops(SASRecNetwork):
        def loss(self, p, batch, rng=None):
            calls.append(0)
            if len(calls) == n:
                os.kill(os.getpid(), signal.SIGINT)
            return super().loss(p, batch, rng)

    calls = []
    stopping = Stops(n_items=DATA.n_items, maxlen=6, dim=8)
    with pytest.raises(InterruptedRunError):
        run(stopping, checkpoint=tmp_path / "c.npz")
    resumed, history = run(network(), checkpoint=tmp_path / "c.npz")
    whole, other = run(network())
    np.testing.assert_array_equal(resumed, whole)
    assert [row["loss"] for row in history] == [row["loss"] for row in other]
