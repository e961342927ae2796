"""Stopping, resuming, diverging: with a toy model, so that what the loop does is all there is to see."""

import os
import signal
from types import SimpleNamespace
from unittest.mock import MagicMock, call

import numpy as np
import pytest
from tqdm import tqdm

from tests.models.worlds import TINY
from tinyattn import backend
from tinyattn.data import Sampler, leave_one_out
from tinyattn.files import Arrays, FileError, read_arrays, write_arrays
from tinyattn.models import SASRecNetwork
from tinyattn.training import DivergedError, InterruptedRunError, Learner, Settings, around, state, train
from tinyattn.training.around import BAR
from tinyattn.tree import leaves

DATA = leave_one_out(TINY.generate()).train
NETWORK = SASRecNetwork(n_items=DATA.n_items, maxlen=6, dim=8)
SETTINGS = Settings(epochs=4, patience=0)


def sampler():
    return Sampler(DATA, 6, 20, 0, True)


def run(settings=SETTINGS, model=NETWORK, **how):
    p, history = train(model, sampler(), settings, workers=1, progress=False, **how)
    return flat(p), history


def flat(p):
    return np.concatenate([backend.to_numpy(leaf).ravel() for _, leaf in leaves(p)])


def same(one, other, device):
    """To the bit on the host; a device adds in any order, and twelve steps of Adam have enlarged the difference."""
    return np.allclose(one, other, rtol=0, atol=0 if device == "cpu" else 2e-5)


def spread(p):
    return float(np.std(backend.to_numpy(p["items"])))


def timeless(history):
    return [{k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")} for row in history]


class Stops:
    """The network, until its loss is asked for the n-th time; then `what` happens."""

    def __init__(self, n, what):
        self.n, self.what, self.init, self.loss_backward = n, what, NETWORK.init, NETWORK.loss_backward

    def loss(self, p, batch, rng=None):
        self.n -= 1
        if self.n == 0:
            return self.what(p, batch, rng)
        return NETWORK.loss(p, batch, rng)


def ctrl_c(p, batch, rng):
    os.kill(os.getpid(), signal.SIGINT)
    return NETWORK.loss(p, batch, rng)


def test_it_learns():
    _, history = run(Settings(epochs=30, patience=0, lr=0.01))
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]
    assert all(row["gradient_norm"] > 0 for row in history)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12])
def test_interrupted_at_any_step_and_resumed_it_ends_with_the_same_bits(n, tmp_path, device):
    """Ctrl-C lets the step finish and saves; the next run goes on. 3 steps an epoch, so most cuts are mid-epoch."""
    whole, history = run(validate=spread)

    how = {"checkpoint": tmp_path / "c.npz", "validate": spread}
    with pytest.raises(InterruptedRunError, match=f"after step {n}") as stop:
        run(model=Stops(n, ctrl_c), **how)
    assert stop.value._render_traceback_() == [f"InterruptedRunError: {stop.value}"]  # what a notebook shows
    resumed, resumed_history = run(**how)
    assert same(resumed, whole, device)
    if device == "cpu":
        assert timeless(resumed_history) == timeless(history)


def test_killed_within_a_step_it_goes_on_from_the_last_checkpoint(tmp_path, device):
    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with pytest.raises(Killed):
        run(model=Stops(8, kill), checkpoint=tmp_path / "c.npz")
    assert (tmp_path / "c.npz").exists()
    assert same(run(checkpoint=tmp_path / "c.npz")[0], run()[0], device)


