"""Every device: each op's properties, the same seed, models that move, and how much a training step may ask for."""

import json
import os
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.count_calls import CALLS, COUNTED, count
from tests.devices import DEVICES, MISSING, On
from tests.helpers import accused_by
from tests.models.worlds import TINY, uneven
from tests.strict import COUNTS, Step, strict
from tests.training.test_learner import DATA as LARGE
from tinyattn import backend, cli, layers, ops
from tinyattn.check import adapters
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject
from tinyattn.data import ClozeSampler, Sampler, cut, leave_one_out
from tinyattn.models import MODELS, NeuralRecommender, Recommender, SASRec, SASRecNetwork, neural
from tinyattn.models.objectives import OBJECTIVES
from tinyattn.ops import keep_mask
from tinyattn.random import Stream, generator
from tinyattn.training import InterruptedRunError, Learner, Settings, learner, sending, train
from tinyattn.tree import flatten, leaves

ELSEWHERE = [name for name in DEVICES if name != "cpu" and name not in MISSING]
SPLIT = leave_one_out(TINY.generate())
SMALL = {"maxlen": 6, "dim": 8, "epochs": 2, "patience": 0}
# Functions that no spec of `tinyattn check` covers, and where they run on every device all the same.
ALSO = {
    "nbytes": "models/test_past.py",
    "causal_mask": "ops/test_edges.py",
    "sigmoid": "ops/test_edges.py",
    "causal_sum": "inside linear_attention",
    "dense_weights": "ops/test_block_sparse_attention.py",
    "relative_index": "ops/test_shifted_windows.py",
    "shifted_windows": "ops/test_shifted_windows.py",
    "linear_weights": "ops/test_linear_attention.py",
    "performer_weights": "ops/test_performer.py",
    "pointwise_weights": "ops/test_pointwise_attention.py",
    "wkv_weights": "ops/test_recurrence.py",
    "delta_matrix": "ops/test_recurrence.py",
    "scan_matrix": "ops/test_recurrence.py",
    "positive_features": "ops/test_performer.py",
    "convolving_attention": "ops/test_convolution.py",
    "quadratic_bias": "ops/test_convolution.py",
    "window_shape": "ops/test_window_attention.py",
    "window_weights": "ops/test_window_attention.py",
    "keep_mask": "test_the_same_key_gives_the_same_mask",
    "sum_rows": "inside embedding_backward",
    "dense": "layers/test_gradients.py",
    "norm": "layers/test_gradients.py",
    "dropout_mask": "layers/test_gradients.py",
    "dropped": "layers/test_gradients.py",
    "gather_rows": "models/test_network.py",
    "as_mask": "ops/test_masks.py, models/test_seams.py",
    "alibi": "ops/test_positions.py",
    "distance_buckets": "ops/test_positions.py",
    "rotary_speeds": "ops/test_positions.py",
    "rotary_tables": "ops/test_positions.py",
    "sinusoids": "ops/test_positions.py",
    "time_buckets": "ops/test_positions.py, models/test_seams.py",
}
ON_THE_HOST = {"glorot", "orthogonal_features", "kernel_shifts"}  # no arithmetic of an op
SUMS_ROWS = ("embedding", "bucket_bias")  # a GPU adds up rows that were read several times in no fixed order
COMPUTED = [name for name, spec in SPECS.items() if spec.ours() in (ops, adapters) and name != "ranking"]


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("where", ELSEWHERE)
def test_every_property_of_every_op_holds_there(where, name):
    spec = SPECS[name]
    unordered = ("backward_twice", "no_memory_of_the_forward") if name in SUMS_ROWS else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert accused_by(Subject(On(where).of(spec.ours()), spec), spec, seeds=2, but=unordered) is None


