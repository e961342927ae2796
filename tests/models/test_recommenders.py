import warnings
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

from tests.helpers import Frame
from tests.models.worlds import TINY, uneven
from tinyattn.data import Interactions, leave_one_out
from tinyattn.files import FileError, read_arrays, write_arrays
from tinyattn.layers import MIXERS
from tinyattn.models import EASE, MODELS, BERT4Rec, GRU4Rec, ItemCosine, Markov, Popularity, Recommender, SASRec, neural
from tinyattn.models.recommenders import ease
from tinyattn.options import options_of
from tinyattn.training import DivergedError, DivergedWarning, Workers
from tinyattn.tree import flatten, leaves

SMALL = {"maxlen": 6, "dim": 8, "epochs": 2, "workers": 1}
SEQUENCES = [["a", "b", "c"], ["b", "c", "d"], ["c", "d", "a", "e"], ["a", "b"]]
RATED = replace(Interactions.from_sequences(SEQUENCES), times=np.arange(12), ratings=np.arange(12.0) % 5)


CASES = [(name, {}) for name, cls in MODELS.items() if issubclass(cls, Recommender)]
CASES += [
    ("sasrec", {"user_embedding": True, "block_form": "sasrec", "loss": "ce"}),
    *(("sasrec", {"mixer": name}) for name in MIXERS if name != "attention"),
    ("markov", {"order": 2}),
    ("markov", {"order": 5}),
]


def fitted(name, options):
    """A model, trained on SEQUENCES (one asks for ratings and times) with those of the small options that it has."""
    known = {o.name for o in options_of(MODELS[name])}
    model = MODELS[name](**{n: v for n, v in SMALL.items() if n in known} | options)
    return model.fit(RATED, **({"progress": False} if "epochs" in known else {}))


def test_popularity_counts_training_items():
    assert Popularity().fit(SEQUENCES).score([np.array([1])] * 2).tolist() == [[0, 3, 3, 3, 2, 1]] * 2
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3], [1, 3, 2]]))
    assert Popularity().fit(split).score([np.array([1])]).tolist() == [[0, 2, 0, 0]]  # only its training part


def test_markov_counts_followers_and_popularity_breaks_ties():
    scores = Markov().fit(SEQUENCES).score([np.array([5, 3]), np.array([5])])
    assert np.floor(scores).tolist() == [[0, 0, 0, 0, 2, 0], [0] * 6]  # after c: d twice. after e: none
    fractions = scores - np.floor(scores)
    np.testing.assert_allclose(fractions, [np.array([0, 3, 3, 3, 2, 1]) / 4] * 2)


def test_cosine_by_hand(rng):
    """Against plain loops over sets of users."""
    data = uneven(users=9, items=8)
    model = ItemCosine().fit(data)
    users = {i: {u for u in range(9) if i in data.sequence(u)} for i in range(1, data.n_items + 1)}
    history = [1, 3, 3, 5]
    scores = model.score([np.array(history)])[0]
    for i, mine in users.items():
        expected = sum(
            len(mine & users[j]) / np.sqrt(len(mine) * len(users[j]))
            for j in set(history)
            if j != i and mine & users[j]
        )
        np.testing.assert_allclose(scores[i], expected, rtol=1e-6)


def plain_markov(data, history, order):
    """Counts in loops: of each order a row, what followed the last items of the history wherever they came."""
    sequences = [data.sequence(u).tolist() for u in range(data.n_users)]
    rows = [np.bincount(data.flat, minlength=data.n_items + 1)]
    for level in range(1, min(order, len(history)) + 1):
        rows.append(np.zeros(data.n_items + 1))
        for s in sequences:
            for t in range(level, len(s)):
                rows[-1][s[t]] += s[t - level : t] == list(history[-level:])
    return rows[::-1]


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_markov_of_any_order_ranks_by_the_longest_context_then_by_shorter_ones(order, rng):
    """Few items, so that long contexts come again; the order of all of them, compared with the loops' counts."""
    data = Interactions.from_sequences([rng.integers(1, 4, n) for n in rng.integers(1, 30, 12)])
    model = Markov(order=order).fit(data)
    for history in [rng.integers(1, 4, n) for n in (1, 2, 3, 5, 9, 9, 9, 9)]:
        wanted = np.lexsort([np.arange(4, 0, -1), *plain_markov(data, history, order)[::-1]])[::-1]
        assert np.argsort(-model.score([history])[0], kind="stable").tolist() == wanted.tolist()


def test_contexts_of_many_items_do_not_overflow(rng):
    """50,000 items to the power of 30 is no number of 64 bits; each item is followed by one other."""
    cycle = rng.permutation(50_000) + 1
    data = Interactions.from_sequences([cycle, cycle[25_000:].tolist() + cycle[:25_000].tolist()])
    model = Markov(order=30).fit(data)
    for end in (40, 25_000, 49_998):
        assert np.argmax(model.score([cycle[:end]])[0]) == cycle[end]


