"""Swin's shifted windows: rolled by hand, full attention under the mask of regions, the relative bias, refusals."""

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import gradcheck

IMAGES = [(4, 4, 4, 0), (6, 6, 3, 0), (6, 6, 3, 1), (6, 9, 3, 2), (8, 4, 4, 2), (3, 2, 1, 0), (0, 4, 2, 1)]


def regions(height, width, window, shift):
    """Which pixels are together in a grid whose first lines lie `shift` pixels inside: -> (H W, H W)."""
    lines = [np.cumsum([(i - shift) % window == 0 for i in range(size)]) for size in (height, width)]
    cell = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 2)
    return (cell[:, None] == cell).all(axis=-1)


def windows_of(x, width, window, shift):
    """Roll, then cut: (H W, d) -> (windows, w², d)."""
    x = np.roll(x.reshape(-1, width, x.shape[-1]), (-shift, -shift), axis=(0, 1))
    x = x.reshape(x.shape[0] // window, window, width // window, window, -1).swapaxes(1, 2)
    return x.reshape(-1, window * window, x.shape[-1])


def image_of(x, height, width, window, shift):
    """Undo `windows_of`."""
    x = x.reshape(height // window, width // window, window, window, -1).swapaxes(1, 2)
    return np.roll(x.reshape(height, width, -1), (shift, shift), axis=(0, 1)).reshape(height * width, -1)


@pytest.mark.parametrize(("height", "width", "window", "shift"), IMAGES)
def test_it_is_full_attention_under_the_mask_of_regions(height, width, window, shift, rng):
    n, layout = height * width, ops.shifted_windows(height, width, window, shift)
    mask = regions(height, width, window, shift)
    np.testing.assert_array_equal(layout.mask, mask)
    assert layout.pairs == n * window**2
    q, k, v, dout = rng.standard_normal((4, 2, 3, n, 5))
    table = rng.standard_normal(((2 * window - 1) ** 2, 3))
    index = ops.relative_index(window, like=table)
    bias = ops.bucket_bias(table, index)[:, None]
    out, weights = ops.block_sparse_attention(q, k, v, layout, bias=bias)
    i, rows, columns = np.arange(n), np.arange(n) // width, np.arange(n) % width
    far = [a[:, None] - a for a in (rows, columns)]
    pairs = np.where(mask, (far[0] + window - 1) * (2 * window - 1) + far[1] + window - 1, 0)
    dense = ops.bucket_bias(table, pairs)
    full, exact = ops.attention(q, k, v, mask, dense)
    np.testing.assert_allclose(out, full, rtol=0, atol=1e-13)
    *found, dbias = ops.block_sparse_attention_backward(dout, q, k, v, weights, layout, bias)
    *expected, ddense = ops.attention_backward(dout, q, k, v, exact, dense)
    found.append(ops.bucket_bias_backward(dbias[:, 0], table, index))
    expected.append(ops.bucket_bias_backward(ddense, table, pairs))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
    assert i.size == n


@pytest.mark.host
@pytest.mark.parametrize(("height", "width", "window", "shift"), IMAGES[:-1])
def test_it_rolls_cuts_and_comes_back(height, width, window, shift, rng):
    x = rng.standard_normal((height * width, 3))
    cut = windows_of(x, width, window, shift)
    np.testing.assert_array_equal(image_of(cut, height, width, window, shift), x)
    (of,) = ops.shifted_windows(height, width, window, shift).groups
    np.testing.assert_array_equal(x[of.queries], cut)
    out, _ = ops.block_sparse_attention(x, x, x, ops.shifted_windows(height, width, 1))
    np.testing.assert_array_equal(out, x)  # each pixel a window: what is gathered comes back


def test_a_window_as_large_as_the_image_is_full_attention(rng):
    q, k, v = rng.standard_normal((3, 2, 16, 4))
    out, _ = ops.block_sparse_attention(q, k, v, ops.shifted_windows(4, 4, 4))
    np.testing.assert_allclose(out, ops.attention(q, k, v)[0], rtol=0, atol=1e-14)


def test_a_number_for_every_distance(rng):
    index = ops.relative_index(3, like=rng.random(1))
    assert index.shape == (9, 9)
    assert np.unique(index).tolist() == list(range(25))
    assert (index[0, 0], index[0, 1], index[0, 3], index[8, 0]) == (12, 11, 7, 24)
    np.testing.assert_array_equal(ops.relative_index(1, like=index), [[0]])


def test_differences_with_the_table(rng):
    q, k, v = rng.standard_normal((3, 2, 16, 2))
    layout, bias = ops.shifted_windows(4, 4, 2, 1), rng.standard_normal((2, 1, 4, 4))
    assert gradcheck(ops.block_sparse_attention, ops.block_sparse_attention_backward, q, k, v, layout, None, bias)


@pytest.mark.host
def test_what_is_refused():
    for size, says in (
        ((6, 9, 4), "window is 4, expected a divisor of the height, which is 6"),
        ((8, 9, 4), "window is 4, expected a divisor of the width, which is 9"),
        ((8, -4, 2), "window is 2, expected a divisor of the width, which is -4"),
        ((8, 8, 0), "window is 0, expected a divisor of the height"),
        ((8, 8, 4, 4), "shift is 4, expected 0 to 3"),
        ((8, 8, 4, -1), "shift is -1, expected 0 to 3"),
    ):
        with pytest.raises(ValueError, match=says):
            ops.shifted_windows(*size)
    with pytest.raises(ValueError, match="window is 0, expected at least 1"):
        ops.relative_index(0, like=np.zeros(1))