@pytest.mark.parametrize("part", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_named_and_the_good_state_kept(part, tmp_path, device):
    def burst(p, batch, rng):
        value, cache = NETWORK.loss(p, batch, rng)
        if part == "loss":
            return value * np.nan, cache
        batch, h, saved, remembered = cache
        return value, (batch, h * np.inf, saved, remembered)

    number = "loss nan" if part == "loss" else "gradient norm (inf|nan)"
    with pytest.raises(DivergedError, match=rf"step 5 \(epoch 2\): .*{number}.*; a smaller learning rate"):
        run(model=Stops(5, burst), checkpoint=tmp_path / "c.npz")
    assert (tmp_path / "c.npz").exists()
    resumed, _ = run(checkpoint=tmp_path / "c.npz")
    assert same(resumed, run()[0], device)  # the checkpoint held the parameters from before that step


def test_a_divergence_after_a_good_epoch_has_the_best_parameters_so_far(device):
    """Epoch 2 has the best score of three, and epoch 4 diverges."""
    scores = iter([0.1, 0.5, 0.4])
    best, history = run(Settings(epochs=2, patience=0))
    stops = Stops(11, lambda p, batch, rng: (np.nan, NETWORK.loss(p, batch, rng)[1]))
    message = r"step 11 \(epoch 4\): .*; the model of epoch 2, the best so far, is kept$"
    with pytest.raises(DivergedError, match=message) as stop:
        run(Settings(epochs=4, patience=0), model=stops, validate=lambda p: next(scores))
    assert same(flat(stop.value.parameters), best, device)
    assert [row["valid"] for row in stop.value.history] == [0.1, 0.5, 0.4]
    assert stop.value.history[1]["loss"] == pytest.approx(history[1]["loss"], rel=1e-5)


def test_a_divergence_before_any_score_has_no_parameters():
    for epoch in (1, 2):
        stops = Stops(3 * epoch, lambda p, batch, rng: (np.nan, NETWORK.loss(p, batch, rng)[1]))
        with pytest.raises(DivergedError, match=r"a smaller learning rate may help$") as stop:
            run(model=stops, validate=(lambda p: 0.5) if epoch == 1 else None)
        assert stop.value.parameters is None


def test_parameters_that_are_not_finite_are_never_returned_or_saved(tmp_path):
    with pytest.raises(DivergedError, match="diverged at step"):
        run(Settings(epochs=2, lr=1e38), checkpoint=tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as saved:
        assert all(np.isfinite(saved[name]).all() for name in ("vector", "m", "v", "best"))
    with pytest.raises(DivergedError, match="parameters that are not finite"):
        train(NETWORK, Sampler(DATA, 6, 60, 0, True), Settings(epochs=1, lr=1e39), workers=1, progress=False)


ROW = ("epoch", "steps", "loss", "valid", "gradient_norm", "seconds", "tokens_per_second")


def test_a_checkpoint_with_parts_missing_or_misshapen_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    with pytest.raises(DivergedError):
        run(Settings(epochs=2, lr=1e38), checkpoint=path, identity={})
    meta, arrays = read_arrays(path, "checkpoint")
    arrays = dict(arrays)
    scalars, whole = meta["scalars"], dict.fromkeys(ROW, 1)

    def after(step, *history):
        return meta | {"scalars": scalars | {"step": step, "history": history}}, arrays

    write_arrays(path, "checkpoint", *after(3, whole))
    with pytest.raises(DivergedError):
        run(Settings(epochs=2, lr=1e38), checkpoint=path, identity={})
    damages = [
        (meta, {n: a for n, a in arrays.items() if n != "m"}),
        (meta, arrays | {"vector": arrays["vector"][:-1]}),
        (meta, arrays | {"best": arrays["best"].astype(np.float64)}),
        (meta, arrays | {"v": np.full_like(arrays["v"], np.nan)}),
        (meta | {"scalars": scalars | {"step": "3"}}, arrays),
        *(after(3, row) for row in (1, {"valid": None, "epoch": 1}, whole | {"loss": "low"}, whole | {"valid": "high"},
                                    whole | {"seconds": True}, dict.fromkeys(ROW, 10**400))),
        after(7, whole, whole),
        *((meta | {"scalars": scalars | {name: value}}, arrays) for name, value in (
            ("step", -1), ("step", 7), ("step", 10**30), ("step", 3), ("tokens", -5), ("tokens", 10**400),
            ("best_epoch", -(10**30)), ("best_epoch", 1), ("seconds", -1.0), ("tokens", True), ("best_score", "high"),
        )),
        (meta, arrays | {"further": np.zeros(3)}),
        (meta | {"scalars": None}, arrays),
    ]
    for damaged in damages:
        write_arrays(path, "checkpoint", *damaged)
        with pytest.raises(FileError, match="not a whole tinyattn checkpoint"):
            run(Settings(epochs=2, lr=1e38), checkpoint=path, identity={})


def test_a_checkpoint_of_tinyattn_0_1_goes_on(tmp_path):
    """Its rows have neither steps nor seconds."""
    path = tmp_path / "c.npz"
    with pytest.raises(InterruptedRunError):
        run(model=Stops(5, ctrl_c), checkpoint=path, identity={})
    meta, arrays = read_arrays(path, "checkpoint")
    (row,) = meta["scalars"]["history"]
    for name in ("steps", "seconds"):
        del row[name]
    write_arrays(path, "checkpoint", meta, dict(arrays))
    parameters, history = run(checkpoint=path, identity={})
    whole, expected = run()
    assert np.array_equal(parameters, whole)
    assert timeless(history) == timeless(expected)


def test_another_identity_or_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "c.npz"

    with pytest.raises(InterruptedRunError):
        run(model=Stops(2, ctrl_c), checkpoint=path, identity={"lr": 1})
    with pytest.raises(FileError, match="another configuration or other data"):
        run(checkpoint=path, identity={"lr": 2})
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(FileError, match="not a tinyattn checkpoint"):
        run(checkpoint=path, identity={"lr": 1})


@pytest.mark.parametrize("score", [None, 0.25])
def test_the_progress_bar_of_a_resumed_run_shows_steps_and_the_last_epoch(score, tmp_path, monkeypatch):
    bar, settings = MagicMock(), Settings(epochs=2, patience=0)
    monkeypatch.setattr(around, "progress_bar", bar)
    how = {"checkpoint": tmp_path / "c.npz", "validate": None if score is None else lambda p: score}
    with pytest.raises(InterruptedRunError):
        run(settings, Stops(2, ctrl_c), **how)
    assert bar.call_args.args == (True,)
    bar.reset_mock()
    _, history = train(NETWORK, sampler(), settings, workers=1, **how)
    assert bar.call_args == call(None, total=6, initial=2, bar_format=BAR)
    assert bar.return_value.update.call_count == 4
    valid = "" if score is None else ", valid 0.2500"
    shown = [words.args[0] for words in bar.return_value.set_postfix_str.call_args_list]
    assert shown == [f"epoch {i}, loss {row['loss']:.4f}{valid}" for i, row in enumerate(history, 1)]
    words = around.epoch_in_words({"epoch": 20, "loss": 0.1234, "valid": 0.1234})
    line = tqdm.format_meter(12_345, 23_456, 754.0, ncols=80, bar_format=BAR, postfix=words)
    assert len(line) <= 80
    assert line.endswith("valid 0.1234]")


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_device_looks_at_losses_every_few_steps_and_at_the_end_and_names_the_right_one(
    interrupted, device, monkeypatch
):
    def burst(p, batch, rng):
        value, cache = (ctrl_c if interrupted else NETWORK.loss)(p, batch, rng)
        return value * np.nan, cache

    monkeypatch.setattr(around, "LOOK_EVERY", 2)
    network = Stops(4, burst)
    with pytest.raises(DivergedError, match=r"step 4 \(epoch 1\): loss nan"):
        train(network, Sampler(DATA, 6, 6, 0, True), Settings(epochs=1), workers=1, progress=False)
    assert network.n == (0 if device == "cpu" or interrupted else -2)  # looked at after steps 3 and 6


def test_early_stopping_keeps_the_best_epoch():
    scores = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.9])
    seen = []

    def validate(p):
        seen.append(flat(p))
        return next(scores)

    best, history = run(Settings(epochs=6, patience=3), validate=validate)
    assert [row["valid"] for row in history] == [0.1, 0.5, 0.4, 0.3, 0.2]
    assert np.array_equal(best, seen[1])
    scores = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.9])
    _, history = run(Settings(epochs=6, patience=0), validate=validate)
    assert len(history) == 6


