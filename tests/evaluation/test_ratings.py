"""Errors of ratings and their baselines, against loops over single ratings."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tinyattn.data import Interactions
from tinyattn.evaluation import RATING_BASELINES, damped_biases, mean_rating, rating_errors

RATINGS = {  # user: item and rating, in order
    1: [(1, 5.0), (2, 4.0), (3, 5.0), (4, 4.5)],
    2: [(1, 1.0), (4, 2.0)],
    3: [(2, 3.0), (3, 4.0), (5, 1.0)],
}


def rated(ratings):
    user, item, value = zip(*((u, i, r) for u, of in ratings.items() for i, r in of), strict=True)
    return Interactions.from_columns(np.array(user), np.array(item), ratings=np.array(value))


def test_errors_by_hand():
    found = rating_errors(np.array([4.0, 2.0, 5.0]), np.array([3.0, 4.0, 5.0]))
    assert found == {"rmse": pytest.approx(math.sqrt(5 / 3)), "mae": pytest.approx(1.0)}
    assert list(found) == ["rmse", "mae"]


def test_the_mean_of_training_is_predicted_for_every_rating_of_other_data():
    train, test = rated(RATINGS), rated({1: [(5, 1.0)], 2: [(2, 1.0)]})
    np.testing.assert_allclose(mean_rating(train)(test), [29.5 / 9, 29.5 / 9])


def test_biases_are_damped_by_25_for_items_and_by_10_for_users():
    train = rated(RATINGS)
    every = [(u, i, r) for u, of in RATINGS.items() for i, r in of]
    mean = sum(r for *_, r in every) / len(every)
    of_item, of_user = {}, {}
    for item in range(1, 6):
        rest = [r - mean for _, i, r in every if i == item]
        of_item[item] = sum(rest) / (25 + len(rest))
    for user in RATINGS:
        rest = [r - mean - of_item[i] for u, i, r in every if u == user]
        of_user[user] = sum(rest) / (10 + len(rest))
    np.testing.assert_allclose(damped_biases(train)(train), [mean + of_item[i] + of_user[u] for u, i, _ in every])
    assert {"mean": mean_rating, "biases": damped_biases} == RATING_BASELINES


def test_who_and_what_has_no_rating_in_training_has_no_bias():
    """With the same numbers: of user 2 and item 2 training has nothing."""
    data = rated({1: [(1, 5.0), (3, 3.0)], 2: [(2, 9.0)], 3: [(1, 1.0)]})
    kept = [0, 1, 3]
    train = replace(data, flat=data.flat[kept], offsets=np.array([0, 2, 2, 3]), ratings=data.ratings[kept])
    found = damped_biases(train)(data)
    assert found[2] == pytest.approx(3.0)  # the mean of training
    assert found[0] != pytest.approx(3.0)
