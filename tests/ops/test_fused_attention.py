"""Where `fused_attention` takes another way than the readable `attention`: what specs do not draw."""

import numpy as np
import pytest

from tinyattn import ops


@pytest.mark.parametrize("size", [-103.0, -100.0, -95.0, -90.0, -88.0])
def test_exponentials_too_small_for_float32s_precision_are_not_divided_by(size, rng):
    """exp(-88) to exp(-103) are numbers of few bits, not 0: a row that has no others is computed from its maximum."""
    q, k, v, dout = rng.standard_normal((4, 70, 6)).astype(np.float32)
    q[:, 0], k[:, 0] = size * np.sqrt(6), 1
    q[:, 1:] *= 0.1  # scores differ by a few tenths
    exact, weights = ops.attention(*(a.astype(float) for a in (q, k, v)))
    out, looked = ops.fused_attention(q, k, v)
    np.testing.assert_allclose(looked.weights, weights, rtol=1e-4)
    np.testing.assert_allclose(out, exact, rtol=0, atol=2e-5)
    expected = ops.attention_backward(*(a.astype(float) for a in (dout, q, k, v)), weights)[:3]
    for g, theirs in zip(ops.fused_attention_backward(dout, looked), expected, strict=True):
        np.testing.assert_allclose(g, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
