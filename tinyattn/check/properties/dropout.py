"""Properties of dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from .property import close, rounding, same_bits, states


@states("dropout", "exact", "with keep None, in evaluation, nothing changes, forward or backward")
def evaluation(ops: Any, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    same_bits(ops.dropout(x, None, rate), x, "output")
    same_bits(ops.dropout_backward(x, None, rate), x, "gradient")


@states("dropout", "rounding", "what is kept is divided by 1 - rate, what is dropped is exactly 0, gradients likewise")
def scale_and_support(ops: Any, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    for result in (ops.dropout(x, keep, rate), ops.dropout_backward(x, keep, rate)):
        assert np.all(result[~keep] == 0), "a dropped entry is not 0"
        close(result[keep], x[keep] / (1 - rate), rounding(x.dtype, 1, 10.0), "a kept entry")


@states("dropout", "statistical", "keep_mask drops the rate asked for, and dropout leaves the mean as it was")
def rate_and_mean(ops: Any, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    n = 200_000
    drawn = ops.keep_mask(np.random.default_rng(7), (n,), rate)
    assert drawn.dtype == bool, f"the mask is {drawn.dtype}, expected bool"
    deviation = 5 * np.sqrt(rate * (1 - rate) / n)
    close(1 - np.mean(drawn), rate, deviation, "the fraction dropped")
    close(np.mean(ops.dropout(np.ones(n), drawn, rate)), 1.0, deviation / (1 - rate), "the mean of ones")


@states("dropout", "exact", "the mask is a function of the generator's state: equal seeds draw equal masks")
def same_seed(ops: Any, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    first, second = (ops.keep_mask(np.random.default_rng(3), (2, 50), rate) for _ in range(2))
    same_bits(first, second, "mask")
    assert not np.array_equal(first[0], first[1]), "two rows of the mask are alike"
