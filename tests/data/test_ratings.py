"""Ratings and times: read where they are asked for, and kept beside their items."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.data.test_formats import FILES, written
from tests.models.worlds import drifting_ratings
from tinyattn.data import RATING_SPLITS, DataError, Interactions, read, split_ratings

# user 7 rates 30, 20, 10 in time; user 8 rates 10, 30
ROWS = [(7, 10, 1.5, 300), (8, 10, 5, 100), (7, 30, 3, 100), (7, 20, 2, 200), (8, 30, 4, 150)]
RATED = {
    "inter": "item_id:token\tuser_id:token\trating:float\ttimestamp:float\n"
    + "".join(f"{i}\t{u}\t{r}\t{t}\n" for u, i, r, t in ROWS),
    "movielens-1m": "".join(f"{u}::{i}::{r}::{t}\n" for u, i, r, t in ROWS),
    "movielens-100k": "".join(f"{u}\t{i}\t{r}\t{t}\n" for u, i, r, t in ROWS),
    "movielens-csv": "userId,movieId,rating,timestamp\n" + "".join(f"{u},{i},{r},{t}\n" for u, i, r, t in ROWS),
    "amazon-csv": "".join(f"{u},{i},{r},{t}\n" for u, i, r, t in ROWS),
    "amazon-json": "".join(
        json.dumps({"reviewerID": u, "asin": i, "overall": r, "unixReviewTime": t}) + "\n" for u, i, r, t in ROWS
    ),
}
OWN = {
    "user;item;-;rating;time": "".join(f"{u};{i};x;{r};{t}\n" for u, i, r, t in ROWS),
    "user=who,item=what,rating=liked,time=when": "when,who,what,liked\n"
    + "".join(f"{t},{u},{i},{r}\n" for u, i, r, t in ROWS),
}


def check(data):
    assert data.items.decode(data.flat).tolist() == [30, 20, 10, 10, 30]
    assert data.ratings.tolist() == [3, 2, 1.5, 5, 4]
    assert data.times.tolist() == [100, 200, 300, 100, 150]


@pytest.mark.parametrize("name", RATED)
def test_ratings_follow_their_items(tmp_path, name):
    path = written(tmp_path, RATED[name])
    check(read(path, ratings=True))
    assert read(path).ratings is None


@pytest.mark.parametrize("columns", OWN)
def test_columns_says_where_ratings_are(tmp_path, columns):
    check(read(written(tmp_path, OWN[columns]), columns=columns, ratings=True))


@pytest.mark.parametrize("name", ["pairs", "sequences", "triples", "gru4rec"])
def test_files_without_ratings_or_times_are_refused_with_the_remedy(tmp_path, name):
    lacking = "no column of ratings" + (" and none of times" if name in ("pairs", "sequences") else " is known")
    with pytest.raises(DataError, match=f"{lacking}.*--columns says which they are: user;item;rating;time"):
        read(written(tmp_path, FILES[name]), ratings=True)
    with pytest.raises(DataError, match="no column of times is known"):
        read(written(tmp_path, "user,item,rating\n1,2,3\n"), ratings=True)


@pytest.mark.parametrize("name", RATED)
def test_a_rating_that_is_no_number_is_named_with_its_line(tmp_path, name):
    bad = RATED[name].replace("1.5", '"good"' if name == "amazon-json" else "good")
    line = 2 if RATED[name].startswith(("item_id", "userId")) else 1
    with pytest.raises(DataError, match=f"line {line}: rating 'good' is not a finite number"):
        read(written(tmp_path, bad), ratings=True)
    assert len(read(written(tmp_path, bad))) == 5  # no other model looks at it


def test_a_review_without_a_rating_is_named_with_its_line(tmp_path):
    text = RATED["amazon-json"].splitlines()[0] + '\n{"reviewerID": 1, "asin": 2, "unixReviewTime": 3}\n'
    with pytest.raises(DataError, match="line 2: no rating in reviewerID, asin"):
        read(written(tmp_path, text), ratings=True)


def test_the_core_keeps_ratings_beside_their_items():
    rows = np.array([*ROWS, (9, 10, 9, 1)])
    core = Interactions.from_columns(*rows[:, :2].astype(int).T, rows[:, 3], ratings=rows[:, 2]).k_core(2)
    assert core.items.decode(core.flat).tolist() == [30, 10, 10, 30]
    assert core.ratings.tolist() == [3, 1.5, 5, 4]
    assert core.times.tolist() == [100, 300, 100, 150]


def test_other_ratings_are_other_data(tmp_path):
    texts = RATED["amazon-csv"], RATED["amazon-csv"].replace("1.5", "1"), RATED["amazon-csv"].replace("300", "301")
    paths = [written(tmp_path, text, f"{i}.csv") for i, text in enumerate(texts)]
    assert len({read(path, ratings=True).fingerprint() for path in paths}) == 3
    assert len({read(path).fingerprint() for path in paths}) == 1  # for whoever learns from sequences


@pytest.mark.parametrize("by", RATING_SPLITS)
def test_every_rating_is_in_one_part(by):
    data = drifting_ratings()
    split = split_ratings(data, by)
    parts = split.train, split.valid, split.test
    assert sum(len(part) for part in parts) == len(data)
    for number, (part, share) in enumerate(zip(parts, (0.8, 0.1, 0.1), strict=True)):
        assert abs(len(part) / len(data) - share) < 0.05
        owner = np.repeat(np.arange(data.n_users), part.lengths)
        rows = set(zip(owner, part.flat, part.times, part.ratings, strict=True))
        mine = split.part == number
        assert rows == set(
            zip(np.repeat(np.arange(data.n_users), data.lengths)[mine], data.flat[mine], data.times[mine],
                data.ratings[mine], strict=True)
        )  # fmt: skip
    before, after = split.train.times, split.test.times
    if by == "time":
        assert before.max() <= split.valid.times.min()
        assert split.valid.times.max() <= after.min()
    if by == "user":
        ends = [(split.train.times[a:b].max(), split.test.times[c:d].min()) for a, b, c, d in zip(
            split.train.offsets, split.train.offsets[1:], split.test.offsets, split.test.offsets[1:], strict=False
        )]  # fmt: skip
        assert all(a <= b for a, b in ends)
    if by == "random":
        assert np.array_equal(split.part, split_ratings(data, by).part)
        assert not np.array_equal(split.part, split_ratings(data, by, seed=1).part)


def test_splits_refuse_what_they_cannot_split():
    data = drifting_ratings()
    with pytest.raises(ValueError, match="split is 'month', expected one of user, time, random"):
        split_ratings(data, "month")
    few = Interactions.from_columns(np.arange(3), np.arange(3), np.arange(3), ratings=np.ones(3))
    for lacking in (("ratings", "times"), ("ratings",), ("times",)):
        with pytest.raises(ValueError, match=f"the data has no {' and no '.join(lacking)}, and this model"):
            split_ratings(replace(few, **dict.fromkeys(lacking)))
    with pytest.raises(ValueError, match="3 ratings are too few for a split into three parts with 20% to test on"):
        split_ratings(few, share=0.2)
