"""Performer: the laws of its random features, all forms, long keys in float32, and what is refused."""

import math

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.random import Stream, generator

FORMS = ["parallel", "recurrent", "chunked"]


def drawn(rng, lead, n, m, d=6, e=4, features=9, size=1.0):
    q, k, v, dout = (rng.standard_normal((*lead, rows, width)) for rows, width in ((n, d), (m, d), (m, e), (n, e)))
    return size * q, size * k, v, dout, ops.orthogonal_features(np.random.default_rng(1), features, d)


def kernels(draw, q, k, m, times):
    """φ(q)·φ(k) for many draws of W, and what it should be."""
    found = [ops.positive_features(q, W) @ ops.positive_features(k, W).T for W in (draw(m) for _ in range(times))]
    return np.stack(found), np.exp(q @ k.T / math.sqrt(q.shape[-1]))


def two_ways(d):
    rng = generator(3, Stream.FEATURES)
    return lambda m: ops.orthogonal_features(rng, m, d), lambda m: rng.standard_normal((m, d))


Q, K = 0.6 * np.random.default_rng(0).standard_normal((2, 3, 8))


@pytest.mark.host  # statistics: the numbers elsewhere are the same ones
@pytest.mark.parametrize("way", [0, 1], ids=["orthogonal", "independent"])
@pytest.mark.parametrize("m", [1, 5, 8, 19])
def test_the_kernel_is_unbiased(m, way):
    found, exact = kernels(two_ways(8)[way], Q, K, m, 2000)
    assert np.all(np.abs(found.mean(axis=0) - exact) < 5 * found.std(axis=0) / math.sqrt(2000))


@pytest.mark.host
def test_the_kernels_error_falls_with_the_root_of_m():
    sizes = [8, 32, 128]
    errors = [np.sqrt(np.mean((found - exact) ** 2)) for found, exact in
              (kernels(two_ways(8)[1], Q, K, m, 1500) for m in sizes)]  # fmt: skip
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.06)


@pytest.mark.host
def test_orthogonal_rows_make_the_error_smaller():
    """Of as many rows, in the sum over these pairs: by more than 5 standard errors of the difference. (They are short,
    for the squares of long ones have tails that need many more draws.)"""
    squares = []
    for draw in two_ways(8):
        found, exact = kernels(draw, Q / 2.4, K / 2.4, 8, 8000)
        squares.append(np.sum((found - exact) ** 2, axis=(1, 2)))
    difference = squares[1] - squares[0]
    assert difference.mean() > 5 * difference.std() / math.sqrt(len(difference))


@pytest.mark.host
@pytest.mark.parametrize("causal", [True, False])
def test_attention_becomes_softmax_attention_with_the_root_of_m(causal, rng):
    """Its error is that of a quotient: on the way there the mean of many draws is off, by 1 / m."""
    q, k, v, *_ = drawn(rng, (), 12, 12, 8, size=0.5)
    exact, _ = ops.attention(q, k, v, mask=ops.causal_mask(12, like=q) if causal else None)
    sizes, rms, bias, draw = [8, 32, 128, 512], [], [], two_ways(8)[1]
    for m in sizes:
        outs = np.stack([ops.performer_attention(q, k, v, draw(m), causal)[0] for _ in range(1200)])
        rms.append(np.sqrt(np.mean((outs - exact) ** 2)))
        bias.append(np.sqrt(np.mean((outs.mean(axis=0) - exact) ** 2)))
    assert np.polyfit(np.log(sizes), np.log(rms), 1)[0] == pytest.approx(-0.5, abs=0.12)
    assert bias[0] > 5 * rms[0] / math.sqrt(1200)
    assert bias[2] < bias[0] / 4


@pytest.mark.host  # drawn there
@pytest.mark.parametrize(("features", "width"), [(1, 1), (3, 5), (5, 5), (12, 5), (400, 6)])
def test_rows_are_orthogonal_in_blocks_and_as_long_as_normal_vectors(features, width):
    W = ops.orthogonal_features(np.random.default_rng(2), features, width)
    assert (W.shape, W.dtype) == ((features, width), np.float64)
    np.testing.assert_array_equal(W, ops.orthogonal_features(np.random.default_rng(2), features, width))
    for first in range(0, features, width):
        products = W[first : first + width] @ W[first : first + width].T
        np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, rtol=0, atol=1e-12)
    if features == 400:
        for moment, expected, spread in ((W, 0, 1), (W**2, 1, 2), (W[:, ::2] * W[:, 1::2], 0, 1), (W**4, 3, 96)):
            assert np.all(np.abs(moment.mean(axis=0) - expected) < 5 * math.sqrt(spread / 400))
        assert np.var(np.sum(W**2, axis=1)) == pytest.approx(2 * width, rel=0.4)  # χ², and not all alike


