"""A model that reads times: what it sees of them, where they come from, and what happens where there are none.

Gradients, padding, scoring and slices are those of every position scheme (test_seams.py).
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import noisy
from tests.models.worlds import uneven
from tinyattn import cli
from tinyattn.data import Interactions, Sampler, TimedHistory, as_times, by_time, leave_one_out, pad
from tinyattn.evaluation.beyond import best_items
from tinyattn.export import onnx_graph
from tinyattn.files import FileError
from tinyattn.models import RunFolder, SASRec, SASRecNetwork, explain
from tinyattn.random import Stream, generator
from tinyattn.show.views import visualise
from tinyattn.tree import flatten

OPTIONS = {"position": "timed", "block_form": "hstu", "mechanism": "pointwise", "maxlen": 6, "dim": 8, "buckets": 12,
           "furthest": 20}  # fmt: skip
RNG = np.random.default_rng(0)
ITEMS, SECONDS = np.array([3, 1, 4, 5, 9, 2]), np.array([0.0, 5.0, 5.0, 900.0, 1e5, 4e6])
N = 500
DATA = Interactions.from_columns(
    RNG.integers(1, 40, N), RNG.integers(1, 20, N), 1_600_000_000 + RNG.integers(0, 10**7, N)
)
SPLIT = leave_one_out(DATA)


def make():
    network = SASRecNetwork(n_items=12, eps=1e-3, dropout=0.0, **OPTIONS)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    return network, flatten(noisy(p, rng), np.float64)[1]


def states(seconds):
    network, p = make()
    return network.forward(p, pad([TimedHistory(ITEMS, seconds)], 6))[0][0]


def test_the_time_of_a_later_item_moves_no_earlier_state_by_a_bit():
    """The time of the next item would tell when it comes: a position knows the time of its own item, and earlier."""
    h = states(SECONDS)
    for t in range(1, 6):
        later = SECONDS.copy()
        later[t:] = 50 * later[t:] + 3600
        moved = np.abs(states(later) - h).max(axis=1)
        assert not moved[:t].any()
        assert moved[t] > 1e-6


def test_only_differences_of_times_count():
    np.testing.assert_array_equal(states(SECONDS + 2**20), states(SECONDS))


def test_a_part_of_a_history_has_its_times():
    whole = TimedHistory(np.arange(1, 10), np.arange(9.0) ** 2)
    assert pad([whole, whole[2:5]], 6).times.tolist() == [[9, 16, 25, 36, 49, 64], [4, 9, 16, 0, 0, 0]]


@pytest.fixture(scope="module")
def model():
    return SASRec(epochs=1, patience=0, **OPTIONS).fit(SPLIT, progress=False)


def test_times_reach_training_validation_evaluation_and_lists(model):
    """What is scored is each user's history with its times; others give other numbers everywhere."""
    later = replace(DATA, times=DATA.times + 86_400 * np.arange(N))
    assert model.evaluate(SPLIT)["mrr"] != model.evaluate(leave_one_out(later))["mrr"]
    other = SASRec(epochs=1, patience=0, **OPTIONS).fit(leave_one_out(later), progress=False)
    assert other.history[0]["loss"] != model.history[0]["loss"]
    users = SPLIT.evaluated[:5]
    timed = [DATA.timed(u, -1) for u in users.tolist()]
    scores = model.score(timed, users + 1)
    np.testing.assert_array_equal(scores, model.lazy_scores(timed, users + 1).whole())
    ids, _ = model.recommend(
        [DATA.items.decode(h.items) for h in timed], k=3, times=[h.seconds for h in timed], repeats=True
    )
    keeping = SPLIT.measured(repeats="keep")
    np.testing.assert_array_equal(best_items(model.score, keeping, 3)[:5], [DATA.items.numbers(row) for row in ids])


def test_ids_that_the_model_does_not_know_lose_their_times_too(model):
    known = model.recommend([3, 5], k=3, times=[10, 9_000])
    skipped = model.recommend([3, 999, 5], k=3, times=[10, 70, 9_000], unknown="skip")
    for one, other in zip(known, skipped, strict=True):
        np.testing.assert_array_equal(one, other)
    dates = model.recommend([3, 5], k=3, times=["2020-01-01 00:00:10", "2020-01-01 02:30:00"])
    np.testing.assert_array_equal(dates[0], known[0])