def test_two_steps_of_one_batch_draw_different_masks(device):
    """The step is a part of the masks' key; asked again, a step draws its own ones."""
    network = SASRecNetwork(n_items=DATA.n_items, maxlen=6, dim=8, dropout=0.5)
    batch = sampler().batch(0)
    learner = Learner(getattr(network, "itself", network), Settings(device=device), [batch], steps=1)
    seen = learner.xp.zeros((3, 2))
    with learner.pool(1) as pool:
        for i, step in enumerate((4, 4, 5)):
            learner.differentiate([batch], step, seen[i], pool)
    first, again, other = backend.to_numpy(seen)
    np.testing.assert_allclose(again, first, rtol=1e-6)
    assert np.all(np.abs(other - first) > 1e-3 * first)


def test_dropout_is_on_in_training_and_off_in_evaluation():
    """The loss of a step depends on the key it is given; without one it does not; and rate 0 is another training."""
    from tinyattn.random import Stream, generator

    network = SASRecNetwork(n_items=DATA.n_items, maxlen=6, dim=8, dropout=0.5)
    p = network.init(generator(0, Stream.INIT))
    batch = sampler().batch(0)
    by_key = [float(network.loss(p, batch, generator(0, Stream.DROPOUT, 0, n))[0]) for n in (1, 1, 2)]
    assert by_key[0] == by_key[1] != by_key[2]
    assert network.loss(p, batch)[0] == network.loss(p, batch)[0]
    trained = [run(model=SASRecNetwork(n_items=DATA.n_items, maxlen=6, dim=8, dropout=rate))[0] for rate in (0.0, 0.5)]
    assert not np.array_equal(*trained)


