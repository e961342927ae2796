"""Convolution: composed layers, what is refused; and attention that reproduces it."""

import itertools
import math

import numpy as np
import pytest

from tinyattn import ops

X = np.ones((5, 2))


@pytest.mark.parametrize("padding", ["same", "causal"])
@pytest.mark.parametrize("n", [0, 1, 3, 70])
def test_even_kernels_and_kernels_beyond_the_sequence(n, padding, rng):
    """As many come out as go in; an even kernel has one zero more after than before."""
    x, W = rng.standard_normal((2, n, 3)), rng.standard_normal((4, 3, 2))
    y = ops.conv1d(x, W, 5, padding)
    assert y.shape == (2, n, 2)
    before = 15 if padding == "causal" else 7
    padded = np.zeros((2, n + 15, 3))
    padded[:, before : before + n] = x
    expected = sum(padded[:, 5 * j : 5 * j + n] @ W[j] for j in range(4))
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)


def test_dilations_that_double_see_exponentially_far(rng):
    """Four causal layers with kernels of 2 and dilations 1, 2, 4, 8: 16 tokens, each by one path."""
    x, kernel = np.zeros((40, 1)), np.ones((2, 1, 1))
    x[3] = 1
    for dilation in (1, 2, 4, 8):
        x = ops.conv1d(x, kernel, dilation, "causal")
    np.testing.assert_array_equal(x[:, 0], (np.arange(40) >= 3) & (np.arange(40) < 19))


def test_the_jacobian_of_a_grid_is_the_kernel():
    """The gradient of one output by x stands where the kernel looks, turned by nothing, and nowhere else."""
    W = np.arange(1.0, 10).reshape(3, 3, 1, 1)
    for dilation, padding, first in ((1, "same", 3), (2, "same", 2), (2, "valid", 4)):
        x = np.zeros((9, 9, 1))
        dy = np.zeros_like(ops.conv2d(x, W, dilation, padding))
        dy[4, 4] = 1
        dx, _ = ops.conv2d_backward(dy, x, W, dilation, padding)
        expected = np.zeros((9, 9))
        seen = slice(first, first + 2 * dilation + 1, dilation)
        expected[seen, seen] = W[..., 0, 0]
        np.testing.assert_array_equal(dx[..., 0], expected)


def test_no_token_of_a_depthwise_convolution_comes_out_of_fewer_than_its_kernel(rng):
    """K - 1 tokens are enough, and one fewer is refused."""
    W = rng.standard_normal((3, 2))
    assert ops.depthwise_conv1d(X[:2], W).shape == (0, 2)
    dx, dW = ops.depthwise_conv1d_backward(X[:0], X[:2], W)
    assert not dx.any()
    assert not dW.any()
    with pytest.raises(ValueError, match="depthwise_conv1d: x has 1 tokens, expected at least 2, for a kernel of 3"):
        ops.depthwise_conv1d(X[:1], W)
    with pytest.raises(ValueError, match="depthwise_conv1d_backward: x has 1 tokens, expected at least 2"):
        ops.depthwise_conv1d_backward(X[:0], X[:1], W)