def test_a_checkpoint_is_not_resumed_with_other_times(tmp_path):
    def stop(history):
        raise KeyboardInterrupt

    later = replace(DATA, times=DATA.times + DATA.times // 2)
    how = {"progress": False, "checkpoint": tmp_path / "c.npz"}
    with pytest.raises(KeyboardInterrupt):
        SASRec(epochs=2, **OPTIONS).fit(SPLIT, on_epoch=stop, **how)
    with pytest.raises(FileError, match="belongs to another configuration or other data"):
        SASRec(epochs=2, **OPTIONS).fit(leave_one_out(later), **how)


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (None, "position timed reads the times of a history's items, and there are none: pass times, .* position t5"),
        ([9, 5], "times of a history run backwards: time 5 follows 9; expected the oldest item first"),
        ([9], "1 times for 2 items, expected one each"),
        ([9, np.nan], "nan in row 1 is not a finite number"),
    ],
)
def test_times_that_are_missing_or_run_backwards_are_refused(model, times, says):
    with pytest.raises(ValueError, match=says):
        model.recommend([3, 5], k=2, times=times)


def test_data_without_times_or_that_run_backwards_are_refused_before_training():
    with pytest.raises(ValueError, match=r"the model reads times, and these interactions have none: .* --position t5"):
        SASRec(**OPTIONS).fit(uneven(), progress=False)
    with pytest.raises(ValueError, match="times of a history run backwards"):
        Sampler(replace(DATA, times=DATA.times[::-1].copy()), 6, 4, 0, False, timed=True)
    with pytest.raises(ValueError, match="padding is blank, which has no times, and position timed reads times"):
        SASRec(padding="blank", **OPTIONS)


def test_other_models_ignore_times_and_a_graph_of_ids_is_refused(model):
    plain = SASRec(epochs=1, maxlen=6, dim=8, patience=0).fit(SPLIT, progress=False)
    np.testing.assert_array_equal(plain.recommend([3, 5], k=2, times=[9, 5])[0], plain.recommend([3, 5], k=2)[0])
    with pytest.raises(ValueError, match="the model reads times, and the inputs of an ONNX graph are ids alone"):
        onnx_graph(model)
    with pytest.raises(ValueError, match=r"the model reads times, and a session has none: use recommend\("):
        model.session([3])


def test_explanations_and_pictures_read_the_times(model):
    """Of a history with other times: other weights; an item is left out with its time."""
    ids, near, far = [3, 5, 7, 2], [10, 70, 500, 9_000], [10, 90_000, 900_000, 10**7]
    assert np.any(model.attention(ids, near)[1] != model.attention(ids, far)[1])
    explained = explain(model, ids, 9, times=near)
    (whole,) = model.score([TimedHistory(DATA.items.numbers(ids), np.array(near, dtype=float))])
    without = TimedHistory(DATA.items.numbers([3, 7, 2]), np.array([10.0, 500, 9_000]))
    at = DATA.items.numbers([9])[0]
    np.testing.assert_allclose(explained.effects["left out"][1], whole[at] - model.score([without])[0, at], atol=1e-6)
    assert list(explained.effects) == ["left out", "gradient", "attention"]
    assert explain(model, ids, times=near).item not in ids
    for ask in (explain, lambda model, ids: model.attention(ids), visualise):
        with pytest.raises(ValueError, match="position timed reads the times"):
            ask(model, ids)
    pages = [visualise(model, ids, times=times, padding=2).html() for times in (near, far)]
    assert pages[0] != pages[1]


def test_a_unit_that_shows_is_taken_off():
    milli = replace(DATA, times=DATA.times * 1000)
    np.testing.assert_allclose(milli.seconds, DATA.seconds)
    assert by_time(DATA, 0.8).train.times is not None


MS = 1_600_000_000_000


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ([0, MS], "time 1600000000000 is a date in seconds / 1000, and 0 is none: expected one unit; --since and"),
        ([MS, 1000 * MS], "time 1600000000000 is a date in seconds / 1000, and 1600000000000000 is none"),
        ([-1e308, 1e308], r"time -1e\+308 is beyond 2\^63 and no time"),
        (5, "times is 5, expected a list"),
        ({2, 1}, "times is {1, 2}, expected a list"),
        ([[1, 2], [3, 4]], r"times are \[\[1, 2\], \[3, 4\]\], expected one for each item of one sequence"),
    ],
)
def test_times_of_several_units_and_other_things_are_refused(model, times, says):
    """Of the first two, a part alone would have a unit, and be divided by it."""
    with pytest.raises(ValueError, match=says):
        model.recommend([3, 5], k=2, times=times)
    if np.ndim(times) == 1:
        with pytest.raises(ValueError, match=says):
            _ = Interactions.from_columns(*np.array([[1, 1], [3, 5]]), np.array(times)).seconds