@pytest.mark.parametrize("order", [1, 2])
def test_a_markov_file_whose_pairs_are_one_number_is_read(order, tmp_path, rng):
    """As the version before contexts of any order wrote it: keys to the base of the items, each with its count."""
    data = Interactions.from_sequences([rng.integers(1, 8, n) for n in rng.integers(1, 30, 12)])
    model = Markov(order=order).fit(data)
    size, arrays = data.n_items + 1, {"popularity": np.bincount(data.flat, minlength=data.n_items + 1)}
    for level in range(1, order + 1):
        keys = []
        for u in range(data.n_users):
            s = data.sequence(u).astype(np.int64)
            keys += [int(np.polyval(s[t - level : t + 1], size)) for t in range(level, len(s))]
        arrays[f"keys.{level}"], arrays[f"counts.{level}"] = np.unique(keys, return_counts=True)
    ids = {"vocabulary.items": data.items.ids, "vocabulary.users": data.users.ids}
    write_arrays(tmp_path / "old.npz", "model", {"model": "markov", "options": {"order": order}}, ids | arrays)
    old = Recommender.load(tmp_path / "old.npz")
    histories = [rng.integers(1, 8, n) for n in (1, 2, 3, 5, 9)]
    np.testing.assert_array_equal(old.score(histories), model.score(histories))


def test_ease_is_where_its_objective_has_no_slope():
    """|X - X B|² + λ |B|² is least with a zero diagonal where its gradient is 0 everywhere else."""
    data = uneven(users=9, items=8)
    model = EASE(l2=2.5).fit(data)
    X = np.zeros((9, data.n_items))
    for u in range(9):
        X[u, data.sequence(u) - 1] = 1
    weights = model.score([np.array([i]) for i in range(1, data.n_items + 1)])
    assert not weights[:, 0].any()
    B = weights[:, 1:]
    assert not np.diag(B).any()
    gradient = X.T @ (X @ B - X) + 2.5 * B
    np.testing.assert_allclose(gradient - np.diag(np.diag(gradient)), 0, atol=1e-5)
    np.testing.assert_allclose(model.score([np.array([2, 5, 2])])[0, 1:], B[1] + B[4], atol=1e-6)  # a set of items


def test_what_ease_refuses(monkeypatch):
    with pytest.raises(ValueError, match=r"l2 is -1\.0, expected a positive, finite number"):
        EASE(l2=-1.0)
    with pytest.raises(ValueError, match=r"l2 is 1e-30, expected at least 1\.2e-09 with this data"):
        EASE(l2=1e-30).fit([["a", "b", "c", "d"]] * 3)
    monkeypatch.setattr(ease.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 3}.__getitem__)
    assert ease._memory() == 3 * 4096
    monkeypatch.delattr(ease.os, "sysconf")                          # as on Windows
    assert ease._memory() == 2**33
    monkeypatch.setattr(ease, "_memory", lambda: 8 * ease.MATRICES * 10**2)
    EASE().check_data(Interactions.from_sequences([np.arange(1, 11)]))
    with pytest.raises(ValueError, match=r"ease needs 3 matrices .* for 11 items, expected at most 10 items"):
        EASE().fit([list(range(11))])
    monkeypatch.setattr(ease, "_memory", lambda: 10**9)
    with pytest.raises(ValueError, match=r"2\.4 GB for 10000 items, expected at most 6454 items for the 1\.0 GB"):
        EASE().check_data(Interactions.from_sequences([np.arange(1, 10001)]))


@pytest.mark.parametrize("name", ["mf", "fism", "fpmc", "fossil"])
def test_one_user_who_has_had_everything_leaves_no_pair_to_rank(name):
    with pytest.raises(ValueError, match="user 1 has had all 3 items: no negative can be drawn"):
        MODELS[name](workers=1).fit([["a", "b", "c"]], progress=False)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_recommend_speaks_in_the_datas_ids(name, options):
    model = fitted(name, options)
    ids, scores = model.recommend(["a", "b"], k=2)
    assert ids.shape == scores.shape == (2,)
    assert scores[0] >= scores[1]
    assert not {"a", "b"} & set(ids.tolist())
    many, _ = model.recommend([["a", "b"], ["c"], ["e", "d", "c", "b"]], k=1)
    assert many.shape == (3, 1)
    assert many[2].tolist() == ["a"]  # all the others are in the history
    assert many[0, 0] == ids[0]
    assert model.recommend(["a", "b"], k=2, exclude=[ids[0]])[0][0] == ids[1]
    assert set(model.recommend(["a"], k=5, repeats=True)[0]) == set("abcde")


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_saved_and_loaded_it_is_the_same_model(name, options, tmp_path):
    model = fitted(name, options)
    model.save(tmp_path / "m.npz")
    for loader in (Recommender, type(model)):
        again = loader.load(tmp_path / "m.npz")
        assert type(again) is type(model)
        asked = [np.array([1, 2]), np.array([3])], np.array([2, 0])
        np.testing.assert_array_equal(again.score(*asked), model.score(*asked))
        np.testing.assert_array_equal(again.recommend(["a"], 3)[0], model.recommend(["a"], 3)[0])
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "m.npz").read_bytes()


