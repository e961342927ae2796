"""GELU, ELU, erf and Φ: many numbers at once, and to the last bits."""

import math

import numpy as np

from tinyattn import ops
from tinyattn.ops.activations import erf


def test_gelu_of_many_numbers_is_that_of_a_few():
    """More than are worked off at once, and no whole number of times as many."""
    x = np.linspace(-4, 4, 150_000).reshape(3, 50_000)
    for approximate in (False, True):
        parts = [ops.gelu(x[:, begin : begin + 5000], approximate) for begin in range(0, 50_000, 5000)]
        np.testing.assert_array_equal(ops.gelu(x, approximate), np.concatenate(parts, axis=1))
        backward = [ops.gelu_backward(x[:1] ** 2, row[None], approximate) for row in x]
        found = ops.gelu_backward(np.repeat(x[:1] ** 2, 3, axis=0), x, approximate)
        np.testing.assert_array_equal(found, np.concatenate(backward))


def test_erf_is_good_to_the_last_bits():
    x = np.linspace(-7, 7, 9001)
    np.testing.assert_allclose(erf(x), [math.erf(value) for value in x], rtol=0, atol=1e-15)


def test_in_float32_phi_is_as_good_as_the_dtype():
    """Its own approximation there: x Φ(x) / x, against erf in float64, and 0 or 1 far out."""
    x = np.linspace(-9, 9, 9000, dtype=np.float32)  # without 0
    expected = [0.5 * math.erfc(-value / math.sqrt(2)) for value in x.tolist()]
    np.testing.assert_allclose(ops.gelu(x) / x, expected, rtol=0, atol=2e-7)
    far = np.array([-3e38, -50, -20, 20, 50, 3e38], np.float32)
    np.testing.assert_array_equal(ops.gelu(far), [0, 0, 0, 20, 50, np.float32(3e38)])
