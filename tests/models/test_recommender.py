"""What every estimator can do: items near an item, lists of candidates, options as scikit-learn has them."""

import copy
import pickle
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

from tests.models.worlds import TINY, drifting_ratings
from tinyattn.data import Interactions, leave_one_out
from tinyattn.evaluation import best_items, evaluate
from tinyattn.files import FileError, read_arrays, write_arrays
from tinyattn.models import (
    MF,
    MODELS,
    GRU4Rec,
    ItemCosine,
    Markov,
    NeuralRecommender,
    Popularity,
    Recommender,
    SASRec,
    TimeSVDpp,
)
from tinyattn.models.parameters import checked_cuts
from tinyattn.options import options_of

SEQUENCES = [["a", "b", "c"], ["b", "c", "d"], ["c", "d", "a", "e"], ["a", "b"]]
SMALL = {"maxlen": 6, "dim": 8, "epochs": 2, "workers": 1}


def test_more_negatives_than_items_are_noted(capsys):
    for count in (4, 5):
        SASRec(loss="sampled-softmax", n_negatives=count, **SMALL | {"epochs": 1}).fit(SEQUENCES)
        assert ("note: n_negatives is 5, drawn from 5 items" in capsys.readouterr().err) == (count == 5)


def test_only_some_items_may_be_given():
    model = Popularity().fit(SEQUENCES)
    assert model.recommend(["a"], 2)[0].tolist() == ["b", "c"]
    assert model.recommend(["a"], 2, only=["e", "c", "a"])[0].tolist() == ["c", "e"]
    assert model.recommend(["a"], 1, only=["e", "c"], exclude=["c"])[0].tolist() == ["e"]
    for call, message in (
        (lambda: model.recommend(["a"], 2, only=["e", "zz"]), "unknown item id zz"),
        (lambda: model.recommend(["a "], 1), "unknown item id 'a ': the 5 known ids are a, b"),
        (lambda: model.recommend(["a"], 2, only=["e", "a"]), "only 1 item is left"),
        (lambda: model.recommend(["a"], 1, only=[]), "only 0 items are left"),
        (lambda: model.similar("a", 2, only=["e", "a"]), "knows nothing of pairs"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_users_of_another_split_are_found_by_their_ids():
    """Users that the model does not know count as unknown."""
    rng = np.random.default_rng(0)
    rows = [(u, i) for u in range(40) for i in rng.choice(12, 6, replace=False).tolist()]
    whole = Interactions.of(np.array(rows))
    some = Interactions.of(np.array([row for row in rows if row[0] % 2] + [(99, i) for i in range(12)]))
    model = MF(dim=4, epochs=5).fit(leave_one_out(whole))
    numbers = model.users.numbers_or_zero(some.users.ids)
    assert numbers[-1] == 0
    expected = evaluate(model, leave_one_out(some), users=numbers)["full"]
    assert model.evaluate(leave_one_out(some)) == expected
    with pytest.raises(ValueError, match="a Interactions is no split, expected one, such as leave_one_out"):
        model.evaluate(some)


@pytest.mark.parametrize("model", [Markov(), MF(**SMALL), SASRec(**SMALL)], ids=["markov", "mf", "sasrec"])
def test_a_split_of_other_items_is_refused(model):
    """Items are taken by number: of another data set the numbers would mean other items."""
    sequences = [["a", "b", "c", "d"], ["b", "c", "d", "e"], ["c", "d", "a", "e"]]
    model.fit(leave_one_out(Interactions.of(sequences)))
    model.evaluate(leave_one_out(Interactions.of([*sequences])))
    for others in ([[f"{item}x" for item in one] for one in sequences], sequences[:1], [*sequences, ["f", "a", "b"]]):
        split = leave_one_out(Interactions.of(others))
        for measure in (model.evaluate, partial(evaluate, model), partial(evaluate, model.score),
                        partial(best_items, model.score)):  # fmt: skip
            with pytest.raises(ValueError, match="item ids, and they are not the 5 that this model has learned"):
                measure(split)


@pytest.mark.parametrize("model", [SASRec(**SMALL), GRU4Rec(**SMALL, loss="ce")], ids=["sasrec", "gru4rec"])
def test_near_items_have_embeddings_of_a_high_cosine(model):
    data = TINY.generate()
    model.fit(data, progress=False)
    table = np.asarray(model.parameters["items"], dtype=np.float64)[1:]
    ids, scores = model.similar("s2e2", 15)
    mine = table[data.items.ids.tolist().index("s2e2")]
    expected = {
        item: row @ mine / np.sqrt((row @ row) * (mine @ mine))
        for item, row in zip(data.items.ids.tolist(), table, strict=True)
        if item != "s2e2"
    }
    assert ids.tolist() == sorted(expected, key=lambda item: -expected[item])
    np.testing.assert_allclose(scores, sorted(expected.values(), reverse=True), rtol=1e-9)


def test_a_bias_makes_no_item_near_another():
    model = MF(dim=8, epochs=1, workers=1).fit(SEQUENCES, progress=False)
    before = model.similar("a", 4)
    model.parameters["output"][:, -1] = [0, 9, -9, 9, 9, -9]
    np.testing.assert_array_equal(model.similar("a", 4)[1], before[1])
    assert model.network.item_vectors(model.parameters).shape == (6, 8)


def test_models_that_count_have_a_relation_between_items_of_their_own():
    ids, scores = Markov().fit(SEQUENCES).similar("c", 2)
    assert ids[0] == "d"  # followed twice
    assert np.floor(scores).tolist() == [2, 0]
    ids, scores = ItemCosine().fit(SEQUENCES).similar("a", 2)
    assert sorted(ids.tolist()) == ["b", "c"]
    np.testing.assert_allclose(scores, [2 / 3, 2 / 3], rtol=1e-6)  # two of three users each have both


COUNTING = [n for n, cls in MODELS.items() if issubclass(cls, Recommender) and not issubclass(cls, NeuralRecommender)]


@pytest.mark.parametrize("name", COUNTING)
def test_every_array_of_a_file_is_checked(name, tmp_path):
    """Networks' parameters are checked in one place; models that count have arrays of their own."""
    path, rated = tmp_path / "model.npz", name == "timesvdpp"
    model = TimeSVDpp(epochs=1, workers=1) if rated else MODELS[name]()
    model.fit(drifting_ratings(users=9) if rated else SEQUENCES).save(path)
    meta, arrays = read_arrays(path, "model")
    arrays = dict(arrays)
    for array in arrays.keys() - {"vocabulary.items", "vocabulary.users"}:
        found = arrays[array]
        damaged = [found[:-1], found[None], found.astype(np.complex64)]
        if array.startswith(("items", "neighbours", "begin", "rated.offsets", "rated.seen")):
            damaged += [found - 1000, found + 1000]                   # they say where something stands
        if array.startswith("contexts"):
            damaged += [found[::-1], np.full_like(found, found[0])]   # they ascend
        for other in damaged:
            write_arrays(path, "model", meta, arrays | {array: other})
            with pytest.raises(FileError, match=f"not a whole {name} model"):
                Recommender.load(path)
    for further in ("further", "rated.further"):
        write_arrays(path, "model", meta, arrays | {further: np.zeros(3, np.float32)})
        with pytest.raises(FileError, match=f"{further}"):
            Recommender.load(path)


@pytest.mark.parametrize(("cuts", "right"), [
    ([0, 3, 5], True), ([0, 0, 5], True), ([0, 5, 5], True), ([1, 3, 5], False), ([0, 3, 4], False), ([0, 3, 6], False),
    ([0, 6, 5], False), ([0, 5], False), ([0, 2, 3, 5], False),
])  # fmt: skip
def test_cuts_go_from_0_to_the_end_and_never_back(cuts, right):
    arrays = {"begin": np.array(cuts)}
    with nullcontext() if right else pytest.raises(ValueError, match="begin "):
        assert checked_cuts(arrays, "begin", 2, 5).tolist() == cuts


def clone(estimator):
    """What scikit-learn's `clone` does with an estimator: the same options, and each of them unchanged."""
    made = type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))
    for name, value in made.get_params(deep=False).items():
        assert value is estimator.get_params(deep=False)[name], name
    return made