def test_no_op_or_layer_is_left_out():
    """A new one needs a spec, or a test in tests/ops or tests/layers and a line in ALSO: then it runs on the double."""
    covered = {spec.function for spec in SPECS.values()} | set(ALSO) | ON_THE_HOST
    for folder in (ops, layers):
        for name in folder.__all__:
            if callable(getattr(folder, name)) and name.islower() and not name.endswith("_init"):
                lacks = f"{folder.__name__}.{name} runs on no device but this; a spec in check/specs/, or a row in ALSO"
                assert name.removesuffix("_backward") in covered, lacks


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.99999])
@pytest.mark.parametrize("shape", [(), 7, (3, 5), (2, 0, 3), (129, 33)])
def test_the_same_key_gives_the_same_mask(where, shape, rate):
    like = On(where).xp.zeros(1)
    here = keep_mask(np.random.default_rng(3), shape, rate)
    there = keep_mask(np.random.default_rng(3), shape, rate, like)
    np.testing.assert_array_equal(backend.to_numpy(there), here)
    assert here.shape == (shape if isinstance(shape, tuple) else (shape,))
    assert rate > 0 or here.all()


@pytest.mark.parametrize("where", ELSEWHERE)
def test_the_same_seed_trains_to_the_same_numbers(where):
    """Same initial weights, same masks, same batches: the losses of two epochs agree to rounding."""
    here, there = (SASRec(**SMALL, device=d).fit(SPLIT, progress=False) for d in ("cpu", where))
    for row, other in zip(here.history, there.history, strict=True):
        np.testing.assert_allclose(other["loss"], row["loss"], rtol=1e-5)
        np.testing.assert_allclose(other["gradient_norm"], row["gradient_norm"], rtol=1e-3)
        np.testing.assert_allclose(other["valid"], row["valid"], atol=0.02)
    assert isinstance(there.parameters["items"], On(where).xp.ndarray)