@pytest.mark.host
def test_rows_by_gram_and_schmidt():
    """Which numbers become what is part of what W is: it is drawn again where a saved model is loaded."""
    W = ops.orthogonal_features(np.random.default_rng(4), 7, 3)
    normal = np.random.default_rng(4).standard_normal((2, 3, 3, 3))
    for z in range(3):
        rows = []
        for column, like in zip(normal[0, z].T, normal[1, z], strict=True):
            for row in rows:
                column = column - (column @ row) / (row @ row) * row
            rows.append(column / math.sqrt(column @ column) * math.sqrt(like @ like))
        np.testing.assert_allclose(W[3 * z : 3 * z + 3], rows[: 7 - 3 * z], rtol=0, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "over all"])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 1), (5, 7), (64, 64), (65, 20), (70, 0), (100, 100), (160, 160)])
def test_all_forms_are_the_weights_times_the_values(n, m, causal, lead, rng):
    m = n if causal else m
    for keys in (None, rng.random((*lead, m)) < 0.7, np.arange(m) > 40, np.zeros(m, bool)):
        q, k, v, dout, W = drawn(rng, lead, n, m)
        weights = ops.performer_weights(q, k, W, causal, keys)
        np.testing.assert_allclose(weights.sum(axis=-1), weights.any(axis=-1), rtol=0, atol=1e-12)
        first = None
        for form in FORMS:
            out, denominator = ops.performer_attention(q, k, v, W, causal, keys, form)
            np.testing.assert_allclose(out, weights @ v, rtol=0, atol=1e-12)
            found = ops.performer_attention_backward(dout, q, k, v, W, out, denominator, causal, keys, form)
            for g, like, theirs in zip(found, (q, k, v), first or found, strict=True):
                assert g.shape == like.shape
                np.testing.assert_allclose(g, theirs, rtol=0, atol=1e-11)
            first = first or found


