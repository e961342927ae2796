"""Tables that are kept lazily: the same training as dense Adam's, and the same bits after an interruption."""

import os
import signal
from functools import cache

import numpy as np
import pytest

from tests.models.worlds import few_negatives
from tinyattn.data import Interactions, Sampler
from tinyattn.models import MF, SASRecNetwork
from tinyattn.training import InterruptedRunError, Learner, Settings, lazy, train
from tinyattn.tree import leaves

pytestmark = pytest.mark.host  # a device sweeps its one vector
RNG = np.random.default_rng(0)
# Everybody knows four of forty items, and four that nobody else has: 1,040 in all; a batch of four reads about seventy.
DATA = Interactions.from_sequences([[*RNG.permutation(40)[:4], *range(100 + 4 * i, 104 + 4 * i)] for i in range(250)])
SETTINGS = Settings(epochs=2, patience=0)
ALL = Settings(epochs=2, patience=0, schedule="linear", warmup=20, weight_decay=2.0, clip_norm=0.05, accumulate=2)


def network(loss="bce", users=0):
    options = {"maxlen": 6, "dim": 8, "n_users": users, "user_embedding": users > 0, **few_negatives(loss)}
    return SASRecNetwork(n_items=DATA.n_items, objective=loss, **options)


def sampler(loss="bce"):
    return Sampler(DATA, 6, 4, 0, loss != "ce", few_negatives(loss).get("n_negatives", 0))


def run(model, loss="bce", settings=SETTINGS, **how):
    p, history = train(model, sampler(loss), settings, workers=1, progress=False, **how)
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


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_table_that_has_biases_decays_densely(weight_decay):
    """LazyAdam knows one decay for a table; without decay it keeps that table, too."""
    network = MF().make_network(DATA.n_items, DATA.n_users)
    batch, settings = Sampler(DATA, 50, 4, 0, True).batch(0), Settings(weight_decay=weight_decay)
    found = Learner(network, settings, [batch], steps=1)
    assert list(found.lazy) == (["users"] if weight_decay else ["output", "users"])
    assert all(kept.weight_decay == np.float32(weight_decay) for kept in found.lazy.values())


@pytest.mark.parametrize(
    ("loss", "users", "settings"),
    [("bce", 0, SETTINGS), ("bce", 250, SETTINGS), ("gbce", 0, SETTINGS), ("bce", 250, ALL),
     ("bce", 0, Settings(epochs=2, patience=0, optimizer="muon", weight_decay=2.0))],
)
def test_the_training_is_dense_adams(loss, users, settings, monkeypatch):
    lazily, history = run(network(loss, users), loss, settings)
    monkeypatch.setattr(lazy, "LAZY_FROM", 10**9)
    densely, other = run(network(loss, users), loss, settings)
    np.testing.assert_allclose(lazily, densely, rtol=0, atol=2e-5)
    for row, theirs in zip(history, other, strict=True):
        np.testing.assert_allclose(row["loss"], theirs["loss"], rtol=1e-5)
        np.testing.assert_allclose(row["gradient_norm"], theirs["gradient_norm"], rtol=1e-4)


@cache
def uninterrupted(every_option):
    return run(network(), settings=ALL if every_option else SETTINGS)


@pytest.mark.parametrize(("n", "settings"), [(1, SETTINGS), (7, SETTINGS), (40, SETTINGS), (62, SETTINGS),
                                             (100, SETTINGS), (80, ALL)])  # fmt: skip
def test_interrupted_and_resumed_it_has_the_same_bits(n, settings, tmp_path):
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
        run(stopping, settings=settings, checkpoint=tmp_path / "c.npz")
    resumed, history = run(network(), settings=settings, checkpoint=tmp_path / "c.npz")
    whole, other = uninterrupted(settings is ALL)
    np.testing.assert_array_equal(resumed, whole)
    assert [row["loss"] for row in history] == [row["loss"] for row in other]
