"""Intervals of differences: what is drawn, and beside plain formulas."""

import numpy as np
import pytest

from tinyattn.evaluation import paired_difference, paired_error_difference, rating_errors

RNG = np.random.default_rng(0)
OWNERS = RNG.integers(0, 40, size=300)
ERRORS, OTHERS = 0.9 * RNG.standard_normal(300), RNG.standard_normal(300)


@pytest.mark.parametrize(("power", "name"), [(2, "rmse"), (1, "mae")])
def test_a_difference_of_errors_is_that_of_the_metrics(power, name):
    found = paired_error_difference(ERRORS, OTHERS, OWNERS, power)
    zero = np.zeros(300)
    assert found.mean == pytest.approx(rating_errors(ERRORS, zero)[name] - rating_errors(OTHERS, zero)[name])
    assert found.low < found.mean < found.high
    assert paired_error_difference(ERRORS, OTHERS, OWNERS, power) == found
    assert paired_error_difference(ERRORS, OTHERS, OWNERS, power, seed=1) != found
    other_way = paired_error_difference(OTHERS, ERRORS, OWNERS, power)
    assert other_way == pytest.approx((-found.mean, -found.high, -found.low))


def test_with_one_rating_each_users_are_drawn_as_for_rankings():
    alone = np.arange(300)
    found = paired_error_difference(ERRORS, OTHERS, alone, power=1)
    assert found == pytest.approx(paired_difference(np.abs(ERRORS), np.abs(OTHERS)))


def test_a_user_is_drawn_with_all_ratings():
    """Ten equal ratings of each user say no more than one: the interval does not shrink."""
    alone = paired_error_difference(ERRORS, OTHERS, np.arange(300))
    tenfold = paired_error_difference(np.repeat(ERRORS, 10), np.repeat(OTHERS, 10), np.repeat(np.arange(300), 10))
    assert tenfold == pytest.approx(alone)
    one_by_one = paired_error_difference(np.repeat(ERRORS, 10), np.repeat(OTHERS, 10), np.arange(3000))
    assert one_by_one.high - one_by_one.low < 0.5 * (alone.high - alone.low)
