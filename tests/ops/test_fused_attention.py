"""`fused_attention` against the readable `attention`, where specs draw nothing: large sizes, far scores, every mask."""

import numpy as np
import pytest

from tests.strict import strict
from tinyattn import ops
from tinyattn.ops.masks import Mask, as_mask


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


def masks(n, m, rng):
    """Of every form: none, causal, with holes, rows and columns of nothing, one a sequence, nothing at all.

    A `Mask` that is causal is worked off in tiles, an array that happens to be is not.
    """
    holes = rng.random((n, m)) < 0.5
    holes[n // 2 :] = False
    holes[:, m // 3] = False
    early = np.tri(n, m, dtype=bool)[::-1].copy()  # later queries see fewer keys
    arrays = [np.tri(n, m, dtype=bool), holes, early, rng.random((2, 1, n, m)) < 0.7, np.zeros((n, m), bool)]
    return [None, Mask(causal=True), *arrays]


@pytest.mark.parametrize(("n", "m"), [(3, 5), (64, 64), (65, 64), (150, 130), (130, 200), (150, 3), (1, 7)])
@pytest.mark.parametrize("size", [1.0, 60.0], ids=["small", "large scores"])
def test_fused_attention_is_attention(size, n, m, rng):
    """Whatever the mask and however large the scores: out, weights and all three gradients."""
    q, k, v, dout = (rng.standard_normal((2, 3, rows, d)) for rows, d in ((n, 6), (m, 6), (m, 4), (n, 4)))
    q *= size
    for mask in masks(n, m, rng):
        out, weights = ops.attention(q, k, v, as_mask(mask).array(n, m, q))
        fused, looked = ops.fused_attention(q, k, v, mask)
        np.testing.assert_allclose(fused, out, rtol=0, atol=1e-12)
        np.testing.assert_allclose(looked.weights, weights, rtol=0, atol=1e-13)
        expected = ops.attention_backward(dout, q, k, v, weights)[:3]
        for g, theirs in zip(ops.fused_attention_backward(dout, looked), expected, strict=True):
            np.testing.assert_allclose(g, theirs, rtol=0, atol=1e-10)
            assert g.dtype == theirs.dtype


@pytest.mark.host  # a device's gradients are carried back, not `into`: tests/layers runs the fused block there
@pytest.mark.parametrize("scale", [1, 0.3, 0, 2])
def test_fused_attention_with_a_scale_of_its_own_and_gradients_put_where_they_belong(scale, rng):
    """Side by side in one array, whose rows are longer than a head: what stood there is written over."""
    q, k, v, dout = rng.standard_normal((4, 2, 3, 70, 5))
    for mask in masks(70, 70, rng):
        out, weights = ops.attention(q, k, v, as_mask(mask).array(70, 70, q), scale=scale)
        fused, looked = ops.fused_attention(q, k, v, mask, scale=scale)
        np.testing.assert_allclose(fused, out, rtol=0, atol=1e-12)
        expected = ops.attention_backward(dout, q, k, v, weights, scale=scale)[:3]
        there = np.full((2, 70, 9, 5), np.nan).swapaxes(1, 2)
        into = there[:, :3], there[:, 3:6], there[:, 6:]
        ops.fused_attention_backward(dout, looked, into=into)
        np.testing.assert_allclose(there, np.concatenate(expected, axis=1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("far", [0.0, 45.0, 60.0, 300.0, -45.0, -60.0, -95.0, -300.0])
def test_fused_attention_far_from_zero(far, rng):
    """Every row's scores moved by the same: softmax is the same. Beyond 50, exp would leave float32's range.

    At -95 it is still there, with a few bits left.
    """
    q, k, v, dout = rng.standard_normal((4, 70, 6)).astype(np.float32)
    q[:, 0], k[:, 0] = far * np.sqrt(6), 1
    q[1::2, 0] = 0  # every second row stays where it is
    mask = np.tri(70, dtype=bool)
    exact, weights = ops.attention(*(a.astype(float) for a in (q, k, v)), mask)
    out, looked = ops.fused_attention(q, k, v, Mask(causal=True))
    np.testing.assert_allclose(out, exact, rtol=0, atol=2e-6 * max(1, abs(far)))
    np.testing.assert_allclose(looked.weights, weights, rtol=0, atol=2e-6 * max(1, abs(far)))
    gradients = ops.fused_attention_backward(dout, looked)
    expected = ops.attention_backward(*(a.astype(float) for a in (dout, q, k, v)), weights)[:3]
    for g, theirs in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, theirs, rtol=1e-4, atol=1e-5 * max(1, abs(far)))


def test_fused_attention_of_nothing(rng):
    """No queries, or no keys, whatever the mask: nothing warns, and gradients are 0."""
    for n, m in ((0, 3), (3, 0), (0, 0)):
        q, k, v, dout = (rng.standard_normal((2, *shape)) for shape in ((n, 6), (m, 6), (m, 4), (n, 4)))
        for mask in (None, Mask(causal=True), np.ones((n, m), bool)):
            out, looked = ops.fused_attention(q, k, v, mask)
            assert out.shape == (2, n, 4)
            assert looked.weights.shape == (2, n, m)
            assert not out.any()
            assert not any(g.any() for g in ops.fused_attention_backward(dout, looked))


@pytest.mark.host
def test_fused_attention_names_what_does_not_fit(rng):
    q, k, v = rng.standard_normal((3, 4, 6))
    with pytest.raises(ValueError, match=r"fused_attention: k has shape \(4, 5\), expected .* d = 6"):
        ops.fused_attention(q, k[:, :5], v)
    with pytest.raises(ValueError, match=r"fused_attention: mask has shape \(3, 4\), expected one that broadcasts to"):
        ops.fused_attention(q, k, v, np.ones((3, 4), bool))
    for lengths in ([2], [2, 2, 2]):
        with pytest.raises(ValueError, match=r"fused_attention: the mask.s lengths .* have shape \(2, 1, 4, 4\)"):
            ops.fused_attention(*[x.reshape(2, 1, 4, 3) for x in (q, k, v)], ops.Mask(lengths=np.array(lengths)))
    _, looked = ops.fused_attention(q, k, v)
    with pytest.raises(TypeError, match="fused_attention_backward: q is float64 where the others are float32"):
        ops.fused_attention_backward(q.astype(np.float32), looked)


@pytest.mark.host  # not carried there and back: these arrays are the double's
def test_fused_attention_there_returns_what_it_was_given_to_write_into(rng):
    """On the double, as on a device: the gradients lie in `into`, and `into` comes back."""
    q, k, v, dout = (strict.asarray(a) for a in rng.standard_normal((4, 5, 6)))
    into = tuple(strict.zeros((5, 6)) for _ in range(3))
    _, looked = ops.fused_attention(q, k, v)
    assert ops.fused_attention_backward(dout, looked, into) is into
    for there, g in zip(into, ops.fused_attention_backward(dout, looked), strict=True):
        np.testing.assert_array_equal(there.get(), g.get())