@pytest.mark.parametrize("options", [{}, {"loss": "ce", "block_form": "sasrec", "user_embedding": True}])
@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_model_moves_between_devices(where, options, tmp_path):
    for one, other in (("cpu", where), (where, "cpu")):
        model = SASRec(**SMALL, **options, device=one).fit(SPLIT, progress=False)
        model.save(tmp_path / "m.npz")
        moved = Recommender.load(tmp_path / "m.npz", device=other)
        assert moved.device == other
        assert isinstance(moved.parameters["items"], On(other).xp.ndarray)
        histories = SPLIT.histories(SPLIT.evaluated[:9], "test")
        assert isinstance(moved.score(histories), np.ndarray)
        np.testing.assert_allclose(moved.score(histories), model.score(histories), atol=1e-5)
        sequence = SPLIT.data.items.decode(histories[0]).tolist()
        assert moved.recommend(sequence, 3)[0].tolist() == model.recommend(sequence, 3)[0].tolist()
        np.testing.assert_allclose(moved.attention(sequence)[1], model.attention(sequence)[1], atol=1e-5)
        np.testing.assert_allclose(moved.evaluate(SPLIT)["mrr"], model.evaluate(SPLIT)["mrr"], atol=1e-3)


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_run_stopped_on_one_device_goes_on_on_another(where, tmp_path):
    def stop(history):
        if len(history) == 1:
            raise KeyboardInterrupt

    whole = SASRec(**SMALL).fit(SPLIT, progress=False)
    for one, other in (("cpu", where), (where, "cpu")):
        path = tmp_path / f"{one}.npz"
        with pytest.raises(KeyboardInterrupt):
            SASRec(**SMALL, device=one).fit(SPLIT, progress=False, checkpoint=path, on_epoch=stop)
        gone_on = SASRec(**SMALL, device=other).fit(SPLIT, progress=False, checkpoint=path)
        for (name, mine), (_, theirs) in zip(leaves(whole.parameters), leaves(gone_on.parameters), strict=True):
            np.testing.assert_allclose(backend.to_numpy(theirs), mine, rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("where", ELSEWHERE)
def test_so_does_one_with_tables_that_only_the_host_keeps_lazily(where, tmp_path):
    """The host's checkpoint has rows that are behind, and says how far; the device's has none, and says nothing."""
    network, settings = SASRecNetwork(n_items=LARGE.n_items, maxlen=6, dim=8), Settings(epochs=2, patience=0)

    def run(device, batches, **how):
        p, _ = train(network, batches, replace(settings, device=device), workers=1, progress=False, **how)
        return np.concatenate([backend.to_numpy(leaf).ravel() for _, leaf in leaves(p)])

    class Interrupted(Sampler):
        def batch(self, step):
            if step == 40:
                os.kill(os.getpid(), signal.SIGINT)
            return super().batch(step)

    batches, interrupted = (sampler(LARGE, 6, 4, 0, True) for sampler in (Sampler, Interrupted))
    whole = run("cpu", batches)
    for one, other in (("cpu", where), (where, "cpu")):
        path = tmp_path / f"{one}.npz"
        with pytest.raises(InterruptedRunError):
            run(one, interrupted, checkpoint=path)
        with np.load(path) as saved:
            if one == "cpu":
                assert len(np.unique(saved["last.items"])) > 2
            else:
                assert "last.items" not in saved
        np.testing.assert_allclose(run(other, batches, checkpoint=path), whole, rtol=0, atol=1e-4)


@pytest.mark.parametrize("where", ELSEWHERE)
def test_every_command_computes_there(where, tmp_path, capsys, monkeypatch):
    """The commands, with `--device gpu` meaning this device: what they print is what the host prints."""
    monkeypatch.setitem(backend._DEVICES, "gpu", On(where).xp)
    data = tmp_path / "data.txt"
    data.write_text("".join(f"u{u} i{i}\n" for u in range(30) for i in np.random.default_rng(u).permutation(12)[:7]))
    run = str(tmp_path / "run")
    printed = {}
    for name in ("cpu", "gpu"):
        device = ["--device", name]
        how = ["--maxlen", "5", "--dim", "8", "--epochs", "2", "--out", run + name]
        assert cli.main(["train", str(data), *how, *device]) == 0
        capsys.readouterr()
        assert cli.main(["evaluate", run + "cpu", *device]) == 0
        assert cli.main(["recommend", run + "cpu", "--items", "i1,i2", *device]) == 0
        assert cli.main(["show", run + "cpu", "--items", "i1,i2", "--out", str(tmp_path / "a.png"), *device]) == 0
        printed[name] = capsys.readouterr().out
    assert printed["gpu"] == printed["cpu"]
    there, here = (json.loads((tmp_path / f"run{name}" / "metrics.json").read_text()) for name in ("gpu", "cpu"))
    np.testing.assert_allclose(there["model"]["full"]["mrr"], here["model"]["full"]["mrr"], atol=0.02)


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_wrong_id_is_refused_before_it_travels(where):
    """There it would read another row, in silence."""
    model = SASRec(**SMALL, device=where).fit(SPLIT, progress=False)
    for wrong in (0, -3):
        with pytest.raises(ValueError, match=f"item number {wrong} in a history, expected 1 to 16"):
            model.score([np.array([2, 5]), np.array([4, wrong, 1])])
    with pytest.raises(ValueError, match="item number 17 in a history, expected 1 to 16"):
        model.score([np.array([17])])
    model = SASRec(**SMALL, device=where, user_embedding=True).fit(SPLIT, progress=False)
    with pytest.raises(ValueError, match="user numbers 0 to 61, expected 0 to 60"):
        model.score([np.array([1]), np.array([2])], np.array([0, 61]))


# --- what a step may ask for --------------------------------------------------------------------------------
# Calls of the array module, each a launch on a device: of an op (calls.json), and of training steps of two blocks. A
# change that raises one costs every GPU user time at every step: say here, or in its commit, what it buys.

# Of a step, about sixty make the masks, each numbered by row, place and feature: the same ones however a batch is cut.
# "pre" copies gradients of q, k and v side by side, and scales weights rather than queries: less work on the host.
# Each block makes its own causal mask. `sasrec` scales its embeddings and has biases in its projections. `ligr` has two
# gates a block, and drops hidden units of its feed-forward network.
# two of them take a position of weight 0 out of the loss also where its own is infinite
STEPS = {("pre", "bce"): 465, ("pre", "ce"): 467, ("post", "bce"): 431, ("sasrec", "bce"): 505,
         ("ligr", "sampled-softmax"): 555}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_the_calls_of_an_op(name):
    counted = count(name)
    assert not counted["waits"], "an op waits for the device"
    assert not counted["transfers"], "an op carries something over"
    known = json.loads(CALLS.read_text()).get(name)
    now = [counted["forward"], counted["backward"]]
    assert now == known, f"{name} makes {now} calls, calls.json says {known}: `python -m tests.count_calls` writes it"


@pytest.mark.parametrize(("form", "loss"), STEPS)
def test_the_calls_of_a_training_step(form, loss, monkeypatch):
    """One transfer, before the step. Inside it, nothing that a graph could not record: see `Step`."""
    network = SASRecNetwork(n_items=SPLIT.train.n_items, maxlen=6, dim=8, block_form=form, objective=loss)
    batches = Sampler(SPLIT.train, 6, 20, 0, OBJECTIVES[loss].negatives, network.n_negatives or 0)
    begun, steps = [], {"compute": [], "update": []}

    def beginning(self, batches, step, *rest, whole=Learner.differentiate):
        before = COUNTS.copy()
        whole(self, batches, step, *rest)
        begun.append(COUNTS - before)

    def recording(name, f):
        def recorded(*args):
            with Step(like=steps[name][-1] if steps[name] else None) as step:
                f(*args)
            steps[name].append(step)

        return recorded

    monkeypatch.setattr(Learner, "differentiate", beginning)
    for name in steps:
        monkeypatch.setattr(Learner, name, recording(name, getattr(Learner, name)))
    how = {"warmup": 9, "schedule": "cosine", "weight_decay": 0.1, "clip_norm": 1.0} if loss == "ce" else {}
    train(network, batches, Settings(epochs=2, device="strict", **how), progress=False)
    for gradient, update, counted in zip(*steps.values(), begun, strict=True):
        assert counted["transfers"] == 1
        assert counted["calls"] == len(gradient.calls)
        assert how or len(gradient.calls + update.calls) == STEPS[form, loss], "say in STEPS what the change buys"
    if (form, loss) == ("pre", "bce"):
        rows = [f"| `{name}` | {count} |" for name, count in (gradient.places + update.places).most_common()]
        page = (Path(__file__).parent.parent / "docs" / "gpu.md").read_text()
        assert "\n".join(["|---|---|", *rows, ""]) in page, "\n".join(rows)


def test_more_masks_than_keys_cost_transfers_in_the_first_step_only(monkeypatch):
    monkeypatch.setattr(sending, "KEYS", 2)
    network = SASRecNetwork(n_items=SPLIT.train.n_items, maxlen=6, dim=8)
    batches, found = Sampler(SPLIT.train, 6, 20, 0, True), []
    for device in ("cpu", "strict"):
        learning = Learner(network, Settings(device=device), [batches.batch(0)], steps=2)
        seen = learning.xp.zeros((2, 2))
        with learning.pool(1) as pool:
            for i in range(2):
                COUNTS.clear()
                learning.differentiate([batches.batch(i)], i, seen[i], pool)
                assert device == "cpu" or COUNTS["transfers"] == (4 if i == 0 else 1)  # 5 masks
                learning.update(i + 1)
        found.append(backend.to_numpy(seen))
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_batch_larger_than_a_slice_is_one_piece_there(where, monkeypatch):
    """The host cuts it, and a device would launch everything anew for each slice. The gradient is the same."""
    sizes = []

    class Watched(SASRecNetwork):
        def loss(self, p, batch, rng=None):
            sizes.append(len(batch.ids))
            return super().loss(p, batch, rng)

    monkeypatch.setattr(learner, "SLICE_TOKENS", 9)
    batch = Sampler(SPLIT.train, 6, 20, 0, True).batch(0)
    network, found = Watched(n_items=SPLIT.train.n_items, maxlen=6, dim=8, dropout=0.2), []
    for name in ("cpu", where):
        sizes.clear()
        COUNTS.clear()
        learning = Learner(network, Settings(device=name), [batch], steps=1)
        seen = learning.xp.zeros(2)
        before = COUNTS["transfers"]
        with learning.pool(1) as pool:
            learning.differentiate([batch], 0, seen, pool)
        assert (sizes == [len(batch.ids)]) == (name != "cpu")
        assert sum(sizes) == len(batch.ids)
        assert name != "strict" or COUNTS["transfers"] - before == 1
        found.append((backend.to_numpy(seen), backend.to_numpy(learning.gradient)))
    (here, gradient), (there, gradient_there) = found
    np.testing.assert_allclose(there, here, rtol=1e-5)
    np.testing.assert_allclose(gradient_there, gradient, rtol=0, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if issubclass(model, NeuralRecommender)])
