"""Steps that are recorded and launched again: same numbers, one launch, and what happens where nothing is recorded."""

import ctypes
import os
import signal
import weakref
from collections import Counter

import numpy as np
import pytest

from benchmarks import lengths
from tests.devices import On
from tests.models.small import DATA, TRAINED, make
from tests.models.worlds import TINY
from tests.strict import COUNTS, Cublas, StrictArray, strict
from tinyattn import backend
from tinyattn.data import Interactions, Sampler, leave_one_out
from tinyattn.layers.positions import t5
from tinyattn.models import MODELS, SASRecNetwork
from tinyattn.training import DivergedError, InterruptedRunError, Learner, Settings, launching, recording, train
from tinyattn.training.launching import Launcher
from tinyattn.training.sending import Sender
from tinyattn.tree import leaves

pytestmark = pytest.mark.host
SPLIT = leave_one_out(TINY.generate())
MANY = Sampler(SPLIT.train, 6, 5, 0, True)  # 12 steps an epoch


@pytest.fixture
def recorded(monkeypatch):
    """The double as a card for which recording was proven. -> the launches' calls and transfers."""
    counted = []

    def launch(self, *args, whole=Launcher.launch):
        known, before = len(self.records), COUNTS.copy()
        done = whole(self, *args)
        if done and len(self.records) == known:
            counted.append(COUNTS - before)
        return done

    monkeypatch.setattr(recording, "PROVEN", ("strict",))
    monkeypatch.setattr(recording, "cublas", lambda xp: Cublas())
    monkeypatch.setattr(Launcher, "launch", launch)
    return counted


def trained(device="strict", form="pre", loss="bce", batches=MANY, checkpoint=None, **how):
    network = SASRecNetwork(n_items=SPLIT.train.n_items, maxlen=batches.maxlen, dim=8, block_form=form, objective=loss)
    settings = Settings(**{"epochs": 1, "device": device} | how)
    p, history = train(network, batches, settings, checkpoint=checkpoint, progress=False)
    # a bias of keys has no effect: its gradient is rounding, of which Adam makes whole steps
    numbers = [backend.to_numpy(leaf) for name, leaf in leaves(p) if not name.endswith("key.b")]
    return np.concatenate([x.ravel() for x in numbers]), [(row["loss"], row["gradient_norm"]) for row in history]


@pytest.mark.parametrize(
    ("form", "loss", "how"),
    [
        ("pre", "bce", {}),
        pytest.param(
            "post", "ce", {"schedule": "cosine", "warmup": 7, "clip_norm": 0.5}, marks=pytest.mark.slow(seconds=2)
        ),
        pytest.param("sasrec", "bce", {"weight_decay": 0.1, "optimizer": "muon"}, marks=pytest.mark.slow(seconds=2)),
    ],
)
def test_recorded_steps_give_the_same_numbers_in_one_launch(form, loss, how, recorded, monkeypatch):
    p, history = trained(form=form, loss=loss, **how)
    # of 12 steps in an epoch, the last is looked at, and a layout is recorded when it is met again
    assert len(recorded) >= 4
    assert all(count == {"calls": 3, "transfers": 1} for count in recorded)  # what is sent, the launch, the loss
    monkeypatch.setattr(recording, "PROVEN", ())
    plain, plain_history = trained(form=form, loss=loss, **how)
    np.testing.assert_allclose(history, plain_history, rtol=1e-6)
    np.testing.assert_allclose(p, plain, rtol=0, atol=2e-6)


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("name", TRAINED)
def test_every_model_learns_the_same_from_recorded_steps(name, recorded, monkeypatch):
    def history():
        rows = {"batch_size": 4} if name in ("decoder", "encoder") else {"batch_size": 12}  # several steps an epoch
        model = make(name, device="strict", epochs=4, context=8, dropout=0.2, **rows)
        model.fit(DATA[MODELS[name].table], progress=False)
        return [(row["loss"], row["gradient_norm"], row["valid"]) for row in model.history]

    mine = history()
    assert recorded or name == "timesvdpp"  # whose counts a device waits for
    monkeypatch.setattr(recording, "PROVEN", ())
    np.testing.assert_allclose(mine, history(), rtol=1e-4)


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("name", [name for name in TRAINED if MODELS[name].table == "ranking"])
def test_every_recommender_learns_the_same_from_batches_that_are_padded_on(name, monkeypatch):
    seen = []

    def history(pads):
        def send(self, batch, *rest, whole=Sender.send):
            seen.append(batch.ids.shape[1])
            return whole(self, batch.padded() if pads else batch, *rest)

        monkeypatch.setattr(Sender, "send", send)
        model = make(name, device="strict", maxlen=8, batch_size=3, dropout=0.2, epochs=1)
        model.fit(DATA["ranking"], progress=False)
        monkeypatch.undo()
        return [(row["loss"], row["gradient_norm"], row["valid"]) for row in model.history]

    np.testing.assert_allclose(history(True), history(False), rtol=1e-5)
    assert {3, 5, 6} <= {*seen}  # to 4, 8 and 8


