"""Clipping, accumulation and all options of a step together: what they change, and what they must not."""

import os
import signal

import numpy as np
import pytest

from tests.models.worlds import TINY
from tinyattn import backend
from tinyattn.data import Sampler, leave_one_out
from tinyattn.files import read_arrays, write_arrays
from tinyattn.models import SASRec, SASRecNetwork
from tinyattn.training import InterruptedRunError, Settings, learner, train
from tinyattn.training.clipping import clip_by_global_norm
from tinyattn.tree import leaves

DATA = leave_one_out(TINY.generate()).train
NETWORK = SASRecNetwork(n_items=DATA.n_items, maxlen=6, dim=8, objective="ce", label_smoothing=0.1)
ALL = {"schedule": "cosine", "warmup": 2, "weight_decay": 0.1, "clip_norm": 0.3, "accumulate": 2}


class Watched:
    """The network; `look(count, batch)` is called at every loss."""

    def __init__(self, look):
        self.look, self.count, self.init, self.loss_backward = look, 0, NETWORK.init, NETWORK.loss_backward

    def loss(self, p, batch, rng=None):
        self.count += 1
        self.look(self.count, batch)
        return NETWORK.loss(p, batch, rng)


def flat(p):
    return np.concatenate([backend.to_numpy(leaf).ravel() for _, leaf in leaves(p)])


def run(batch_size=20, model=NETWORK, how=None, **options):
    settings = Settings(**{"epochs": 2, "patience": 0} | options)
    p, history = train(model, Sampler(DATA, 6, batch_size, 0, False), settings, workers=1, progress=False, **how or {})
    return flat(p), history


@pytest.mark.host
def test_the_norm_of_all_pieces_together_is_clipped_as_in_pytorch(torch, rng):
    pieces = [rng.standard_normal(5), rng.standard_normal((3, 2))]
    square = np.float64(sum(np.sum(g * g) for g in pieces))
    theirs = [torch.zeros(g.shape, dtype=torch.float64, requires_grad=True) for g in pieces]
    for t, g in zip(theirs, pieces, strict=True):
        t.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_norm_(theirs, 0.7)
    mine = [g.copy() for g in pieces]
    clip_by_global_norm(mine, square, 0.7, np)
    for t, g in zip(theirs, mine, strict=True):
        np.testing.assert_allclose(g, t.grad.numpy(), rtol=1e-5)  # where the norm has 1e-6 added
    short = [g.copy() for g in pieces]
    clip_by_global_norm(short, square, 2 * float(np.sqrt(square)), np)
    for g, before in zip(short, pieces, strict=True):
        np.testing.assert_array_equal(g, before)


def test_the_history_has_the_norm_before_clipping(device):
    free, history = run(batch_size=60, epochs=1)  # one step: what is clipped shows in no later norm
    norm = history[0]["gradient_norm"]
    _, other = run(batch_size=60, epochs=1, clip_norm=norm / 10)
    np.testing.assert_allclose(other[0]["gradient_norm"], norm, rtol=1e-6)
    if device == "cpu":
        np.testing.assert_array_equal(run(batch_size=60, epochs=1, clip_norm=2 * norm)[0], free)
    # Adam's first step has the size of lr, whatever the gradient's: what was clipped shows in later ones.
    free, history = run()
    assert max(row["gradient_norm"] for row in history) > 0.3
    assert np.abs(run(clip_norm=0.3)[0] - free).max() > 1e-4


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.3, "weight_decay": 0.1}], ids=str)
def test_three_batches_accumulated_are_one_of_three_times_the_size(options):
    """With dropout: a row's masks depend on whose it is and on the step, and not on its batch."""
    mine, history = run(batch_size=20, accumulate=3, **options)
    theirs, other = run(batch_size=60, **options)
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)
    for row, whole in zip(history, other, strict=True):
        assert row["steps"] == whole["steps"] == row["epoch"]
        for name in ("loss", "gradient_norm"):
            np.testing.assert_allclose(row[name], whole[name], rtol=1e-4)


def test_the_last_step_of_an_epoch_has_the_batches_that_are_left():
    seen = []

    _, history = run(model=Watched(lambda _, batch: seen.append(len(batch.rows))), accumulate=2)
    batches = Sampler(DATA, 6, 20, 0, False)
    assert [row["steps"] for row in history] == [2, 4]
    assert sum(seen) == sum(len(batches.batch(i).rows) for i in range(6))  # each batch once


@pytest.mark.parametrize(("n", "optimizer"), [(1, "adam"), (2, "adam"), (4, "adam"), (6, "adam"), (4, "muon")])
def test_with_all_options_a_resumed_run_ends_with_the_same_bits(n, optimizer, tmp_path, device):
    options = ALL | {"optimizer": optimizer}

    def ctrl_c(count, _):
        if count == n:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedRunError):
        run(model=Watched(ctrl_c), how={"checkpoint": tmp_path / "c.npz"}, **options)
    resumed, history = run(how={"checkpoint": tmp_path / "c.npz"}, **options)
    whole, other = run(**options)
    np.testing.assert_allclose(resumed, whole, rtol=0, atol=0 if device == "cpu" else 2e-5)
    assert [row["steps"] for row in history] == [row["steps"] for row in other] == [2, 4]


@pytest.mark.host  # a device has one worker
def test_with_all_options_any_number_of_workers_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr(learner, "SLICE_TOKENS", 40)  # several slices a batch
    batches, settings = Sampler(DATA, 6, 20, 0, False), Settings(epochs=2, **ALL)
    found = [train(NETWORK, batches, settings, workers=n, progress=False) for n in (1, 3)]
    np.testing.assert_array_equal(*(flat(p) for p, _ in found))
    for name in ("loss", "gradient_norm"):
        assert len({tuple(row[name] for row in history) for _, history in found}) == 1, name


@pytest.mark.host
def test_a_checkpoint_from_before_these_options_is_resumed(tmp_path):
    """It names none of them, and its history has no steps: all were of one batch."""
    path, options = tmp_path / "c.npz", {"maxlen": 6, "dim": 8, "loss": "ce", "batch_size": 20, "workers": 1}

    def stop(history):
        if len(history) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedRunError):
        SASRec(**options, epochs=4).fit(DATA, checkpoint=path, on_epoch=stop, progress=False)
    meta, arrays = read_arrays(path, "checkpoint")
    arrays = dict(arrays)
    for name in ("schedule", "warmup", "weight_decay", "accumulate", "label_smoothing"):
        del meta["identity"]["model"][name]
    for row in meta["scalars"]["history"]:
        del row["steps"]
    write_arrays(path, "checkpoint", meta, arrays)
    resumed = SASRec(**options, epochs=4).fit(DATA, checkpoint=path, progress=False)
    whole = SASRec(**options, epochs=4).fit(DATA, progress=False)
    np.testing.assert_array_equal(flat(resumed.parameters), flat(whole.parameters))
    assert [row["steps"] for row in resumed.history] == [3, 6, 9, 12]