def test_a_run_begun_by_an_older_version_goes_on(tmp_path):
    """A checkpoint whose identity lacks the options that came since, and has others unresolved: the same bits."""
    import json

    def stop(history):
        raise KeyboardInterrupt

    path, split = tmp_path / "c.npz", leave_one_out(TINY.generate())
    with pytest.raises(KeyboardInterrupt):
        SASRec(**SMALL).fit(split, progress=False, checkpoint=path, on_epoch=stop)
    with np.load(path) as archive:
        arrays = dict(archive)
    head = json.loads(str(arrays["tinyattn"]))
    old = head["meta"]["identity"]["model"]
    for name in ("mixer", "mechanism", "position", "norm", "feed_forward", "eps"):
        del old[name]
    old |= {"emb_scale": None, "qkv_bias": None}
    arrays["tinyattn"] = np.array(json.dumps({"kind": head["kind"], "meta": head["meta"]}))
    np.savez(path, **arrays)
    with pytest.raises(FileError, match="belongs to another configuration"):
        SASRec(**SMALL, mechanism="linear").fit(split, progress=False, checkpoint=path)
    resumed = SASRec(**SMALL).fit(split, progress=False, checkpoint=path)
    whole = SASRec(**SMALL).fit(split, progress=False)
    np.testing.assert_array_equal(resumed.parameters["items"], whole.parameters["items"])


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_run_of_any_mixer_goes_on_where_it_was_interrupted(mixer, tmp_path):
    def stop(history):
        raise KeyboardInterrupt

    path, split = str(tmp_path / "c.npz"), leave_one_out(TINY.generate())
    with pytest.raises(KeyboardInterrupt):
        SASRec(**SMALL, mixer=mixer).fit(split, progress=False, checkpoint=path, on_epoch=stop)
    resumed = SASRec(**SMALL, mixer=mixer).fit(split, progress=False, checkpoint=path)
    whole = SASRec(**SMALL, mixer=mixer).fit(split, progress=False)
    for (name, mine), (_, theirs) in zip(*(leaves(m.parameters) for m in (resumed, whole)), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_a_file_of_another_kind_or_with_parts_missing_is_refused(tmp_path):
    model = fitted("sasrec", {})
    model.save(tmp_path / "m.npz")
    with pytest.raises(FileError, match="is of model sasrec, expected markov"):
        Markov.load(tmp_path / "m.npz")
    with pytest.raises(TypeError, match="load got worker, expected device or workers"):
        Recommender.load(tmp_path / "m.npz", worker=2)
    for asked, message in ((["zz"], "unknown item id zz"), (["a"], "unknown user id 9")):
        with pytest.raises(ValueError, match=message):
            Recommender.load(tmp_path / "m.npz").recommend(asked, 1, users=[9])
    meta, arrays = read_arrays(tmp_path / "m.npz", "model")
    arrays = dict(arrays)
    damages = {
        "positions is missing": {n: a for n, a in arrays.items() if n != "parameters.positions"},
        "expected .* float32": arrays | {"parameters.positions": arrays["parameters.positions"][:2]},
        "finite": arrays | {"parameters.positions": np.full_like(arrays["parameters.positions"], np.nan)},
        "vocabulary.items": {n: a for n, a in arrays.items() if n != "vocabulary.items"},
        "vocabulary.items is no sorted": arrays | {"vocabulary.items": np.array(["a", "b", "c", "d", "d"])},
        "items is no sorted list": arrays | {"vocabulary.items": np.arange(5.0)},
        "is no sorted list": arrays | {"vocabulary.items": np.array([["a", "b", "c", "d", "e"]])},
        "no sorted list": arrays | {"vocabulary.users": np.zeros(0, int)},
        "parameters.more is not a parameter": arrays | {"parameters.more": np.zeros(3, np.float32)},
    }
    for message, damaged in damages.items():
        write_arrays(tmp_path / "d.npz", "model", meta, damaged)
        with pytest.raises(FileError, match=message):
            Recommender.load(tmp_path / "d.npz")
    write_arrays(tmp_path / "d.npz", "model", meta | {"options": {"dims": 3}}, arrays)
    with pytest.raises(FileError, match="dims"):
        Recommender.load(tmp_path / "d.npz")
    for large in ({"dim": 100_000}, {"maxlen": 1_000_000}):          # megabytes, of a file of a few thousand numbers
        write_arrays(tmp_path / "d.npz", "model", meta | {"options": meta["options"] | large}, arrays)
        with pytest.raises(FileError, match="its options need more parameters than it has"):
            Recommender.load(tmp_path / "d.npz")


@pytest.mark.parametrize("name", [name for name, cls in MODELS.items() if issubclass(cls, Recommender)])
def test_an_empty_history_gets_the_items_by_popularity_and_unknown_ids_can_be_skipped(name, tmp_path):
    model = fitted(name, {})
    model.save(tmp_path / "m.npz")
    for one in (model, Recommender.load(tmp_path / "m.npz")):
        usual, read = one.recommend(["a"], k=2), one.recommend(["zz", "a", 17], k=2, unknown="skip")
        assert [x.tolist() for x in read] == [x.tolist() for x in usual]
        ids, scores = one.recommend([["a"], ["zz"], []], k=2, unknown="skip")
        assert ids[0].tolist() == usual[0].tolist()
        if not one.by_user:
            popular = Popularity().fit(RATED).recommend([], k=2)
            assert [x.tolist() for x in (ids[1], scores[1])] == [x.tolist() for x in popular]
            assert [x.tolist() for x in one.session().best(2)] == [x.tolist() for x in popular]
        assert ids[1].tolist() == ids[2].tolist()


def test_beside_an_empty_history_the_others_keep_their_users():
    model = Popularity().fit(SEQUENCES)
    model.score = lambda histories, users=None: np.repeat(users[:, None], 6, axis=1)
    _, scores = model.recommend([[], ["a"], [], ["b"]], 1, users=[1, 2, 3, None])
    assert scores[[1, 3], 0].tolist() == [2, 0]


def test_a_model_without_counts_refuses_an_empty_history():
    model = fitted("sasrec", {})
    model.item_counts = None
    for history in ([], [["a"], []]):
        with pytest.raises(ValueError, match="a history is empty, and this model, which was imported or is"):
            model.recommend(history, k=2)


def test_what_recommend_refuses():
    model = fitted("sasrec", {})
    for call, message in (
        (lambda: model.recommend(["a", "zz"]), "unknown item id zz"),
        (lambda: model.recommend(["a"], k=2, exclude=["yy"]), "unknown item id yy"),
        (lambda: model.recommend(["a"], unknown="drop"), "unknown is 'drop', expected one of refuse, skip"),
        (lambda: model.recommend(["a"], k=0), "k is 0, expected 1 to 5"),
        (lambda: model.recommend(["a"], k=6), "k is 6, expected 1 to 5"),
        (lambda: model.recommend(["a"], k=5), "only 4 items are left"),
        (lambda: model.recommend([["a"], ["a", "b"]], k=4), "only 3 items are left"),
        (lambda: SASRec().recommend(["a"]), "call fit first"),
        (lambda: model.recommend(5), "sequences is 5, expected a list"),
        (lambda: model.recommend(None), "sequences is None, expected a list"),
        (lambda: model.recommend("ab"), "sequences is 'ab', expected a list"),
        (lambda: model.recommend({"a", "b"}), "sequences is {.*}, expected a list"),
        (lambda: model.recommend({"a": 1}), "sequences is {.*}, expected a list"),
        (lambda: model.recommend(b"ab"), "sequences is b'ab', expected a list"),
        (lambda: model.recommend(["a"], k=2, exclude="bc"), "exclude is 'bc', expected several ids, as a list"),
        (lambda: model.recommend(["a"], k=2, only=b"bc"), "only is b'bc', expected several ids, as a list"),
        (lambda: model.recommend([["a"], 2]), "2 is no list of item ids"),
        (lambda: model.recommend(["a"], k=2, exclude=5), "5 is no list of item ids"),
        (lambda: model.recommend(["a"], k=2, only=5), "5 is no list of item ids"),
        (lambda: model.recommend(["a"], k=2, users=5), "users is 5, expected a list"),
        (lambda: model.recommend([["a"], ["b"]], k=2, users=[1]), "1 users for 2 sequences, expected one each"),
        (lambda: model.recommend(["a"], k=2, users=[1, 2]), "2 users for 1 sequences, expected one each"),
        (lambda: model.session(5), "history is 5, expected a list"),
        (lambda: model.similar("a", k=2.0), r"k is 2\.0, expected 1 to 4, the number of other items"),
        (lambda: model.similar("a", k=True), "k is True, expected 1 to 4"),
        (lambda: model.similar("a", k=5), "k is 5, expected 1 to 4, the number of other items"),
        (lambda: model.attention([]), "the history is empty: expected at least one item id"),
        (lambda: Popularity().fit([[1, 2]]).recommend([np.inf]), "unknown item id inf"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_recommend_takes_whatever_has_an_order():
    model = Popularity().fit(SEQUENCES)
    expected = model.recommend(["a", "b"], 2)
    for sequence in (("a", "b"), np.array(["a", "b"]), iter(["a", "b"])):
        np.testing.assert_array_equal(model.recommend(sequence, 2)[0], expected[0])


def sorted_whole(model, histories, k, exclude=(), repeats=False):
    """As recommendations were found before: every item of every row sorted, ties by number."""
    scores = model.score(histories).astype(np.float64)
    scores[:, [0, *exclude]] = -np.inf
    for row, history in zip(scores, histories, strict=True):
        row[[] if repeats else history] = -np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return best, np.take_along_axis(scores, best, axis=1)


@pytest.mark.parametrize("ties", [1, 3, 40])
def test_the_best_are_those_of_a_whole_sort_in_the_order_of_ties(rng, ties):
    """Scores of few values, so that ties straddle the k-th place: lower numbers first, as a stable sort has them."""
    sequences = [rng.permutation(60).tolist() for _ in range(3)]
    model = Popularity().fit(sequences)
    table = rng.integers(0, ties, (4, 61)) / np.float32(3)
    model.score = lambda histories, users=None: table[: len(histories)]
    histories = [rng.integers(1, 61, n) for n in (1, 5, 20, 7)]
    for k in (1, 2, 10, 39):
        for repeats in (False, True):
            expected = sorted_whole(model, histories, k, (4, 9), repeats)
            given = [(h - 1).tolist() for h in histories]
            ids, scores = model.recommend(given, k, exclude=[3, 8], repeats=repeats)
            np.testing.assert_array_equal(ids + 1, expected[0])
            np.testing.assert_array_equal(scores, expected[1])
            one = model.recommend(given[0], k, exclude=[3, 8], repeats=repeats)
            np.testing.assert_array_equal(one[0] + 1, expected[0][0])
            assert one[1].dtype == scores.dtype == np.float64


def test_recommend_refuses_nan(rng):
    model = Popularity().fit(SEQUENCES)
    model.score = lambda histories, users=None: np.array([[0, 3, 2, np.nan, 1, 0.5]])
    with pytest.raises(ValueError, match="scores are NaN"):
        model.recommend(["c"], 1)


@pytest.mark.host
def test_a_few_histories_start_no_thread_and_many_do(rng, monkeypatch):
    model = SASRec(**SMALL | {"workers": 2}).fit(leave_one_out(TINY.generate()), progress=False)
    started = []
    monkeypatch.setattr(neural, "Workers", lambda count: started.append(count) or Workers(count))
    histories = [rng.integers(1, 17, n) for n in rng.integers(1, 9, 20)]
    expected = model.score(histories)
    model.recommend(model.items.decode(histories[0]).tolist(), 3)
    assert started == []
    monkeypatch.setattr(neural, "SLICE_TOKENS", 5)
    np.testing.assert_allclose(model.score(histories), expected, atol=1e-5)
    assert started == [2]


def test_scores_do_not_depend_on_company_or_order(rng):
    model = SASRec(**SMALL).fit(leave_one_out(TINY.generate()), progress=False)
    histories = [rng.integers(1, 17, n) for n in (3, 9, 1, 5, 5)]
    together = model.score(histories)
    for i, history in enumerate(histories):
        np.testing.assert_allclose(model.score([history])[0, 1:], together[i, 1:], rtol=0, atol=1e-5)


@pytest.mark.host
def test_scores_have_the_same_bits_with_any_number_of_workers(rng, monkeypatch):
    model = SASRec(**SMALL).fit(leave_one_out(TINY.generate()), progress=False)
    histories = [rng.integers(1, 17, n) for n in rng.integers(1, 9, 200)]
    monkeypatch.setattr(neural, "SLICE_TOKENS", 30)  # many slices
    model.workers = 1
    alone = model.score(histories)
    model.workers = 3
    np.testing.assert_array_equal(model.score(histories), alone)


def test_no_histories_have_no_scores():
    model = SASRec(**SMALL).fit(SEQUENCES, progress=False)
    assert model.score([]).shape == (0, len(model.items) + 1)


def test_fit_learns_and_validates_on_a_split():
    split = leave_one_out(TINY.generate())
    model = SASRec(maxlen=6, dim=16, epochs=60, patience=0, lr=5e-3, dropout=0.1).fit(split, progress=False)
    assert all(0 <= row["valid"] <= 1 for row in model.history)
    mine, popularity = (m.evaluate(split, truth=TINY.next_item)["ndcg@10"] for m in (model, Popularity().fit(split)))
    assert mine > popularity


def test_the_test_items_have_no_say_in_training():
    """Other items to test on: the same parameters, the same validation scores, the same choice of epoch."""
    data = TINY.generate()
    models = []
    for change in (0, 1):
        flat = data.flat.copy()
        flat[data.offsets[1:] - 1] = (flat[data.offsets[1:] - 1] - 1 + change) % 16 + 1
        split = leave_one_out(replace(data, flat=flat))
        models.append(SASRec(**SMALL | {"epochs": 6}).fit(split, progress=False))
    assert [row["valid"] for row in models[0].history] == [row["valid"] for row in models[1].history]
    np.testing.assert_array_equal(models[0].parameters["items"], models[1].parameters["items"])


def test_validation_is_measured_on_the_validation_items():
    split = leave_one_out(TINY.generate())
    model = SASRec(**SMALL | {"epochs": 1}).fit(split, progress=False)
    assert model.history[0]["valid"] == model.evaluate(split, "valid")["ndcg@10"] != model.evaluate(split)["ndcg@10"]


def test_validation_on_a_fixed_sample_of_users():
    split = leave_one_out(TINY.generate())
    few = split.sample(9, seed=3)
    assert len(few.evaluated) == 9
    np.testing.assert_array_equal(few.evaluated, split.sample(9, seed=3).evaluated)
    assert np.any(few.evaluated != split.sample(9, seed=4).evaluated)
    assert few.data is split.data
    np.testing.assert_array_equal(few.valid[few.evaluated], split.valid[few.evaluated])
    options = SMALL | {"epochs": 1, "seed": 3}
    model, other = SASRec(**options, valid_users=9).fit(split, progress=False), SASRec(**options)
    of_few, of_all = (model.evaluate(some, "valid")["ndcg@10"] for some in (few, split))
    assert model.history[0]["valid"] == of_few != of_all
    assert model.identity() == other.identity() | {"valid_users": 9}
    with pytest.raises(ValueError, match="10,000 users were requested, but only 60 have an item to validate on"):
        SASRec(**SMALL, valid_users=10_000).fit(split, progress=False)


def test_user_embeddings_are_learned_used_and_follow_the_user():
    sequences = [["a", "b", "c", "d"], ["b", "c", "d", "e"], ["a"]]
    model = SASRec(**SMALL | {"epochs": 30, "lr": 0.05}, user_embedding=True).fit(sequences, progress=False)
    assert not model.parameters["users"][0].any()
    assert model.parameters["users"][1:3].all(axis=1).all()
    assert not model.parameters["users"][3].any()  # one item, nothing to learn from
    score = {user: model.recommend(["a", "b"], 2, users=[user])[1].tolist() for user in (1, 2, 3)}
    assert len({tuple(s) for s in score.values()}) == 3
    assert score[3] == model.recommend(["a", "b"], 2)[1].tolist()
    with pytest.raises(ValueError, match="unknown user id 9"):
        model.recommend(["a"], 1, users=[9])


@pytest.mark.parametrize("name", ["mf", "fpmc", "fossil"])
def test_who_asks_matters_where_something_was_learned_of_them(name):
    sequences = [["a", "b", "c", "d"], ["b", "c", "d", "e"], ["a"]]
    model = MODELS[name](**SMALL | {"epochs": 30, "lr": 0.05}).fit(sequences, progress=False)
    known, other, new, unknown = model.score([np.array([1, 2])] * 4, np.array([1, 2, 3, 0]))[:, 1:]
    assert not np.array_equal(known, other)
    assert not np.array_equal(known, unknown)
    np.testing.assert_array_equal(new, unknown)  # one item, nothing to learn from
    if name == "mf":
        np.testing.assert_array_equal(unknown, model.parameters["output"][1:, -1])  # the biases alone
    for least, most in ((0, 4), (-1, 3)):
        with pytest.raises(ValueError, match=f"user numbers {least} to {most}, expected 0 to 3"):
            model.score([np.array([1])] * 2, np.array([least, most]))


def test_only_losses_that_need_negatives_draw_them(monkeypatch):
    from tinyattn.data import Seen

    monkeypatch.setattr(Seen, "draw_unseen", lambda *_: pytest.fail("drawn"))
    SASRec(**SMALL, loss="ce").fit(SEQUENCES, progress=False)
    with pytest.raises(pytest.fail.Exception, match="drawn"):
        SASRec(**SMALL, loss="bce").fit(SEQUENCES, progress=False)


def test_negatives_from_the_batch_whatever_the_workers():
    """A slice lacks the batch's other rows; the items of theirs that its own need are there."""
    split = leave_one_out(TINY.generate())
    options = SMALL | {"epochs": 25, "batch_size": 20, "lr": 1e-2, "loss": "bpr-max", "n_negatives": 8, "in_batch": 0.5}
    models = [GRU4Rec(**options | {"workers": n}).fit(split, progress=False) for n in (1, 3)]
    np.testing.assert_array_equal(*(flatten(m.parameters, np.float32)[0] for m in models))
    assert models[0].evaluate(split)["ndcg@10"] > 1.3 * Popularity().fit(split).evaluate(split)["ndcg@10"]
    for Model in (GRU4Rec, BERT4Rec):  # whose batches are Cloze's
        with pytest.raises(ValueError, match="a batch of one user has no other users to take negatives from"):
            Model(loss="bpr-max", in_batch=1.0, batch_size=1).fit(SEQUENCES)


def test_fit_takes_what_people_have():
    """The same three histories as sequences, arrays and frames: the same model."""
    sequences = [[10, 20, 30], [20, 30], [30, 10]]
    rows = [(1, 10, 5), (3, 30, 1), (1, 20, 6), (2, 20, 2), (1, 30, 7), (2, 30, 3), (3, 10, 2)]
    shuffled, ordered = np.array(rows)[::-1], np.array([(u + 1, i) for u, s in enumerate(sequences) for i in s])
    user, item, time = shuffled.T
    frame = Frame(user_id=user, item_id=item, rating=time, timestamp=time)
    stamps = Frame(User=user.astype(object).astype(str).astype(object), movieId=item, time=time.astype("datetime64[s]"))
    floats = shuffled.astype(np.float64)
    expected = Markov().fit(sequences).score([np.array([1]), np.array([2, 3])])
    short = Interactions.from_columns(user, item, (10_000 * (time - 4)).astype(np.int16))  # differences overflow
    listed, objects = Interactions.from_sequences(sequences), shuffled.astype(object)
    for data in (ordered, shuffled, objects, floats, frame, stamps, short, listed):
        np.testing.assert_array_equal(Markov().fit(data).score([np.array([1]), np.array([2, 3])]), expected)


@pytest.mark.parametrize("kind", ["u1", "u4", "u8"])
def test_ids_without_a_sign_are_the_same_ids(kind, tmp_path):
    """A model of such ids could be saved and not loaded."""
    sequences = [[10, 20, 30], [20, 30], [30, 10]]
    Markov().fit([np.array(s, kind) for s in sequences]).save(tmp_path / "m.npz")
    model = Markov.load(tmp_path / "m.npz")
    assert model.items.ids.dtype == np.int64
    meta, arrays = read_arrays(tmp_path / "m.npz", "model")
    older = dict(arrays) | {"vocabulary.items": model.items.ids.astype(kind)}
    write_arrays(tmp_path / "m.npz", "model", meta, older)
    for answer in (model, Markov.load(tmp_path / "m.npz")):
        np.testing.assert_array_equal(answer.recommend([10], 2), Markov().fit(sequences).recommend([10], 2))
    rows = np.array([(u + 1, i) for u, s in enumerate(sequences) for i in s], kind)
    assert Interactions.of(rows).fingerprint() == Interactions.of(rows.astype(int)).fingerprint()


def test_times_in_memory_may_be_dates_as_in_a_file():
    """As text, as objects, which may have a time zone, or in NumPy's days."""
    user, item, seconds = [1, 1, 1], [30, 20, 10], [1701602257, 1701602256.5, 1701561600]
    texts = ["2023-12-03 11:17:37", "2023-12-03T11:17:36.5Z", "2023-12-03"]
    moments = [datetime.fromtimestamp(s, timezone(timedelta(hours=2))) for s in seconds]
    bare = [datetime(2023, 12, 3, 11, 17, 37), datetime(2023, 12, 3, 11, 17, 36, 500_000), date(2023, 12, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for time in (texts, np.array(texts, object), moments, bare):
            assert Interactions.of(Frame(user=user, item=item, time=time)).times.tolist() == seconds[::-1]
    rows = np.array([["a", "x", "2023-12-03"], ["a", "y", "2023-12-02"]])
    assert Interactions.of(rows).times.tolist() == [1701475200, 1701561600]
    stamps = Frame(user=user, item=item, time=np.array(["2023-12-03", "2023-12-02", "2023-12-01"], "M8[D]"))
    assert Interactions.of(stamps).times.tolist() == [1701388800, 1701475200, 1701561600]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([np.array([2**63], "u8"), [-1]], "item id 9223372036854775808 is not below 2.63"),
        (np.array([[2**64 - 1, 1]], "u8"), "user id 18446744073709551615 is not below 2.63"),
        (np.ones((3, 4)), "expected columns user, item and perhaps time"),
        (np.array([[1.5, 2], [1, 3]]), "user ids are float64"),
        (np.array([[1, 2, np.nan], [1, 3, 4]]), "time nan in row 0"),
        (Frame(item_id=np.arange(3)), "no user column among item_id: call it user_id"),
        (Frame(user=np.arange(3), item=np.array([1, None, 2], dtype=object)), "item ids are object"),
        ([1, 2, 3], "expected a list of sequences"),
        (None, "None is no data: expected a list of sequences"),
        (np.array(5), "array.5. is no data: expected a list of sequences"),
        (np.array([[16777217, 1], [16777216, 2]], "f4"), "user ids are float32"),
        (np.array([[2048, 1], [1, 2]], "f2"), "user ids are float16"),
        (np.ma.array([[1, 2], [1, 3]], mask=[[0, 0], [0, 1]]), "1 of 4 values are masked, expected none"),
        ([[1, 2], np.ma.array([1, 3], mask=[0, 1])], "1 of 2 values are masked"),
        (Frame(user=[1, 1], item=np.ma.array([2, 3], mask=[0, 1])), "1 of 2 values are masked"),
        (Frame(user=[1, 1, 2], item=[2, 3]), "columns of 3 users, 2 items: expected as many of each"),
        (Frame(user=[1, 1], item=[2, 3], time=[1, 2, 3]), "columns of 2 users, 2 items, 3 times"),
        (Frame(user=[1, 1], item=[[2, 3], [2, 3]]), "column item has shape .2, 2., expected one value a row"),
        (Frame(user=[1, 1], item=[2, 3], time=np.array([1, 2**63], "u8")), "time 9223372036854775808 is not below"),
        (Frame(user=[1, 1], item=[2, 3], time=["2023-12-03", "soon"]), "row 1: time 'soon' is not a date, as those"),
        (Frame(user=[1, 1], item=[2, 3], time=[date(2023, 12, 3), "soon"]), "time '2023-12-03' in row 0 is no number"),
        (Frame(user=[1, 1], item=[2, 3], time=[1j, 2]), "times are complex128, expected numbers or dates"),
        (np.array([["a", "x", "soon"]]), "row 0: time 'soon' is not a finite number, nor a date such as"),
        (np.zeros((0, 2), int), "no interactions: expected at least one row"),
    ],
    ids=range(24),
)
def test_fit_says_what_it_expected(data, message):
    with pytest.raises(ValueError, match=message):
        Popularity().fit(data)


def test_attention_is_of_the_newest_items():
    model = SASRec(**SMALL).fit(SEQUENCES, progress=False)
    ids, weights = model.attention(["a", "b", "c", "d", "e", "a", "b", "c"])
    assert ids.tolist() == ["c", "d", "e", "a", "b", "c"]
    np.testing.assert_array_equal(weights, model.attention(["c", "d", "e", "a", "b", "c"])[1])


def test_attention_is_a_picture_waiting_to_be_drawn():
    model = SASRec(**SMALL, heads=2).fit(SEQUENCES, progress=False)
    ids, weights = model.attention(["a", "b", "c"])
    assert ids.tolist() == ["a", "b", "c"]
    assert weights.shape == (2, 2, 3, 3)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    assert not np.triu(weights, 1).any()
    with pytest.raises(ValueError, match="unknown item id q"):
        model.attention(["q"])


def test_arguments_are_checked_when_the_object_is_made():
    for values, message in (
        ({"dim": 5, "heads": 2}, "not divisible"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"loss": "mse"}, "loss is 'mse', expected one of bce, bpr, ce"),
        ({"loss": "sampled-softmax", "n_negatives": 10**7}, "n_negatives is 10000000, expected 1 to 1000000"),
        ({"mechanism": "bigbird", "random_blocks": 10**6}, "random_blocks is 1000000, expected 0 to 100000"),
    ):
        with pytest.raises(ValueError, match=message):
            SASRec(**values)


def test_the_released_codes_form_brings_its_scale_and_biases():
    released, paper = (SASRec(block_form=form, **SMALL).fit(uneven(), progress=False) for form in ("sasrec", "pre"))
    assert released.network.emb_scale
    assert "b" in released.parameters["blocks"][0]["attention"]["query"]
    assert not paper.network.emb_scale
    assert "b" not in paper.parameters["blocks"][0]["attention"]["query"]
    assert not SASRec(block_form="sasrec", emb_scale=False).make_network(1, 0).emb_scale


def test_scores_that_overflow_are_left_to_whoever_ranks_them():
    """No warning on the way: a diverged model is refused where it is evaluated."""
    split = leave_one_out(uneven())
    model = SASRec(maxlen=6, dim=8, epochs=1, patience=0, workers=1).fit(split, progress=False)
    model.parameters["items"][3:] = 3e38  # items that the history does not read
    assert not np.all(np.isfinite(model.score([np.array([1, 2])])[0, 1:]))
    model.parameters["items"][3:] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.evaluate(split)


@pytest.mark.parametrize(("name", "lr"), [("mf", 1e19), ("fpmc", 1e19)])
def test_what_a_divergence_keeps_answers_everybody(name, lr):
    data = TINY.generate()
    model = MODELS[name](dim=8, batch_size=20, workers=1, epochs=20, patience=0, lr=lr, warmup=60)
    with pytest.warns(DivergedWarning, match=r"the model of epoch \d+, the best so far, is kept"):
        model.fit(leave_one_out(data), progress=False)
    _, scores = model.recommend([model.items.decode(data.sequence(u)) for u in range(data.n_users)], k=3)
    assert np.all(np.isfinite(scores))


def test_an_epoch_whose_scores_overflow_is_no_good_one():
    """Its validation has a rank for everybody: all scores are infinite, and tied."""
    model = MODELS["fpmc"](dim=8, batch_size=50, workers=1, epochs=3, patience=0, lr=1e30, clip_norm=1)
    with pytest.raises(DivergedError, match=r"step 1 \(epoch 1\): validation score nan; a smaller learning rate"):
        model.fit(leave_one_out(TINY.generate()), progress=False)


@pytest.mark.parametrize("size", [1, 3e38])
def test_an_epoch_answers_where_whole_histories_have_finite_scores(size):
    """A position that only whole histories reach, which are longer than those of validation."""
    split = leave_one_out(Interactions.from_sequences([["a", "b", "c", "d"], ["b", "c", "a", "e"]]))
    model = SASRec(maxlen=4, dim=8, epochs=1, workers=1, blocks=1).fit(split, progress=False)
    model.parameters["positions"][0] = size
    before = model.score([split.data.sequence(0)[:-1]])
    assert np.all(np.isfinite(before[:, 1:]))
    assert model._is_finite(split.data) == (size == 1)