def test_scoring_waits_for_nothing_but_the_scores(name, monkeypatch):
    """However many slices: each carries over its batch and the numbers of its rows, and none is looked at."""
    monkeypatch.setattr(neural, "SLICE_TOKENS", 1)
    model = MODELS[name](**SMALL | {"epochs": 1}, device="strict").fit(SPLIT, progress=False)
    histories = SPLIT.histories(SPLIT.evaluated, "test")
    slices = len(cut(np.array([min(len(h), model.maxlen) for h in histories]), 64))
    assert slices > 3
    COUNTS.clear()
    model.score(histories)
    assert COUNTS["synchronisations"] == 1
    assert COUNTS["transfers"] == 2 * slices


@pytest.mark.parametrize(("epochs", "checkpoint"), [(1, False), (3, False), (3, True)])
def test_a_whole_training_waits_only_where_it_reports(epochs, checkpoint, tmp_path):
    """An epoch's end looks at the losses twice; then there is the best vector, and a checkpoint's five arrays."""
    network = SASRecNetwork(n_items=SPLIT.train.n_items, maxlen=6, dim=8)
    COUNTS.clear()
    path = tmp_path / "c.npz" if checkpoint else None
    settings = Settings(epochs=epochs, device="strict")
    train(network, Sampler(SPLIT.train, 6, 20, 0, True), settings, progress=False, checkpoint=path)
    if not checkpoint:
        assert COUNTS["synchronisations"] == 2 * epochs + 1
    else:
        assert COUNTS["synchronisations"] > 2 * epochs + 1
        assert COUNTS["synchronisations"] <= 2 * epochs + 1 + 6 * 3 * epochs
    assert COUNTS["transfers"] == 1 + 3 * epochs  # the initial weights, and a batch a step