@pytest.mark.host
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ops.conv1d(X, np.ones((3, 4, 1))), r"conv1d: W has shape .*i = 2"),
        (lambda: ops.conv1d(X, np.ones((0, 2, 1))), r"conv1d: W has shape \(0, 2, 1\), .* at least 1"),
        (lambda: ops.conv1d(X, np.ones((3, 2, 1)), 0), "conv1d: dilation is 0, expected at least 1"),
        (lambda: ops.conv1d(X, np.ones((3, 2, 1)), padding="full"), "padding is 'full', .* valid, same, causal"),
        (lambda: ops.conv1d(X[:4], np.ones((3, 2, 1)), 2, "valid"), "spans 5 tokens, expected at most 4"),
        (lambda: ops.conv2d(np.ones((5, 4, 2)), np.ones((3, 3, 2, 1)), 2, "valid"), "conv2d: .* spans 5 tokens"),
        (lambda: ops.conv2d(np.ones((5, 5, 2)), np.ones((3, 3, 2, 1)), padding="causal"), "'causal', .* valid, same"),
        (lambda: ops.conv2d_backward(X[None, :, :1], X[None], np.ones((3, 3, 2, 1)), 0), "conv2d_backward: dil"),
        (lambda: ops.conv1d_backward(X[:, :1], X, np.ones((3, 2, 1)), 0), "conv1d_backward: dilation"),
        (lambda: ops.conv1d_backward(X[:1, :1], X, np.ones((3, 2, 1))),
         r"conv1d_backward: dy has shape \(1, 1\), expected \(..., \d+, 1\), that of y"),
        (lambda: ops.conv2d_backward(np.ones((1, 1, 1)), np.ones((5, 4, 2)), np.ones((3, 3, 2, 1)), 1, "valid"),
         r"conv2d_backward: dy has shape \(1, 1, 1\), expected \(..., 3, 2, 1\)"),
        (lambda: ops.depthwise_conv1d_backward(X[:1], X, np.ones((3, 2))), r"depthwise_conv1d_backward: dy has shape"),
        (lambda: ops.depthwise_conv1d(X, np.ones((0, 2))), r"depthwise_conv1d: W has shape \(0, 2\), .* K >= 1"),
        (lambda: ops.quadratic_bias(2, 2, [], 1.0, np.zeros(1)), "there are no shifts, expected one for each head"),
        (lambda: ops.quadratic_bias(2, 2, [(0, 0)], -1.0, np.zeros(1)), "alpha is -1.0, expected a finite number"),
        (lambda: ops.quadratic_bias(2, 2, [(0, 0)], np.inf, np.zeros(1)), "alpha is inf, expected a finite number"),
        (lambda: ops.kernel_shifts(4), "K is 4, expected an odd number"),
        (lambda: ops.kernel_shifts(-1), "K is -1, expected an odd number of at least 1"),
        (lambda: ops.convolving_attention(np.ones((3, 3, 2)), np.ones((3, 1, 2, 2)), 1.0),
         r"W has shape \(3, 1, 2, 2\), .* square"),
    ],
)  # fmt: skip
def test_what_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.host
def test_dtypes_are_not_mixed():
    with pytest.raises(TypeError, match="convolving_attention: W is float32 where the others are float64"):
        ops.convolving_attention(np.ones((3, 3, 2)), np.ones((3, 3, 2, 1), "f"), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_quadratic_bias_number_by_number(dtype):
    shifts = [(0, 0), (-1, 2), (0.5, 0)]
    bias = ops.quadratic_bias(3, 4, shifts, np.float64(2), np.zeros(1, dtype))
    assert (bias.dtype, bias.shape) == (dtype, (3, 12, 12))
    places = list(itertools.product(range(3), range(4)))
    for (h, shift), (i, query), (j, key) in itertools.product(*map(enumerate, (shifts, places, places))):
        away = [there - here - by for there, here, by in zip(key, query, shift, strict=True)]
        assert bias[h, i, j] == -2.0 * (away[0] ** 2 + away[1] ** 2)
    for size in ((0, 3), (3, 0)):
        assert ops.quadratic_bias(*size, shifts, 0.0, np.zeros(1, dtype)).shape == (3, 0, 0)
    assert ops.kernel_shifts(3) == [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    assert ops.kernel_shifts(1) == [(0, 0)]


@pytest.mark.parametrize("K", [1, 3, 5])
@pytest.mark.parametrize("lead", [(), (2,)], ids=str)
def test_heads_with_a_quadratic_bias_are_a_convolution(lead, K, rng):
    """Inside of the edges the error falls like e^-α, the weight of the nearest neighbours, to 0."""
    x, W = rng.standard_normal((*lead, 7, 8, 3)), rng.standard_normal((K, K, 3, 2))
    exact, r = ops.conv2d(x, W), K // 2
    inner, errors = (..., slice(r, 7 - r), slice(r, 8 - r), slice(None)), {}
    for alpha in (1.0, 5.0, 10.0, 20.0, 46.0):
        y, weights = ops.convolving_attention(x, W, alpha)
        assert (y.shape, weights.shape) == (exact.shape, (*lead, K * K, 56, 56))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-13)
        errors[alpha] = np.abs(y - exact)[inner].max()
    for few, many in itertools.pairwise(errors):
        if many < 46:
            assert errors[many] / errors[few] < 4 * math.exp(few - many)
    assert errors[20.0] < 40 * K * K * math.exp(-20)
    assert errors[46.0] < 1e-13
    edge = np.abs(y - exact)[..., 0, :, :].max()
    assert edge > 0.1 if K > 1 else edge < 1e-13
