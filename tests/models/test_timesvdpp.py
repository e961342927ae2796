"""TimeSVD++: gradients, the formula entry by entry, planted drift, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from tests.devices import DEVICES, MISSING
from tests.helpers import Frame
from tests.models.worlds import drifting_ratings
from tinyattn.check import gradcheck_model
from tinyattn.data import Interactions, Rated, RatingSampler, leave_one_out, read, split_ratings
from tinyattn.files import FileError, read_arrays, write_arrays
from tinyattn.models import Popularity, Recommender, TimeSVDpp, TimeSVDppNetwork
from tinyattn.tree import add_to, flatten, leaves, tree_map

DATA = drifting_ratings()
SMALL = {"dim": 4, "bins": 3, "epochs": 2, "workers": 1, "batch_size": 200}
HOW = {"bins": 3, "beta": 0.4, "day": 86400.0}
FORMS = {
    "timesvd++": {},
    "svd++": {"time": False},
    "mf": {"time": False, "implicit": False},
    "mf with time": {"implicit": False},
    "biases": {"dim": 0, "time": False},
}


def make(form, dtype=np.float64):
    network = TimeSVDppNetwork(
        n_items=DATA.n_items, n_users=DATA.n_users, mean=3.1, **{"dim": 4, "bins": 3} | {"l2": 0.1} | FORMS[form]
    )
    rng = np.random.default_rng(1)
    p = tree_map(lambda a: 0.3 * rng.standard_normal(a.shape), network.init(rng))
    sampler = RatingSampler(DATA, Rated.of(DATA), 40, 0, HOW)
    return network, flatten(p, dtype)[1], sampler.batch(1)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_the_whole_model(form):
    network, p, batch = make(form)
    assert len(np.unique(batch.users)) < len(batch.users)  # some users rate twice, so that y is weighted
    report = gradcheck_model(network, p, batch)
    assert report, f"\n{report}"
    assert set(network.rows_read(batch)) == set(p)


@pytest.mark.parametrize("form", FORMS)
def test_a_prediction_is_the_formula(form):
    """In plain loops, with the pieces that the form has."""
    network, p, batch = make(form)
    predicted = network.forward(p, batch)[0]
    order = np.random.default_rng(0)  # any few rows
    for b in order.integers(0, len(batch.users), 8).tolist():
        u, i = int(batch.users[b]), int(batch.items[b])
        mine = slice(DATA.offsets[u - 1], DATA.offsets[u])
        rated = DATA.flat[mine]
        (at,) = np.flatnonzero((rated == i) & np.isclose(DATA.ratings[mine], batch.ratings[b]))
        time = DATA.times[mine][at]
        away = (time - np.mean(DATA.times[mine])) / 86400
        dev = np.sign(away) * abs(away) ** 0.4
        period = min(int((time - DATA.times.min()) / (DATA.times.max() - DATA.times.min()) * 3), 2)
        expected = 3.1 + p["user_bias"][u, 0] + p["item_bias"][i, 0]
        if network.time:
            expected += p["user_bias_drift"][u, 0] * dev + p["item_bias_bins"][3 * i + period, 0]
        if network.dim:
            z = p["users"][u].copy()
            if network.time:
                z += dev * p["users_drift"][u]
            if network.implicit:
                z += sum(p["implicit"][j] for j in rated) / np.sqrt(len(rated))
            expected += p["items"][i] @ z
        np.testing.assert_allclose(predicted[b], expected, rtol=1e-6)


def test_the_loss_has_each_square_as_often_as_it_is_read():
    network, p, batch = make("svd++")
    factors = {n: network.l2 for n in ("items", "users")} | {n: network.l2_bias for n in ("user_bias", "item_bias")}
    ids = {"items": batch.items, "users": batch.users, "user_bias": batch.users, "item_bias": batch.items}
    total = np.sum((network.forward(p, batch)[0] - batch.ratings) ** 2)
    for name, weight in factors.items():
        total += weight * np.sum(p[name][ids[name]] ** 2)
    for u in batch.users.tolist():
        total += network.l2 * np.sum(p["implicit"][DATA.sequence(u - 1)] ** 2)
    np.testing.assert_allclose(network.loss(p, batch)[0], total / (2 * len(batch.users)), rtol=1e-6)


def test_slices_add_up_to_the_batch():
    network, p, batch = make("timesvd++")
    whole, parts = (tree_map(np.zeros_like, p) for _ in range(2))
    loss, cache = network.loss(p, batch)
    add_to(whole, network.loss_backward(p, 1.0, cache))
    slices = batch.slices(15)
    assert len(slices) == 3
    for part in slices:
        share = part.total / batch.total
        value, cache = network.loss(p, part)
        loss -= share * value
        add_to(parts, network.loss_backward(p, share, cache))
    assert abs(loss) < 1e-12
    for (name, a), (_, b) in zip(leaves(whole), leaves(parts), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14, err_msg=name)


@pytest.mark.slow(seconds=2)
def test_planted_drift_is_found():
    """Ratings of tastes and drift: each part of the model that the data has takes some of the error away."""
    split = split_ratings(DATA, by="random")
    settings = {"dim": 2, "bins": 1, "l2": 0.04, "l2_time": 1.0, "epochs": 45, "lr": 0.03, "batch_size": 100}
    models = {n: TimeSVDpp(**settings | FORMS[n], patience=0, workers=1) for n in ("biases", "svd++", "timesvd++")}
    found = {name: model.fit(split, progress=False).evaluate(split)["rmse"] for name, model in models.items()}
    assert found["timesvd++"] < 0.9 * found["svd++"]
    assert found["svd++"] < 0.9 * found["biases"]


def test_saved_and_loaded_it_predicts_the_same(tmp_path):
    model = TimeSVDpp(**SMALL).fit(DATA, progress=False)
    model.save(tmp_path / "m.npz")
    again = Recommender.load(tmp_path / "m.npz", workers=2)
    asked = [1, 2, 60], [3, 4, 5], [0, 86400 * 50, 1e9]
    np.testing.assert_array_equal(again.predict(*asked), model.predict(*asked))
    meta, arrays = read_arrays(tmp_path / "m.npz", "model")
    for name in ("rated.means", "parameters.items"):
        write_arrays(tmp_path / "d.npz", "model", meta, {n: a for n, a in arrays.items() if n != name})
        with pytest.raises(FileError, match="not a whole timesvdpp model"):
            Recommender.load(tmp_path / "d.npz")


def test_predictions_are_on_the_scale_and_do_not_depend_on_company():
    model = TimeSVDpp(**SMALL | {"epochs": 10, "lr": 0.05}).fit(DATA, progress=False)
    rows = np.random.default_rng(0).permutation(600)
    users, items, times = rows % 60 + 1, rows % 30 + 1, rows * 1e5
    together = model.predict(users, items, times)
    assert DATA.ratings.min() <= together.min() < together.max() <= DATA.ratings.max()
    for row in (0, 7, 599):
        alone = model.predict(users[row : row + 1], items[row : row + 1], times[row : row + 1])
        np.testing.assert_allclose(alone, together[row], rtol=1e-5)


def test_it_recommends_by_the_rating_at_the_newest_time():
    model = TimeSVDpp(**SMALL | {"epochs": 5}).fit(DATA, progress=False)
    newest = DATA.times.max()
    history = DATA.sequence(0)
    scores = model.score([history], np.array([1]))[0]
    assert scores[0] == -np.inf
    inside = (scores > DATA.ratings.min()) & (scores < DATA.ratings.max())
    items = np.flatnonzero(inside)
    np.testing.assert_allclose(scores[items], model.predict([1] * len(items), items, [newest] * len(items)), rtol=1e-5)
    ids, _ = model.recommend(DATA.items.decode(history), k=3, users=None)
    assert not set(ids.tolist()) & set(history.tolist())
    strangers = model.score([np.array([1, 2]), np.array([3])])  # of an unknown user, the history says something
    assert not np.allclose(strangers[0, 1:], strangers[1, 1:])


def test_the_test_ratings_have_no_say_in_training():
    split = split_ratings(DATA, by="time")
    other = replace(split, data=replace(DATA, ratings=np.where(split.part == 2, 1.0, DATA.ratings)))
    models = [TimeSVDpp(**SMALL).fit(s, progress=False) for s in (split, other)]
    for (_, a), (_, b) in zip(*(leaves(m.parameters) for m in models), strict=True):
        np.testing.assert_array_equal(a, b)
    assert models[0].history[-1]["valid"] == -models[0].evaluate(split, "valid")["rmse"]


def test_users_that_training_did_not_see_get_the_items_part():
    """By time, some users have come later; in other data they may be anybody."""
    early = DATA.times < np.quantile(DATA.times, 0.5)
    owner = np.repeat(DATA.users.ids, DATA.lengths)
    kept = early & (owner > 3)
    known = Interactions.from_columns(owner[kept], DATA.flat[kept], DATA.times[kept], ratings=DATA.ratings[kept])
    model = TimeSVDpp(**SMALL).fit(known, progress=False)
    split = split_ratings(DATA, by="time")
    assert known.n_items == DATA.n_items
    assert 0 < model.evaluate(split)["rmse"] < 5
    with pytest.raises(ValueError, match="unknown user id 2"):
        model.predict([2], [1], [0])


@pytest.mark.parametrize("where", [d for d in DEVICES if d != "cpu" and d not in MISSING])
def test_it_trains_and_predicts_on_a_device(where):
    here, there = (TimeSVDpp(**SMALL, device=d).fit(DATA, progress=False) for d in ("cpu", where))
    asked = [1, 2, 60], [3, 4, 5], [0, 86400 * 50, 1e9]
    np.testing.assert_allclose(there.predict(*asked), here.predict(*asked), rtol=1e-4)
    np.testing.assert_allclose(there.score([np.array([1])])[0, 1:], here.score([np.array([1])])[0, 1:], rtol=1e-4)


def test_what_it_refuses(tmp_path):
    columns = {"user": np.repeat([1, 2], 3), "item": np.arange(6) % 4, "timestamp": np.arange(6)}
    words = np.array(["good"] * 6)
    for data, message in (
        ([[1, 2, 3], [2, 3]], "no ratings and no times"),
        (Frame(columns), "the data has no ratings, and this model learns from ratings with times"),
        (Frame(columns | {"rating": words}), "numbers in columns rating and timestamp"),
        (Frame({n: c for n, c in columns.items() if n != "timestamp"} | {"rating": np.ones(6)}), "has no times"),
    ):
        with pytest.raises(ValueError, match=message):
            TimeSVDpp(**SMALL).fit(data, progress=False)
    with pytest.raises(ValueError, match="has no ratings"):
        TimeSVDpp(**SMALL).fit(leave_one_out(Interactions.of(Frame(columns))), progress=False)
    rated = Frame(columns | {"rating": np.arange(6.0)})
    with pytest.raises(ValueError, match=r"day is 1e-300, and the times span 5: expected at most 1e.09 days"):
        TimeSVDpp(**SMALL, day=1e-300).fit(rated, progress=False)
    with pytest.raises(ValueError, match=r"the largest rating is 5e.300, expected at most 1e.09"):
        TimeSVDpp(**SMALL).fit(Frame(columns | {"rating": np.arange(6) * -1e300}), progress=False)
    model = TimeSVDpp(**SMALL).fit(Frame(columns | {"rating": np.arange(6.0)}), progress=False)
    for asked, message in (
        (([9], [1], [0]), "unknown user id 9"),
        (([1], [9], [0]), "unknown item id 9"),
        (([1], [1], [np.nan]), "time nan is not a finite number"),
        (([1, 2], [1], [0]), "2 users, 1 items and 1 times"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(*asked)
    with pytest.raises(ValueError, match="call fit first"):
        TimeSVDpp().predict([1], [1], [0])
    for values, message in (({"dim": -1}, "dim is -1"), ({"bins": 0}, "bins is 0"), ({"beta": 0.0}, "beta is 0.0")):
        with pytest.raises(ValueError, match=message):
            TimeSVDpp(**values)
    path = tmp_path / "good.csv"
    path.write_text("".join(f"{u},{i},good,{t}\n" for u, i, t in ((1, 2, 3), (1, 3, 4), (2, 2, 5), (2, 3, 6))))
    Popularity().fit(read(path))  # ratings that are no numbers hinder nobody else