def test_dates_of_any_resolution_are_the_same_times(model):
    days = np.array(["2020-01-01", "2020-01-03"], "M8[D]")
    ways = days.astype(str), days, days.astype("M8[ns]")
    by_text, *others = (model.recommend([3, 5], 2, times=when)[1] for when in ways)
    assert all(np.array_equal(by_text, other) for other in others)
    old = np.array(["1970-01-01", "1970-01-03"], "M8[ns]")               # no unit shows in the numbers
    assert as_times(old).tolist() == as_times(old - old[0]).tolist() == [0, 2 * 86_400]


def test_the_commands_pass_times_on(tmp_path, capsys):
    path, run = tmp_path / "data.csv", tmp_path / "run"
    rows = zip(DATA.users.ids[DATA.owner], DATA.items.decode(DATA.flat), DATA.times, strict=True)
    path.write_text("user_id,item_id,timestamp\n" + "".join(f"{u},{i},{t}\n" for u, i, t in rows))
    small = ["--maxlen", "6", "--dim", "8", "--epochs", "1", "--buckets", "12", "--furthest", "20", "--workers", "1"]
    assert not cli.main(["train", str(path), "--preset", "hstu-ml1m", *small, "--out", str(run)])
    assert not cli.main(["evaluate", str(run)])
    assert not cli.main(["recommend", str(run), "--user", "5", "--k", "3"])
    one = capsys.readouterr().out
    assert not cli.main(["recommend", str(run), "--users", "all", "--out", str(tmp_path / "all.csv"), "--k", "3"])
    best = [line.split(",")[2] for line in (tmp_path / "all.csv").read_text().splitlines() if line.startswith("5,")]
    assert all(f" {item} " in one for item in best)
    again = ["train", str(path), "--preset", "hstu-ml1m", *small, "--seed", "1", "--out", str(tmp_path / "again")]
    assert not cli.main(again)
    compare = ["compare", str(run), str(tmp_path / "again")]
    assert not cli.main([*compare, "--user", "5", "-k", "3"])
    capsys.readouterr()
    assert cli.main([*compare, "--items", "3,5"])
    assert "--items has none: name a --user of data with times" in capsys.readouterr().err
    assert (run / "figures" / "attention.png").exists()
    places = tmp_path / "places"                                     # a flag that replaces a part drops its options
    how = [*small[:6], "--workers", "1", "--position", "none", "--loss", "bce"]
    assert not cli.main(["train", str(path), "--preset", "hstu-ml1m", *how, "--out", str(places)])
    assert not {"buckets", "n_negatives"} & RunFolder(places).config()["parameters"].keys()
    beside = ["show", str(places), "--html", str(tmp_path / "two.html"), "--against", str(run)]
    assert not cli.main([*beside, "--user", "5"])
    capsys.readouterr()
    assert cli.main([*beside, "--items", "3,5"])
    assert f"{run} reads the times of a history's items (position timed), and --items" in capsys.readouterr().err
    assert cli.main(["train", str(path), "--start", str(run), "--position", "t5", "--out", str(tmp_path / "started")])
    assert "position is t5, expected timed, as in the model that this one starts from" in capsys.readouterr().err
    for command, *how in (["explain"], ["show"], ["show", "--html", str(tmp_path / "page.html")]):
        assert not cli.main([command, str(run), "--user", "5", *how])
    lists = []
    for unknown in ("", "7,999,60\n"):                                # which loses its time, too
        path.write_text(f"user_id,item_id,timestamp\n7,3,1\n{unknown}7,5,9000\n")
        ask = ["recommend", str(run), str(path), "--users", "all", "--k", "3"]
        assert not cli.main([*ask, "--out", str(tmp_path / "some.csv")])
        capsys.readouterr()
        assert not cli.main(["recommend", str(run), str(path), "--user", "7", "--k", "3"])
        lists.append((capsys.readouterr().out, (tmp_path / "some.csv").read_text()))
    assert lists[0] == lists[1]
    capsys.readouterr()
    assert cli.main(["recommend", str(run), "--items", "3,5"])
    assert "--items has none: name a --user of data with times" in capsys.readouterr().err
    assert cli.main(["train", "--preset", "hstu-ml1m", *small, "--out", str(tmp_path / "other")])
    assert "the model reads times, and these interactions have none" in capsys.readouterr().err
