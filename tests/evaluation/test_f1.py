"""F1 of classes: by hand, for labels that are never predicted, and for unknown ones."""

import numpy as np
import pytest

from tinyattn.evaluation import macro_f1


def test_by_hand():
    labels = np.array(["a", "a", "a", "b", "c"])
    predicted = np.array(["a", "a", "b", "b", "a"])
    # a: 2 right of 3 predicted, 3 there; b: 1 of 2 and 1; c: none
    assert macro_f1(predicted, labels) == pytest.approx((4 / 6 + 2 / 3 + 0) / 3)
    assert macro_f1(labels, predicted) == pytest.approx(macro_f1(predicted, labels))
    assert macro_f1(labels, labels) == 1
    assert macro_f1(np.array([1]), np.array([2])) == 0


def test_what_does_not_fit_is_refused():
    for predicted, labels in (([1], [1, 2]), ([], []), ([[1]], [[1]])):
        with pytest.raises(ValueError, match=r"expected \(N,\) twice, N at least 1"):
            macro_f1(np.array(predicted), np.array(labels))


def test_numbers_beside_texts_are_refused():
    """No text equals a number: F1 would be 0."""
    with pytest.raises(ValueError, match=r"predicted is <U1, labels int64: 1 and '1' are not the same label"):
        macro_f1(np.array(["1", "0"]), np.array([1, 0]))
