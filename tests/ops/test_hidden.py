"""What a mask hides must be finite: a weight of 0 times NaN is NaN. A result is right or NaN, never wrong."""

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.ops.attention.patterns import Near

N, D, HIDDEN = 6, 4, 5
RNG = np.random.default_rng(0)
Q, K, V, DOUT = (RNG.standard_normal((2, N, D)) for _ in range(4))
REAL = np.arange(N) != HIDDEN
LAYOUT = Near(False, N).layout(N)


def plain(q, k, v):
    out, weights = ops.attention(q, k, v, REAL)
    return out, *ops.attention_backward(DOUT, q, k, v, weights)[:3]


def fused(q, k, v):
    out, cache = ops.fused_attention(q, k, v, REAL)
    return out, *ops.fused_attention_backward(DOUT, cache)


def flash(q, k, v):
    out, lse = ops.flash_attention(q, k, v, REAL, tile=(2, 2))
    return out, *ops.flash_attention_backward(DOUT, q, k, v, out, lse, REAL, tile=(2, 2))[:3]


def window(q, k, v):
    out, weights = ops.window_attention(q, k, v, N, causal=False, keys=REAL)
    return out, *ops.window_attention_backward(DOUT, q, k, v, weights, N, causal=False)


def block_sparse(q, k, v):
    out, weights = ops.block_sparse_attention(q, k, v, LAYOUT, keys=REAL)
    return out, *ops.block_sparse_attention_backward(DOUT, q, k, v, weights, LAYOUT)[:3]


def linear(q, k, v):
    q, k = np.abs(q), np.abs(k)
    out, denominator = ops.linear_attention(q, k, v, causal=False, keys=REAL)
    return out, *ops.linear_attention_backward(DOUT, q, k, v, out, denominator, causal=False, keys=REAL)


def pointwise(q, k, v):
    out, s = ops.pointwise_attention(q, k, v, REAL[..., None, :])
    return out, *ops.pointwise_attention_backward(DOUT, q, k, v, s, REAL[..., None, :])[:3]


@pytest.mark.parametrize("form", [plain, fused, flash, window, block_sparse, linear, pointwise])
@pytest.mark.parametrize("which", ["key", "value"])
def test_what_a_mask_hides_changes_no_number(form, which):
    expected = form(Q, K, V)
    for damage in (1e30, -1e30, np.nan, np.inf, -np.inf):
        k, v = K.copy(), V.copy()
        (k if which == "key" else v)[:, HIDDEN] = damage
        with np.errstate(all="ignore"):
            found = form(Q, k, v)
        for x, y in zip(found, expected, strict=True):
            fine = np.isfinite(x)
            assert fine.all() or not np.isfinite(damage)
            np.testing.assert_allclose(x[fine], y[fine], rtol=1e-9, atol=1e-9)