def test_one_transfer_carries_a_whole_batch():
    batch = ClozeSampler(uneven(), 4, 7, 0, True, rho=0.4, mask_last=0.1).batch(0)
    batch = batch._replace(shared=batch.ids[:, None])  # every field is there
    COUNTS.clear()
    there = batch.to(strict)
    assert COUNTS["transfers"] == 1
    for mine, theirs in zip(batch, there, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert theirs.dtype == mine.dtype
            np.testing.assert_array_equal(theirs.get(), mine)
    assert there.map(lambda x: x.get()).negatives is not None
    bare = Sampler(uneven(), 4, 7, 0, False).batch(0).to(strict)
    assert bare.negatives is bare.target_positions is None


def test_arrays_of_every_size_travel_together():
    """Each begins at a multiple of its item size, whatever stands before it."""
    sizes = ((3, np.uint8), (5, np.float32), ((2, 3), np.float64), (7, bool), (1, np.int64), ((0, 4), np.float64))
    arrays = [np.full(shape, i + 1, dtype) for i, (shape, dtype) in enumerate(sizes)]
    COUNTS.clear()
    there = backend.transfer(arrays, strict)
    assert COUNTS["transfers"] == 1
    for mine, theirs in zip(arrays, there, strict=True):
        assert theirs.dtype == mine.dtype
        np.testing.assert_array_equal(theirs.get(), mine)


def test_initial_weights_are_drawn_on_the_host():
    p = SASRecNetwork(n_items=5, maxlen=3, dim=2).init(generator(0, Stream.INIT))
    vector, there = flatten(p, np.float32, strict)
    for (name, mine), (_, theirs) in zip(leaves(p), leaves(there), strict=True):
        np.testing.assert_array_equal(theirs.get(), mine.astype(np.float32), err_msg=name)
    there["items"][...] = 7.0
    assert (vector.get() == 7).sum() == 12  # views into one vector there too
