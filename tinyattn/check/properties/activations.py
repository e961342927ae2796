"""Properties of the activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .property import close, rounding, same_bits, states


@states("relu", "exact", "relu(x) - relu(-x) is x, and relu is never negative")
def two_halves(ops: Any, x: np.ndarray) -> None:
    y = ops.relu(x)
    assert np.all(y >= 0), "an output is negative"
    same_bits(y - ops.relu(-x), x, "relu(x) - relu(-x)")


@states("relu", "exact", "at 0 value and gradient are 0")
def at_zero(ops: Any, x: np.ndarray) -> None:
    zero = np.zeros_like(x)
    assert np.all(ops.relu(zero) == 0), "relu(0) is not 0"
    assert np.all(ops.relu_backward(np.ones_like(x), zero) == 0), "the gradient at 0 is not 0"


@states("gelu", "rounding", "gelu(x) - gelu(-x) is x, for Φ(x) + Φ(-x) = 1")
def odd_part(ops: Any, x: np.ndarray, approximate: bool) -> None:
    close(ops.gelu(x, approximate) - ops.gelu(-x, approximate), x, rounding(x.dtype, 1, 20.0), "gelu(x) - gelu(-x)")


@states("gelu", "approximate", "the two forms differ by less than 5e-4, and are x for large x, 0 for very negative x")
def two_forms(ops: Any, x: np.ndarray, approximate: bool) -> None:
    close(ops.gelu(x, True), ops.gelu(x, False), 5e-4, "tanh form")
    far = np.array([30.0, 1e4, -30.0, -1e4], dtype=x.dtype)
    close(ops.gelu(far, approximate), np.maximum(far, 0), 1e-12, "gelu far out")
