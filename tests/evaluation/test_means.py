"""Comparisons of means: Student's t by its tables, Welch's by hand, Holm's by hand, and how often chance is told."""

import math

import numpy as np
import pytest

from tinyattn.evaluation import bootstrap
from tinyattn.evaluation.means import Comparison, compare_means, holm, two_sided


@pytest.mark.parametrize(("t", "freedom", "p"), [
    (12.706, 1, 0.05), (4.303, 2, 0.05), (31.821, 1, 0.02), (2.571, 5, 0.05), (4.032, 5, 0.01), (1.960, 5000, 0.05),
    (0, 3, 1), (math.inf, 4, 0), (math.nan, 4, 1),
])  # fmt: skip
def test_p_is_that_of_the_tables(t, freedom, p):
    assert two_sided(t, freedom) == pytest.approx(p, abs=3e-4)
    if freedom == 1 and 0 < t < math.inf:
        assert two_sided(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-9)  # Cauchy's


def test_a_twentieth_lies_outside_of_the_95_percent_point():
    for freedom in range(1, 61):
        left = 1e-4 if freedom < 20 else 1.2e-6                      # of the expansion after four terms
        assert two_sided(bootstrap.t_95(freedom), freedom) == pytest.approx(0.05, abs=left)


def test_unequal_variances_by_hand():
    """var / n: 1 / 3 and 4 / 3; 5/3 squared over (1/9 + 16/9) / 2 = 2.94, so two degrees of freedom."""
    found = compare_means([1, 2, 3], [4, 6, 8])
    half = bootstrap.t_95(2) * math.sqrt(5 / 3)
    assert found == pytest.approx((-4, -4 - half, -4 + half, two_sided(4 / math.sqrt(5 / 3), 2)))


def test_pairs_by_hand():
    found = compare_means([1.0, 2.0, 3.0], [0.0, 1.5, 2.5], paired=True)       # differences 1, 1/2, 1/2
    error = 0.5 / 3
    assert found.size == pytest.approx(2 / 3)
    assert found.high - found.size == pytest.approx(4.303 * error)
    assert found.p == pytest.approx(two_sided(4, 2))


def test_a_model_without_chance_is_one_exact_value():
    assert compare_means([1, 3], [0]).p == compare_means([0], [1, 3]).p == pytest.approx(two_sided(2, 1))


@pytest.mark.parametrize(("others", "p"), [([0.5, 0.5], 1.0), ([0.25, 0.25], 0.0)])
def test_values_that_do_not_vary_differ_surely_or_not_at_all(others, p):
    for paired in (False, True):
        found = compare_means([0.5, 0.5], others, paired)
        assert found == Comparison(0.5 - others[0], 0.5 - others[0], 0.5 - others[0], p)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="one value each has no spread"):
        compare_means([1], [2])
    with pytest.raises(ValueError, match="2 values are to be paired with 3"):
        compare_means([1, 2], [1, 2, 3], paired=True)


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_of_equal_models_one_in_twenty_differs(rng):
    """With unlike spreads, Welch's is on the safe side; pairs have their common part taken out."""
    a, b = rng.standard_normal((2, 1000, 4)) * np.array([1, 3])[:, None, None]
    assert 0.02 < np.mean([compare_means(x, y).p < 0.05 for x, y in zip(a, b, strict=True)]) < 0.06
    common = 10 * rng.standard_normal((1000, 4))
    paired = [compare_means(c + x, c + y, paired=True).p < 0.05 for c, x, y in zip(common, a, b, strict=True)]
    assert 0.03 < np.mean(paired) < 0.07