@pytest.mark.parametrize("form", ["pre", "post", "sasrec"])
def test_dropout_falls_on_the_input_and_within_blocks(form):
    from tinyattn.random import Stream, generator

    network = SASRecNetwork(n_items=DATA.n_items, maxlen=6, dim=8, dropout=0.5, block_form=form)
    p = network.init(generator(0, Stream.INIT))
    _, (*_, cache) = network.loss(p, sampler().batch(0), generator(0, Stream.DROPOUT, 0, 0))
    block = cache.blocks[0]
    masks = [cache.keep, block.keep_2]
    masks += [block.attention.attended.keep, block.feed_forward.keep] if form == "sasrec" else [block.keep_1]
    for keep in masks:
        assert 0.3 < keep.mean() < 0.7
    assert cache.blocks[1].keep_2.tobytes() != block.keep_2.tobytes()


def test_every_setting_reaches_the_optimiser(device):
    assert not same(run(Settings(epochs=4, patience=0, beta2=0.9))[0], run()[0], device)
    assert not same(run(Settings(epochs=4, patience=0, lr=2e-3))[0], run()[0], device)


def test_the_seed_decides_and_nothing_else(device):
    assert same(run()[0], run()[0], device)
    assert not same(run()[0], run(Settings(epochs=4, patience=0, seed=1))[0], device)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lr": float("nan")}, "lr is nan, expected a positive, finite"),
        ({"lr": float("inf")}, "lr is inf"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"patience": -1}, "patience is -1"),
        ({"beta2": 1.0}, "beta2 is 1.0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Settings(**values)


def test_a_checkpoint_is_saved_again_once_fifty_times_as_long_has_gone_by(tmp_path, monkeypatch):
    """Saving takes a second of a clock that moves by one a look: so at most 2 % of the time."""
    clock, saved = iter(range(10**6)), []
    monkeypatch.setattr(around.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(state.State, "save", lambda self, *_: saved.append((self.step, next(clock))))
    run(Settings(epochs=40, patience=0), checkpoint=tmp_path / "checkpoint.npz")
    gaps = np.diff([moment for _, moment in saved])
    assert len(saved) > 2
    assert set(gaps) == {103.0}         # 2 for saving, 100 without, and up to 2 to the next step, as a step takes 2
    _, history = run(Settings(epochs=2, patience=0), validate=lambda p: float(next(clock)))
    assert [row["seconds"] for row in history] == [3.0, 3.0]    # a step looks when it begins and when it has ended
    tokens = sum(sampler().batch(step).total for step in range(3, 6))
    assert history[1]["tokens_per_second"] == tokens / 3


def test_the_arrays_of_a_checkpoint_are_whole_where_other_ranks_need_them(tmp_path):
    path = tmp_path / "checkpoint.npz"
    write_arrays(path, "checkpoint", {"a": 1}, {"x": np.arange(3.0)})
    for size, kind in ((1, Arrays), (2, dict)):
        new = state.State.__new__(state.State)
        new.learner = SimpleNamespace(ranks=SimpleNamespace(size=size))
        meta, arrays = new._read(path)
        assert meta == {"a": 1}
        assert type(arrays) is kind
