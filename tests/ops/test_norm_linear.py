"""`norm_linear` at its extremes, and what is refused. Its spec has the rest."""

import numpy as np
import pytest

from tinyattn import ops


# In some runs a product of a few float32 numbers raised the flag "invalid", though every number was finite. BLAS
# raises it; the results are compared below, number by number.
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")
def test_norm_linear_in_float32_at_its_extremes(rng):
    """Means far from zero, tokens without variance, none at all: as good as the two ops, inputs unchanged."""
    x = rng.standard_normal((3, 40, 6)).astype(np.float32)
    x[0] += 1e4
    x[1] = 7
    gamma, beta, W, dy = (rng.standard_normal(shape).astype(np.float32) for shape in (6, 6, (6, 5), (3, 40, 5)))
    before = [a.copy() for a in (x, gamma, beta, W, dy)]
    for x_ in (x, x[:0]):
        h, *given = ops.layer_norm(x_, gamma, beta)
        dh, dW, _ = ops.linear_backward(dy[: len(x_)], h, W)
        y, *saved = ops.norm_linear(x_, gamma, beta, W)
        first, again = (ops.norm_linear_backward(dy[: len(x_)], *saved, gamma, beta, W) for _ in range(2))
        dx, dgamma, dbeta = ops.layer_norm_backward(dh, *given, gamma)
        for mine, theirs in zip((y, *first), (ops.linear(h, W), dx, dgamma, dbeta, dW), strict=False):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-5 * max(1, np.abs(theirs).max(initial=0)))
            assert mine.dtype == np.float32
        for mine, theirs in zip(first, again, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for a, b in zip((x, gamma, beta, W, dy), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_norm_linear_names_what_does_not_fit():
    x, g, W = np.ones((2, 6)), np.ones(6), np.ones((6, 5))
    with pytest.raises(ValueError, match=r"norm_linear: W has shape \(5, 6\), expected \(i, o\) with i = 6"):
        ops.norm_linear(x, g, g, W.T)
    with pytest.raises(TypeError, match="norm_linear: b is float32 where the others are float64"):
        ops.norm_linear(x, g, g, W, np.ones(5, np.float32))
    y, *saved = ops.norm_linear(x, g, g, W)
    with pytest.raises(TypeError, match="norm_linear_backward: W is float32 where the others are float64"):
        ops.norm_linear_backward(y, *saved, g, g, W.astype(np.float32))
