"""What every model in transformers/ gets from its base: training that resumes and spreads, files, refusals."""

import numpy as np
import pytest

from tinyattn.backend import to_numpy
from tinyattn.data import SEQUENCE_TASKS, Grammar, Images, Pairs, Parts
from tinyattn.files import FileError
from tinyattn.models import MODELS, Estimator, Popularity, Recommender, SequenceModel
from tinyattn.options import options_of
from tinyattn.tree import leaves

SMALL = {"dim": 8, "heads": 2, "layers": 1, "batch_size": 8, "epochs": 2, "workers": 1, "patience": 0, "lr": 0.01}
MODELS_HERE = [name for name, cls in MODELS.items() if issubclass(cls, SequenceModel)]


def pairs(n=30):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcde"), rng.integers(1, 7))) for _ in range(n)]
    return Pairs.of((word, word[::-1]) for word in words).split()


def images(n=30):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    return Images(rng.random((n, 8, 8)) + labels[:, None, None] * np.eye(8), labels).split()


# a small one for each table of measures
TEXT = Grammar(sentences=8).generate().split()
COPY = SEQUENCE_TASKS["selective-copy"](copied=1, tokens=2, length=6, sequences=160, held_out=40)
DATA = {
    "pairs": pairs(), "text": TEXT, "masked text": TEXT, "images": images(), "hidden patches": images(),
    "sequence tasks": COPY.generate().split(),
}  # fmt: skip


def make(name, **more):
    known = {o.name for o in options_of(MODELS[name])}
    return MODELS[name](**{key: value for key, value in (SMALL | more).items() if key in known})


def fitted(name, **how):
    more = {key: how.pop(key) for key in ("workers", "device") if key in how}
    return make(name, **more).fit(DATA[MODELS[name].table], progress=False, **how)


def parameters(model):
    return np.concatenate([to_numpy(leaf).ravel() for _, leaf in leaves(model.parameters)])


@pytest.fixture(scope="module", params=MODELS_HERE)
def whole(request):
    return fitted(request.param)


def test_it_learns_and_chooses_the_epoch_by_its_criterion(whole):
    parts = DATA[whole.table]
    assert whole.history[1]["loss"] < whole.history[0]["loss"]
    best = max(row["valid"] for row in whole.history)
    found = whole.evaluate(parts.valid)[whole.criterion.removeprefix("-")]
    assert found == pytest.approx(-best if whole.criterion.startswith("-") else best)


def test_stopped_and_resumed_it_ends_with_the_same_bits(whole, tmp_path):
    def stop(history):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(whole.name, checkpoint=tmp_path / "c.npz", on_epoch=stop)
    resumed = fitted(whole.name, checkpoint=tmp_path / "c.npz")
    np.testing.assert_array_equal(parameters(resumed), parameters(whole))
    with pytest.raises(FileError, match="another configuration or other data"):
        make(whole.name, lr=0.02).fit(DATA[whole.table], progress=False, checkpoint=tmp_path / "c.npz")


def test_workers_change_no_bit(whole):
    np.testing.assert_array_equal(parameters(fitted(whole.name, workers=2)), parameters(whole))


def test_on_a_device_it_learns_the_same_up_to_rounding(whole):
    """The loss is compared: a parameter whose gradient is 0, as a key's bias, goes where rounding sends it."""
    there = fitted(whole.name, device="strict")
    for row, wanted in zip(there.history, whole.history, strict=True):
        assert row["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    test = DATA[whole.table].test
    assert there.evaluate(test)["loss"] == pytest.approx(whole.evaluate(test)["loss"], rel=1e-3)


def test_saved_and_loaded_it_is_the_same(whole, tmp_path):
    whole.save(tmp_path / "m.npz")
    for kind in (type(whole), SequenceModel, Estimator):
        loaded = kind.load(tmp_path / "m.npz", workers=1)
        assert loaded.identity() == whole.identity()
        assert loaded.evaluate(DATA[whole.table].test) == whole.evaluate(DATA[whole.table].test)
    with pytest.raises(FileError, match=f"is of model {whole.name}, expected sasrec or "):
        Recommender.load(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="has not learned anything yet"):
        make(whole.name).save(tmp_path / "n.npz")
    with pytest.raises(ValueError, match="has not learned anything yet"):
        make(whole.name).evaluate(DATA[whole.table].test)


def test_a_recommender_is_none_of_them(tmp_path):
    Popularity().fit([["a", "b"], ["b"]]).save(tmp_path / "p.npz")
    with pytest.raises(FileError, match=f"is of model popularity, expected {' or '.join(MODELS_HERE)}"):
        SequenceModel.load(tmp_path / "p.npz")


def test_without_parts_it_learns_from_all_and_keeps_the_last_epoch(whole):
    train = DATA[whole.table].train
    model = make(whole.name, epochs=1).fit(train, progress=False)
    assert model.history[0]["valid"] is None
    same = make(whole.name, epochs=1).fit(Parts(train), progress=False)
    np.testing.assert_array_equal(parameters(model), parameters(same))
