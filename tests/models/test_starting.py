"""Training that starts from a trained model: whose rows are kept, what begins fresh, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn.data import Interactions, SeriesWorld, leave_one_out
from tinyattn.evaluation import full_ranking
from tinyattn.files import FileError, read_arrays, write_arrays, write_json
from tinyattn.models import MODELS, GRU4Rec, NeuralRecommender, RunFolder, SASRec
from tinyattn.models.starting import carry_over, known_ids, lost_moments
from tinyattn.training import Moments
from tinyattn.tree import flatten, leaves, tree_map, views

NAMES = [name for name, kind in MODELS.items() if issubclass(kind, NeuralRecommender)]
OLD = Interactions.of([list("bcd"), list("dfb"), list("cbfd")])
NEW = Interactions.of([list("abcd"), list("dfeb"), list("cbf")])
SMALL = {"dim": 8, "epochs": 2, "seed": 1, "loss": "ce"}
GROWN = Interactions.of([*(list("bcdf") for _ in range(9)), *(list("fdcb") for _ in range(9))])


def numbers(tree, start):
    """The same tree, of different numbers everywhere."""
    vector, _ = flatten(tree, np.float64)
    return views(np.arange(start, start + vector.size, dtype=np.float32), tree)


def learned(name):
    model = MODELS[name](dim=8, seed=1)
    model.items, model.users, model.network = OLD.items, OLD.users, model.make_network(OLD.n_items, OLD.n_users)
    p = model.network.init(np.random.default_rng(0))
    model.parameters, model.moments = numbers(p, 1), (numbers(p, 1001), numbers(p, 2001))
    return model


def fresh(model):
    """A learner of the new data: parameters that are -1, moments that are 0."""
    p = model.make_network(NEW.n_items, NEW.n_users).init(np.random.default_rng(0))
    vector, p = flatten(tree_map(lambda a: np.full(a.shape, -1.0), p), np.float32)
    return SimpleNamespace(p=p, moments=Moments(np.zeros_like(vector), np.zeros_like(vector)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moments", [True, False])
def test_known_ids_keep_their_rows_and_moments_and_new_ones_begin_fresh(name, moments):
    old = learned(name)
    if not moments:
        old.moments = None
    learner = fresh(old)
    carry_over(old, NEW.items, NEW.users, learner, "adam")
    trees = [(learner.p, old.parameters, -1.0)]
    if moments:
        trees += [(views(x, learner.p), kept, 0.0) for x, kept in zip(learner.moments, old.moments, strict=True)]
    else:
        assert not np.any(learner.moments)
    for tree, kept, unset in trees:
        was = dict(leaves(kept))
        for leaf_name, leaf in leaves(tree):
            rows = was[leaf_name].shape[:1]
            if leaf.shape == was[leaf_name].shape and rows != (OLD.n_users + 1,):
                np.testing.assert_array_equal(leaf, was[leaf_name])
                continue
            now_ids, old_ids = (NEW.users, OLD.users) if rows == (OLD.n_users + 1,) else (NEW.items, OLD.items)
            np.testing.assert_array_equal(leaf[0], was[leaf_name][0])                     # padding's
            for i, one in enumerate(now_ids.ids.tolist(), start=1):
                where = old_ids.ids.tolist()
                expected = was[leaf_name][1 + where.index(one)] if one in where else np.full(leaf.shape[1:], unset)
                np.testing.assert_array_equal(leaf[i], expected)


def test_the_number_of_known_ids_counts_users_only_where_they_have_rows():
    assert known_ids(learned("sasrec"), NEW.items, NEW.users) == (4, 0)
    assert known_ids(learned("mf"), NEW.items, NEW.users) == (4, 3)
    assert known_ids(learned("fossil"), OLD.items, NEW.users) == (4, 3)


def test_more_epochs_begin_where_the_first_ended():
    split = leave_one_out(SeriesWorld(users=40, series=6, episodes=5, most_open=2, shortest=5, longest=9).generate())
    old = SASRec(**SMALL | {"epochs": 6}, maxlen=6, lr=0.02).fit(split, progress=False)
    more, anew = (SASRec(**SMALL, maxlen=6, lr=0.02).fit(split, start=start, progress=False) for start in (old, None))
    last, first, fresh = old.history[-1]["loss"], more.history[0]["loss"], anew.history[0]["loss"]
    assert abs(first - last) < 0.2 < fresh - last
    assert all(np.any(leaf) for _, leaf in leaves(more.moments[1]))
    assert more.history[0]["steps"] == anew.history[0]["steps"]


def test_a_checkpoint_of_another_start_is_refused(tmp_path):
    old = SASRec(**SMALL, maxlen=6).fit(GROWN, progress=False)
    other = SASRec(**SMALL | {"seed": 2}, maxlen=6).fit(GROWN, progress=False)
    path = tmp_path / "c.npz"

    def stop(history):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SASRec(**SMALL, maxlen=6).fit(GROWN, start=old, checkpoint=path, on_epoch=stop, progress=False)
    assert path.exists()
    for start in (other, None):
        with pytest.raises(FileError, match="belongs to another configuration or other data"):
            SASRec(**SMALL, maxlen=6).fit(GROWN, start=start, checkpoint=path, progress=False)
    resumed = SASRec(**SMALL, maxlen=6).fit(GROWN, start=old, checkpoint=path, progress=False)
    whole = SASRec(**SMALL, maxlen=6).fit(GROWN, start=old, progress=False)
    for (_, x), (_, y) in zip(leaves(resumed.parameters), leaves(whole.parameters), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_start_that_does_not_fit_is_refused():
    old = SASRec(**SMALL, maxlen=6, dropout=0.1).fit(GROWN, progress=False)
    SASRec(**SMALL, maxlen=6, dropout=0.3, lr=0.1, label_smoothing=0.1).fit(GROWN, start=old, progress=False)
    for start, model, says in (
        (old, GRU4Rec(dim=8), "expected a GRU4Rec that has learned"),
        ("run", SASRec(), "start is 'run', expected a SASRec that has learned"),
        (SASRec(), SASRec(), "fit"),
        (old, SASRec(dim=16, maxlen=6), "dim is 16, expected 8, as in the model that this one starts from"),
        (old, SASRec(dim=8, maxlen=6, heads=2), "heads is 2, expected 1"),
        (old, SASRec(dim=8), "maxlen is 50, expected 6"),
    ):
        with pytest.raises(ValueError, match=says):
            model.fit(GROWN, start=start, progress=False)
    with pytest.raises(ValueError, match="knows none of the 3 items, such as 1: its ids are like b"):
        SASRec(**SMALL, maxlen=6).fit([[1, 2, 3], [3, 2, 1]], start=old, progress=False)


def test_another_optimizer_begins_afresh():
    """With Muon's moments, Adam's first step would be a thousand times as long."""
    old = SASRec(**SMALL, maxlen=6, optimizer="muon").fit(GROWN, progress=False)
    new = SASRec(**SMALL | {"epochs": 1}, maxlen=6).fit(GROWN, start=old, progress=False)
    was = dict(leaves(old.parameters))
    assert max(np.max(np.abs(x - was[name])) for name, x in leaves(new.parameters)) < 10 * new.lr
    assert lost_moments(old, "muon") == ""


def test_damaged_moments_are_refused_by_name(tmp_path):
    run = RunFolder(tmp_path)
    model = SASRec(**SMALL, maxlen=6).fit(GROWN, progress=False)
    run.write_results(model, {})
    config = {"model": "sasrec", "parameters": model.identity(), "data": {}}
    write_json(tmp_path / "config.json", config)
    assert run.open_to_continue(SASRec).moments is not None
    _, arrays = read_arrays(run.moments, "moments")
    arrays = dict(arrays.items())
    damages = {
        "'v.items' is missing": {name: a for name, a in arrays.items() if name != "v.items"},
        "a mean of squares is negative": arrays | {"v.items": -1 - arrays["v.items"]},
        "an array w, which no": arrays | {"w": np.zeros(3)},
        "finite float32": arrays | {"m.items": np.full_like(arrays["m.items"], np.nan)},
    }
    for says, damaged in damages.items():
        write_arrays(run.moments, "moments", {}, damaged)
        with pytest.raises(FileError, match=f"{says}.*: remove it, and Adam begins afresh"):
            run.open_to_continue(SASRec)


@pytest.mark.slow(10)
@pytest.mark.parametrize("seed", [0, 1])
def test_on_a_world_that_grows_a_start_ranks_better_than_as_many_epochs_anew(seed):
    """The first half of the users and two thirds of the series are there first."""
    split = leave_one_out(SeriesWorld(users=600, series=30, seed=seed).generate())
    whole = [split.data.items.decode(split.data.sequence(u)).tolist() for u in range(split.data.n_users)]
    first = set(split.data.items.ids[: 2 * split.data.n_items // 3].tolist())
    older = [[item for item in history if item in first] for history in whole[:300]]
    older = Interactions.of([history for history in older if len(history) > 2])
    how = {"dim": 32, "maxlen": 20, "lr": 3e-3, "patience": 0, "seed": seed, "dropout": 0.2}
    old = SASRec(**how, epochs=60).fit(leave_one_out(older), progress=False)
    started, anew = (SASRec(**how, epochs=20).fit(split, start=start, progress=False) for start in (old, None))
    started, anew = (full_ranking(model, split, "test")["ndcg@10"] for model in (started, anew))
    assert started > anew + 0.03
