"""What every model in transformers/ gets from its base: training that resumes and uses workers, files, refusals."""

import numpy as np
import pytest

from tests.models.small import DATA, SEQUENCE_MODELS, make
from tinyattn.backend import to_numpy
from tinyattn.data import Images, Pairs, Parts, Text
from tinyattn.files import FileError
from tinyattn.models import MODELS, Estimator, Popularity, Recommender, SequenceModel
from tinyattn.tree import leaves


def fitted(name, **how):
    more = {key: how.pop(key) for key in ("workers", "device") if key in how}
    return make(name, **more).fit(DATA[MODELS[name].table], progress=False, **how)


def parameters(model):
    return np.concatenate([to_numpy(leaf).ravel() for _, leaf in leaves(model.parameters)])


@pytest.mark.parametrize("name", SEQUENCE_MODELS)
def test_the_seed_draws_batches_and_the_words_of_patches(name):
    train = DATA[MODELS[name].table].train
    model, other = make(name, seed=7), make(name, seed=8)
    known = model.vocabularies_of([train])
    assert model.sampler(model.numbered(train, known)).seed == 7
    if "codebook" in known:
        assert not np.array_equal(known["codebook"], other.vocabularies_of([train])["codebook"])


@pytest.fixture(scope="module", params=SEQUENCE_MODELS)
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


def test_characters_and_classes_of_every_part_are_known():
    pairs = [Pairs.of([(text, text[::-1])]) for text in ("aba", "ca", "bd")]
    model = make("transformer", epochs=1).fit(Parts(*pairs), progress=False)
    assert ["".join(v.ids) for v in (model.sources, model.targets)] == ["abcd"] * 2
    for name in ("decoder", "encoder"):
        known = make(name).vocabularies_of([Text.of(text) for text in ("aba", "ca", "bd")])
        assert "".join(known["tokens"].ids) == "abcd"
    images = [Images(np.zeros((1, 8, 8)), np.array([label])) for label in ("disc", "cross", 3)]
    assert make("vit").vocabularies_of(images[:2])["classes"].ids.tolist() == ["cross", "disc"]
    with pytest.raises(ValueError, match="some parts have labels that are integers, others strings"):
        make("vit").vocabularies_of(images)


def test_a_recommender_is_none_of_them(tmp_path):
    Popularity().fit([["a", "b"], ["b"]]).save(tmp_path / "p.npz")
    with pytest.raises(FileError, match=f"is of model popularity, expected {' or '.join(SEQUENCE_MODELS)}"):
        SequenceModel.load(tmp_path / "p.npz")


def test_without_parts_it_learns_from_all_and_keeps_the_last_epoch(whole):
    train = DATA[whole.table].train
    model = make(whole.name, epochs=1).fit(train, progress=False)
    assert model.history[0]["valid"] is None
    same = make(whole.name, epochs=1).fit(Parts(train), progress=False)
    np.testing.assert_array_equal(parameters(model), parameters(same))
