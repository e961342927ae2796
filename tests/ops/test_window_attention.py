"""Attention through a window: plain loops, full attention under the same mask, the laws, and what is refused."""

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import gradcheck, oracles
from tinyattn.ops.attention.window_attention import distance_slots


def drawn(rng, lead, n, d=6, e=4):
    return [rng.standard_normal((*lead, n, width)) for width in (d, d, e, e)]


def band(n, window, causal):
    back = np.arange(n)[:, None] - np.arange(n)
    return (back < window) & (back >= 0 if causal else back > -window)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both sides"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(("n", "window"), [(0, 2), (1, 1), (5, 2), (7, 9), (40, 1), (49, 17), (50, 20), (33, 1000)])
def test_it_is_attention_under_the_mask_of_a_window(n, window, lead, causal, rng):
    """Value, weights and gradients, with and without padding, in both dtypes."""
    for keys in (None, rng.random((*lead, n)) < 0.7, rng.random(n) < 0.5):
        mask = band(n, window, causal) & (True if keys is None else keys[..., None, :])
        for dtype, atol in ((np.float64, 1e-12), (np.float32, 2e-5)):
            q, k, v, dout = (a.astype(dtype) for a in drawn(rng, lead, n))
            full, dense = ops.attention(q, k, v, mask, scale=0.6)
            out, weights = ops.window_attention(q, k, v, window, causal, keys, scale=0.6)
            assert weights.shape == (*lead, *ops.window_shape(n, window, causal))
            all_kept = np.ones((*lead, n, distance_slots(n, window, causal)), bool)
            kept, _ = ops.window_attention(q, k, v, window, causal, keys, all_kept, scale=0.6)
            np.testing.assert_allclose(kept, out, rtol=0, atol=atol)
            found = ops.window_attention_backward(dout, q, k, v, weights, window, causal, scale=0.6)
            expected = ops.attention_backward(dout, q, k, v, dense, scale=0.6)[:3]
            pairs = [(out, full), (ops.window_weights(weights, n), dense), *zip(found, expected, strict=True)]
            for mine, theirs in pairs:
                assert mine.dtype == dtype
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both sides"])
def test_plain_loops_and_differences(causal, rng):
    q, k, v, _ = drawn(rng, (2,), 37, 2, 2)
    keys = rng.random((2, 37)) < 0.6
    keys[:, :4] = False
    out, _ = ops.window_attention(q, k, v, 3, causal, keys)
    np.testing.assert_allclose(out, oracles.window_attention(q, k, v, 3, causal, keys), rtol=0, atol=1e-12)
    if causal:
        assert not out[:, :4].any()  # nothing to look at
    keep = rng.random((2, 37, 3 if causal else 5)) < 0.7
    dropped, weights = ops.window_attention(q, k, v, 3, causal, keys, keep, 0.3)
    kept = np.zeros((2, 37, 37), dtype=bool)
    for i in range(37):
        for r in range(3):  # entry r: the key r before; not causal: 2 r before, 2 r - 1 after
            if i - r >= 0:
                kept[:, i, i - r] = keep[:, i, r if causal else 2 * r]
            if not causal and r and i + r < 37:
                kept[:, i, i + r] = keep[:, i, 2 * r - 1]
    np.testing.assert_allclose(dropped, (ops.window_weights(weights, 37) * kept / 0.7) @ v, rtol=0, atol=1e-12)
    assert gradcheck(ops.window_attention, ops.window_attention_backward, q, k, v, 3, causal, keys, keep, 0.3)


def test_a_window_reaches_back_just_so_far(rng):
    """Bit for bit: what is later, or more than W - 1 before, moves nothing; W - 1 before does."""
    q, k, v, dout = drawn(rng, (2,), 60)
    out, weights = ops.window_attention(q, k, v, 5)
    for changed in (0, 20, 59):
        moved = [a.copy() for a in (q, k, v)]
        for a in moved:
            a[:, changed] += 1.0
        differs = np.any(ops.window_attention(*moved, 5)[0] != out, axis=(0, 2))
        assert np.flatnonzero(differs).tolist() == list(range(changed, min(changed + 5, 60)))
    dout[:, :30], dout[:, 31:] = 0, 0
    for g, reach in zip(ops.window_attention_backward(dout, q, k, v, weights, 5), (1, 5, 5), strict=True):
        assert np.flatnonzero(np.any(g != 0, axis=(0, 2))).tolist() == list(range(31 - reach, 31))


def test_a_window_as_wide_as_all_is_causal_attention_itself(rng):
    q, k, v, _ = drawn(rng, (), 12)
    for window in (12, np.int64(100)):
        out, weights = ops.window_attention(q, k, v, window)
        full, dense = ops.attention(q, k, v, ops.causal_mask(12, like=q))
        np.testing.assert_array_equal(out, full)
        np.testing.assert_array_equal(weights[0], dense)


def test_how_tokens_are_cut():
    """Chunks of at least 16 queries, no shorter than W - 1, each beside two chunks of keys, or three."""
    assert ops.window_shape(40, 3) == (3, 16, 32)
    assert ops.window_shape(40, 20, causal=True) == (3, 19, 38)
    assert ops.window_shape(40, 20, causal=False) == (3, 19, 57)
    assert ops.window_shape(10, 3, causal=False) == ops.window_shape(10, 99) == (1, 10, 10)
    assert ops.window_shape(0, 3) == (0, 1, 1)
    assert ops.window_shape(1, 3) == (1, 1, 1)
    assert ops.window_shape(20, 3) == (2, 16, 32)


def test_how_many_entries_a_query_has_in_keep():
    """One for each distance within the window, on one side or on both."""
    assert [distance_slots(10, 3, causal) for causal in (True, False)] == [3, 5]
    assert [distance_slots(2, 5, causal) for causal in (True, False)] == [2, 3]
    assert [distance_slots(0, 5, causal) for causal in (True, False)] == [1, 1]
    assert distance_slots(10, 3) == 3


def test_what_is_refused(rng):
    q, k, v, _ = drawn(rng, (), 5)
    for window in (0, -3):
        with pytest.raises(ValueError, match=f"window is {window}, expected at least 1"):
            ops.window_attention(q, k, v, window)
    with pytest.raises(ValueError, match=r"window is 2\.5, expected a whole number"):
        ops.window_attention(q, k, v, 2.5)
    with pytest.raises(ValueError, match=r"window_attention: k has shape \(4, 6\), expected .* with .*n = 5"):
        ops.window_attention(q, k[1:], v[1:], 2)
    with pytest.raises(ValueError, match=r"keys has shape \(4,\), expected one that broadcasts to \(5,\)"):
        ops.window_attention(q, k, v, 2, keys=np.ones(4, bool))
    with pytest.raises(TypeError, match="keys has dtype int64, expected bool"):
        ops.window_attention(q, k, v, 2, keys=np.ones(5, np.int64))