def test_features_of_the_paper_give_the_same_weights(rng):
    q, k, _, _, W = drawn(rng, (2,), 7, 7)
    phi = ops.positive_features(q, W), ops.positive_features(k, W)
    for z, i, r in ((0, 1, 2), (1, 6, 8)):
        x = q[z, i] / 6**0.25
        assert phi[0][z, i, r] == pytest.approx(math.exp(W[r] @ x - x @ x / 2) / 3, rel=1e-12)
    products = phi[0] @ phi[1].swapaxes(-1, -2)
    weights = products / products.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(ops.performer_weights(q, k, W, False), weights, rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_a_causal_sum_with_a_running_size_by_pairs(form, rng):
    a, b, c = (rng.standard_normal((2, 100, width)) for width in (4, 4, 3))
    g = np.cumsum(rng.random((2, 100, 1)) * 3, axis=1)
    shrunk = np.tril(np.exp(g.swapaxes(-1, -2) - g))
    exact = ((a @ b.swapaxes(-1, -2)) * shrunk) @ c
    np.testing.assert_allclose(ops.causal_sum(a, b, c, form, g), exact, rtol=0, atol=1e-11)
    np.testing.assert_allclose(ops.causal_sum(a, b, c, form, 0 * g), ops.causal_sum(a, b, c), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_no_later_token_moves_an_earlier_output(form, dtype, rng):
    """Bit for bit, also where the later keys are far longer than all before; and no gradient flows from there."""
    q, k, v, dout, W = (a.astype(dtype) for a in drawn(rng, (2,), 100, 100, size=2))
    out, denominator = ops.performer_attention(q, k, v, W, form=form)
    for changed in (1, 31, 32, 64, 99):
        moved = [a.copy() for a in (q, k, v)]
        for a in moved:
            a[:, changed:] *= -20
        np.testing.assert_array_equal(ops.performer_attention(*moved, W, form=form)[0][:, :changed], out[:, :changed])
        early = dout.copy()
        early[:, changed:] = 0
        for g in ops.performer_attention_backward(early, q, k, v, W, out, denominator, form=form):
            assert not g[:, changed:].any()
            assert g[:, 0].any() or g[:, 1].any()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", [1.0, 3.0, 10.0, 30.0, 1000.0])
def test_large_entries_in_float32(size, causal, rng):
    """Finite, and means of what may be seen; and right as long as for each query some key has features left."""
    q, k = (rng.uniform(-size, size, (2, 90, 16)).astype("f") for _ in range(2))
    v, dout = rng.standard_normal((2, 2, 90, 16)).astype("f")
    W, keys = drawn(rng, (), 1, 1, 16, features=64)[-1].astype("f"), rng.random((2, 90)) < 0.8
    keys[:, 0] = True
    low, high = np.where(keys[..., None], v, np.inf), np.where(keys[..., None], v, -np.inf)
    if causal:
        low, high = np.minimum.accumulate(low, axis=-2), np.maximum.accumulate(high, axis=-2)
    else:
        low, high = low.min(axis=-2, keepdims=True), high.max(axis=-2, keepdims=True)
    exact = slowly(q, k, v, W, causal, keys)
    for form in FORMS:
        out, denominator = ops.performer_attention(q, k, v, W, causal, keys, form)
        found = ops.performer_attention_backward(dout, q, k, v, W, out, denominator, causal, keys, form)
        assert all(np.all(np.isfinite(a)) for a in (out, *found))
        assert np.all((out > low - 1e-4) & (out < high + 1e-4))
        if size <= 10:
            np.testing.assert_allclose(out, exact, rtol=0, atol=2e-4 * size)
    np.testing.assert_allclose(ops.performer_weights(q, k, W, causal, keys).sum(axis=-1), 1, atol=1e-5)


def slowly(q, k, v, W, causal, keys):
    """Pairs and features at once, in float64, with the largest exponent of each query subtracted."""
    q, k, v, W = (np.asarray(a, float) for a in (q, k, v, W))
    q, k = q / q.shape[-1] ** 0.25, k / k.shape[-1] ** 0.25
    alone = (k**2).sum(axis=-1)[..., None, :, None] / 2
    exponents = (q @ W.T)[..., :, None, :] + (k @ W.T)[..., None, :, :] - alone     # (..., n, m, features)
    seen = keys[..., None, :] & (np.tri(q.shape[-2], k.shape[-2], dtype=bool) if causal else True)
    exponents = np.where(seen[..., None], exponents, -np.inf)
    weights = np.exp(exponents - exponents.max(axis=(-1, -2), keepdims=True)).sum(axis=-1)
    return weights @ v / weights.sum(axis=-1, keepdims=True)


def test_what_is_refused(rng):
    q, k, v, _, W = drawn(rng, (), 5, 4)
    with pytest.raises(ValueError, match=r"performer_attention: k has shape \(4, 6\), expected .*n = 5"):
        ops.performer_attention(q, k, v, W)
    with pytest.raises(ValueError, match=r"performer_weights: k has shape \(4, 6\), expected .*n = 5"):
        ops.performer_weights(q, k, W)
    with pytest.raises(ValueError, match=r"positive_features: W has shape \(9, 5\), expected .*d = 6"):
        ops.positive_features(q, W[:, :5])
    with pytest.raises(TypeError, match="positive_features: W is float32 where the others are float64"):
        ops.positive_features(q, W.astype("f"))
    with pytest.raises(ValueError, match=r"W has shape \(9, 5\), expected .*d = 6"):
        ops.performer_attention(q, k, v, W[:, :5], causal=False)
    with pytest.raises(ValueError, match=r"performer_attention: W has shape \(0, 6\), expected at least one row"):
        ops.performer_attention(q, k, v, W[:0], causal=False)
    with pytest.raises(ValueError, match="form is 'scan', expected one of parallel, recurrent, chunked"):
        ops.performer_attention(q, q, q, W, form="scan")
    with pytest.raises(TypeError, match="W is float32 where the others are float64"):
        ops.performer_weights(q, k, W.astype("f"), False)
    with pytest.raises(TypeError, match="keys has dtype float64, expected bool"):
        ops.performer_weights(q, k, W, False, np.ones(4))
    with pytest.raises(ValueError, match="orthogonal_features: features is 0, expected at least 1"):
        ops.orthogonal_features(rng, 0, 3)
    with pytest.raises(ValueError, match="orthogonal_features: width is 0, expected at least 1"):
        ops.orthogonal_features(rng, 3, 0)
