"""Parts of the users, against plain loops."""

import numpy as np
import pytest

from tinyattn.data import Interactions, leave_one_out
from tinyattn.evaluation import SEGMENTS, mean_interval, paired_difference
from tinyattn.evaluation.segments import PARTS


@pytest.fixture
def split(rng):
    sequences = [rng.integers(1, 30, rng.integers(1, 15)).tolist() for _ in range(200)]
    return leave_one_out(Interactions.of([*sequences, [1, 2, 99]]))


def expected(split):
    """(history length, occurrences of the target in training, times that the user had it) of each tested user."""
    trained = split.train.flat.tolist()
    for u in split.evaluated.tolist():
        *history, target = split.data.sequence(u).tolist()
        yield len(history), trained.count(target), history.count(target)


@pytest.mark.parametrize("by", SEGMENTS)
def test_every_tested_user_is_in_one_part(split, by):
    masks = list(SEGMENTS[by](split).values())
    assert np.all(np.sum(masks, axis=0) == 1)
    assert all(mask.shape == split.evaluated.shape for mask in masks)


@pytest.mark.parametrize(
    ("by", "column", "what"), [("history", 0, "items of history"), ("popularity", 1, "times in training")]
)
def test_parts_by_a_number_are_ranges_of_nearly_equal_size(split, by, column, what):
    values = np.array(list(expected(split)))[:, column]
    parts = SEGMENTS[by](split)
    assert 1 < len(parts) <= PARTS
    above = -1
    for title, mask in parts.items():
        ends = [int(word) for word in title.removesuffix(f" {what}").split(" to ")]
        assert (min(values[mask]), max(values[mask])) == (ends[0], ends[-1])
        assert ends[0] > above
        above = ends[-1]
        assert np.sum(mask) < len(values) / 2


def test_parts_by_repeat_and_by_cold_items(split):
    _, trained, had = np.array(list(expected(split))).T
    assert SEGMENTS["repeat"](split)["had before"].tolist() == (had > 0).tolist()
    assert SEGMENTS["cold"](split)["not in training"].tolist() == (trained == 0).tolist()
    assert np.any(trained == 0)


def test_users_that_are_all_alike_are_one_part_and_four_that_differ_are_four():
    other = SEGMENTS["history"](leave_one_out(Interactions.of([[1] * n for n in (3, 4, 6, 9)])))
    assert [np.flatnonzero(mask).tolist() for mask in other.values()] == [[0], [1], [2], [3]]
    parts = SEGMENTS["history"](leave_one_out(Interactions.of([[1, 2, 3], [2, 3, 1]])))
    assert {title: mask.tolist() for title, mask in parts.items()} == {"2 items of history": [True, True]}


def test_the_interval_of_a_mean_holds_it_and_shrinks_with_users(rng):
    values = rng.random(400)
    few, many = mean_interval(values[:40]), mean_interval(values)
    assert many.mean == pytest.approx(np.mean(values))
    assert many.low < many.mean < many.high
    assert many.high - many.low == pytest.approx(2 * 1.96 * np.std(values) / 20, rel=0.1)
    assert few.high - few.low > 2 * (many.high - many.low)
    assert mean_interval(values, 1) == paired_difference(values, np.zeros(400), 1) != many