@pytest.mark.slow(seconds=1)
def test_a_run_that_was_stopped_between_recorded_steps_is_resumed(recorded, tmp_path):
    class Interrupted(Sampler):
        def batch(self, step):
            if step == 8:
                os.kill(os.getpid(), signal.SIGINT)
            return super().batch(step)

    with pytest.raises(InterruptedRunError, match="after step 9"):
        trained(batches=Interrupted(SPLIT.train, 6, 5, 0, True), checkpoint=tmp_path / "c.npz")
    assert recorded
    p, history = trained(checkpoint=tmp_path / "c.npz")
    whole, whole_history = trained()
    np.testing.assert_allclose(p, whole, rtol=0, atol=2e-6)
    np.testing.assert_allclose(history, whole_history, rtol=1e-6)


def test_the_loss_is_still_looked_at_before_it_is_used(recorded):
    with pytest.raises(DivergedError, match="training diverged at step"):
        trained(lr=1e30)


def test_other_layouts_than_the_first_few_and_several_batches_are_computed_call_by_call(recorded, monkeypatch):
    monkeypatch.setattr(launching, "MOST", 0)
    p, _ = trained()
    monkeypatch.undo()
    np.testing.assert_array_equal(p, trained()[0])
    assert not recorded


UNEVEN = Sampler(
    Interactions.from_sequences([np.arange(1, 2 + n % 17) for n in range(1, 40)]), maxlen=16, batch_size=2, seed=0,
    negatives=False, shared=0,
)  # fmt: skip


def same_as_unrecorded(monkeypatch, batches, **how):
    p, history = trained(batches=batches, loss="ce", **how)
    monkeypatch.setattr(recording, "PROVEN", ())
    plain, plain_history = trained(batches=batches, loss="ce", **how)
    np.testing.assert_allclose(history, plain_history, rtol=1e-5)
    np.testing.assert_allclose(p, plain, rtol=0, atol=1e-5)


@pytest.mark.slow(seconds=2)
def test_histories_of_many_lengths_are_padded_to_few(recorded, monkeypatch):
    """Unpadded none would be launched: a record begins when a layout is met for the second time."""
    assert max(Counter(UNEVEN.batch(i).ids.shape for i in range(UNEVEN.steps)).values()) == 2
    same_as_unrecorded(monkeypatch, UNEVEN)
    assert len(recorded) >= 9


def test_the_page_counts_launches_as_the_launcher_makes_them():
    four, six = (2, 4), (2, 6)
    found = lengths.launches([((2, 3), four), (six, six), ((2, 3), four), (four, four), (six, six), ((1, 1), (1, 1))])
    assert found == {"layouts": 3, "launched": 0.5, "positions": (6 + 12 + 8 + 8 + 12 + 1) / 45, "memory": 20 / 12}
    assert lengths.RULES["a multiple of maxlen / 4"](14, 50) == 26
    assert [lengths.RULES[lengths.USED](n, 50) for n in (1, 3, 32, 33)] == [1, 4, 32, 50]


@pytest.mark.slow(seconds=2)
def test_a_length_beyond_the_recorded_ones_is_computed_call_by_call(recorded, monkeypatch):
    monkeypatch.setattr(launching, "MOST", 1)
    same_as_unrecorded(monkeypatch, UNEVEN)
    assert 3 <= len(recorded) < UNEVEN.steps - 5


def test_shapes_that_change_in_the_middle_of_a_training_are_other_layouts(recorded, monkeypatch):
    """A row more, and another maxlen, where padding ends: no earlier record is launched on them."""

    class Changing(Sampler):
        def batch(self, step):
            later = Sampler(self.train, 13, 3, 0, False)
            return later.batch(step) if step > 9 else super().batch(step)

    batches = Changing(UNEVEN.train, 16, 2, 0, False)
    same_as_unrecorded(monkeypatch, batches)
    assert len(recorded) >= 3


def test_batches_that_make_a_step_together_are_not_recorded(recorded):
    trained(accumulate=2)
    assert not recorded


class Broken:
    """A cuBLAS that fails at its n-th product."""

    def __init__(self, n):
        self.left, self.whole = n, Cublas()

    def __getattr__(self, name):
        def call(*args):
            self.left -= name.startswith("cublasSgemm")
            return 14 if self.left == 0 else getattr(self.whole, name)(*args)

        return call


@pytest.mark.parametrize("n", [1, 20, 45])  # at once, in the midst of the first call, while recording
def test_where_a_device_does_not_record_the_step_is_computed_anew(n, recorded, monkeypatch, capsys):
    monkeypatch.setattr(recording, "cublas", lambda xp: Broken(n))
    p, history = trained()
    assert not recorded
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith("note: steps are computed call by call, as this device does not record them: RuntimeError")
    monkeypatch.setattr(recording, "PROVEN", ())
    plain, plain_history = trained()
    np.testing.assert_array_equal(p, plain)
    assert history == plain_history


