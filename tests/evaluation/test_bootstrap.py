"""Intervals of differences: what is drawn, and beside plain formulas."""

import numpy as np
import pytest

from tinyattn.evaluation import bootstrap, paired_difference, paired_error_difference, rating_errors

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


def test_errors_are_means_over_the_ratings_of_the_users_that_were_drawn():
    """Errors of 2 against errors of 1: whoever is drawn, with many ratings or with few, the difference is 1."""
    owners = np.repeat(np.arange(8), [1, 50, 2, 30, 1, 1, 4, 9])
    signs = np.where(np.arange(len(owners)) % 2, 1.0, -1.0)
    for power in (1, 2):
        found = paired_error_difference(2 * signs, signs, owners, power)
        assert found == pytest.approx((1, 1, 1))
    assert paired_error_difference(2 * signs[:8], 1 * signs[:8], np.arange(8)) == pytest.approx((1, 1, 1))


def test_owners_may_have_any_numbers():
    shuffled = np.random.default_rng(0).permutation(1000)[OWNERS]
    other = paired_error_difference(ERRORS, OTHERS, shuffled)
    same = paired_error_difference(ERRORS, OTHERS, OWNERS)
    assert other.mean == pytest.approx(same.mean)
    assert other.high - other.low == pytest.approx(same.high - same.low, rel=0.1)


def test_95_percent_of_what_is_drawn_lie_within_the_interval():
    """Of many users the interval is that of normal numbers, ±1.96 standard errors: 90 % would be ±1.64."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal(200)
    ends = np.array([paired_difference(values, np.zeros(200), seed)[1:] for seed in range(20)])
    below, above = (ends - values.mean()).mean(axis=0) / (np.std(values) / np.sqrt(200))
    assert -below == pytest.approx(1.96, abs=0.04)
    assert above == pytest.approx(1.96, abs=0.04)


def test_intervals_of_differences_hold_the_truth_in_93_to_97_percent_of_2000_worlds(monkeypatch):
    """Of 80 users, easy and hard ones for both models alike; 400 draws in the place of 2,000 move an end by little."""
    monkeypatch.setattr(bootstrap, "DRAWS", 400)
    rng, truth = np.random.default_rng(0), 0.1
    held = []
    for seed in range(2000):
        ease = 3 * rng.standard_normal(80)
        values, others = (ease + rng.standard_normal(80) + shift for shift in (truth, 0))
        _, low, high = paired_difference(values, others, seed)
        held.append(low <= truth <= high)
    assert 0.93 <= np.mean(held) <= 0.97


def test_intervals_of_errors_hold_the_truth_in_93_to_97_percent_of_2000_worlds(monkeypatch):
    """Of 100 users with 1 to 9 ratings each, alike for one user: the true difference of the MAE is known."""
    monkeypatch.setattr(bootstrap, "DRAWS", 400)
    rng = np.random.default_rng(4)
    held, owners = [], np.repeat(np.arange(100), 1 + np.arange(100) % 9)
    for seed in range(2000):
        errors = 1.2 + 0.3 * rng.standard_normal(100)[owners]
        _, low, high = paired_error_difference(errors, np.ones(len(owners)), owners, 1, seed)
        held.append(low <= 0.2 <= high)
    assert 0.93 <= np.mean(held) <= 0.97