@pytest.mark.parametrize("name", MODELS)
def test_params_are_the_options_and_make_the_same_model(name):
    model = MODELS[name]()
    assert list(model.get_params()) == [o.name for o in options_of(model)]
    assert model.get_params() == {o.name: o.default for o in options_of(model)}
    for again in (clone(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert again.get_params() == model.get_params()
        assert again.identity() == model.identity()


def test_params_that_were_left_to_the_model_stay_so():
    model = SASRec(block_form="sasrec", mechanism="window")
    assert model.emb_scale is True
    assert model.window == 16
    assert model.get_params()["emb_scale"] is model.get_params()["window"] is None
    assert model.set_params(block_form="pre", mechanism="full") is model
    assert model.emb_scale is False
    assert model.identity() == SASRec().identity()
    model.set_params(mechanism="window", window=4, lr=np.float32(0.5))
    assert clone(model).window == 4
    assert clone(model).lr == 0.5
    assert Markov(2).get_params() == {"order": 2}
    model.epochs = 3  # as scikit-learn's, it speaks of the attributes
    assert clone(model).epochs == 3


def test_params_that_cannot_be_are_refused_and_nothing_changes():
    model = SASRec(heads=2)
    before = model.get_params()
    for params, message in (
        ({"head": 2}, "head is no option of SASRec, expected one of .*heads.*did you mean heads?"),
        ({"lr": 0.1, "heads": 3}, "dim 50 is not divisible by heads 3"),
        ({"network": None}, "network is no option"),
        ({"window": 4}, "an option of mechanism window"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(**params)
        assert model.get_params() == before


def test_what_was_learned_is_kept_only_where_it_would_be_learned_again():
    model = SASRec(**SMALL).fit(SEQUENCES, progress=False)
    ids, scores = model.recommend(["a"], 2)
    model.set_params(workers=2)
    np.testing.assert_array_equal(model.recommend(["a"], 2)[0], ids)
    np.testing.assert_array_equal(clone(model).fit(SEQUENCES, progress=False).recommend(["a"], 2)[1], scores)
    model.set_params(maxlen=3)
    with pytest.raises(ValueError, match="call fit first"):
        model.recommend(["a"], 2)