def test_a_card_without_memory_and_a_missing_library_are_refusals_too():
    done = []

    class Stream(strict.cuda.Stream):
        def synchronize(self):
            done.append("waits")

    def whole():
        done.append("computes")
        raise MemoryError("out of memory")

    for library in (lambda xp: Cublas(), lambda xp: ctypes.CDLL("libcublas.so.0")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recording, "cublas", library)
            patch.setattr(strict.cuda, "Stream", Stream)
            with pytest.raises(recording.CannotRecordError, match=r"^(MemoryError: out of memory|OSError: .*)$"):
                recording.record(whole, strict)
        assert done.pop() == "waits"  # what was begun is done before the caller restores arrays
    assert "computes" in done
    assert StrictArray.__matmul__.__qualname__.startswith("_operator")  # and not the product of recordings


def test_after_a_refusal_no_record_keeps_memory(recorded, monkeypatch):
    def refuse(whole, xp):
        whole()
        raise recording.CannotRecordError("out of memory")

    monkeypatch.setattr(launching, "record", refuse)
    network, batch = SASRecNetwork(n_items=SPLIT.train.n_items, maxlen=6, dim=8), MANY.batch(0)
    learner = Learner(network, Settings(device="strict"), [batch], steps=3)
    learner.launcher.records["another layout"] = ()
    before, seen = learner.vector.get(), learner.xp.zeros(2)
    with learner.pool(1) as pool:
        assert [learner.launch([batch], i, seen, pool) for i in range(3)] == [False] * 3
    assert learner.launcher.records == {}
    np.testing.assert_array_equal(learner.vector.get(), before)


def test_memory_of_records_is_free_with_their_learner(recorded):
    network, batch = SASRecNetwork(n_items=SPLIT.train.n_items, maxlen=6, dim=8), MANY.batch(0)
    learner = Learner(network, Settings(device="strict"), [batch], steps=2)
    with learner.pool(1) as pool:
        assert [learner.launch([batch], i, learner.xp.zeros(2), pool) for i in range(2)] == [False, True]
    vector = weakref.ref(learner.vector.host)
    del learner, pool
    assert vector() is None  # at once, and not when cycles are collected


def test_tables_that_a_record_reads_are_made_in_its_memory(recorded):
    def table():
        return weakref.ref(t5._buckets(strict, 3, 3, 4, 4, True).host)

    before, read = table(), []
    launch = recording.record(lambda: read.append(table()), strict)
    t5._buckets.cache_clear()
    assert before() is None
    assert read[1]() is read[0]() is not None
    del launch
    assert read[1]() is None


def test_a_recorded_product_is_written_where_it_is_asked_for(recorded):
    a, b, y = (On("strict").there(np.arange(n, dtype="f")) for n in (4, 4, 3))
    x = recording.record(lambda: strict.matmul(a.reshape(2, 2), b[:2], out=y[1:]), strict)
    y[...] = 0
    x()
    assert y.get().tolist() == [0, 1, 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_recorded_product_is_that_of_numpy(dtype, rng):
    on = On("strict")

    def compared(a, b, take_a=lambda x: x, take_b=lambda x: x):
        a, b = rng.standard_normal(a).astype(dtype), rng.standard_normal(b).astype(dtype)
        y = recording.product(strict, Cublas(), None, take_a(on.there(a)), take_b(on.there(b)))
        expected = take_a(a) @ take_b(b)
        assert y.shape == expected.shape
        np.testing.assert_allclose(y.get(), expected, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-5)

    def turned(x):
        return x.swapaxes(-1, -2)

    for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 4), (4, 1)), ((3, 1), (1, 5)),
                 ((4,), (4, 5)), ((2, 3, 4), (4,)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((2, 0, 3), (3, 2)),
                 ((4,), (4,))):  # fmt: skip
        compared(a, b)
    compared((4, 3), (5, 4), turned, turned)
    compared((2, 4, 3), (2, 4, 5), turned)
    compared((2, 3, 4), (2, 5, 4), take_b=turned)
    heads = (2, 5, 6)  # B, n, h d -> B, h, n, d, of which no single step leads from matrix to matrix
    split = lambda x: x.reshape(2, 5, 2, 3).swapaxes(1, 2)  # noqa: E731
    compared(heads, heads, split, lambda x: turned(split(x)))
    compared((4, 6), (9, 5), lambda x: x[:, 1:4], lambda x: x[::3, :4])
    compared((4, 6), (6, 5), lambda x: x[::-1], lambda x: x[:, ::2])
    with pytest.raises(TypeError, match="a recorded product of int64 and float32"):
        recording.product(strict, Cublas(), None, on.there(np.ones((2, 2), int)), on.there(np.ones((2, 2), np.float32)))
