"""Windows of an image, and the same windows shifted, so that neighbours across an edge meet (Liu et al. 2021, 3.2).

Tokens are the pixels of an image, row by row. A grid of w x w windows is laid over it, and pixels that share a window
look at each other. In the next block the grid is shifted by s pixels down and right, so that each window has pixels of
four earlier ones. Shifted windows are cut off at the borders. Rolling the image by s makes all windows whole, and a
mask separates pixels from opposite borders. Here the roll is part of the layout's positions.
"""

import numpy as np

from ...backend import Array, get_xp
from .blocks import BlockLayout, Blocks


def shifted_windows(height: int, width: int, window: int, shift: int = 0) -> BlockLayout:
    """mask_ij = [⌊(y_i - s) / w⌋ = ⌊(y_j - s) / w⌋ and ⌊(x_i - s) / w⌋ = ⌊(x_j - s) / w⌋], with i = y_i W + x_i.

    A layout of H W / w² blocks in one group, for `block_sparse_attention`. A bias has an entry for each pair within a
    window, the same for all windows: `bucket_bias(table, relative_index(window, like=table))[:, None]`, (h, 1, w², w²).
    Shapes: H = `height` and W = `width` pixels -> queries and keys (H W / w², w²), allowed (H W / w², w², w²).
    Raises ValueError for a window that does not divide the image, and for a shift outside of 0 to w - 1.
    """
    for name, size in (("height", height), ("width", width)):
        if window < 1 or size < 0 or size % window:
            raise ValueError(f"shifted_windows: window is {window}, expected a divisor of the {name}, which is {size}")
    if not 0 <= shift < window:
        raise ValueError(f"shifted_windows: shift is {shift}, expected 0 to {window - 1}, less than a window")
    pixels = np.arange(height * width).reshape(height, width)
    pixels = np.roll(pixels, (-shift, -shift), axis=(0, 1))
    cut = pixels.reshape(height // window, window, width // window, window).swapaxes(1, 2)
    windows = cut.reshape(height // window * (width // window), window * window)         # (H W / w², w²)
    cell = ((windows // width - shift) // window, (windows % width - shift) // window)
    together = [c[:, :, None] == c[:, None, :] for c in cell]
    return BlockLayout(height * width, height * width, (Blocks(windows, windows, together[0] & together[1]),))


def relative_index(window: int, like: Array) -> Array:
    """b_ij = (y_i - y_j + w - 1) (2 w - 1) + x_i - x_j + w - 1, with i = y_i w + x_i.

    An index for the distance in two dimensions of each pair of a window's pixels, from which `bucket_bias` makes a
    bias. Shapes: w = `window` -> (w², w²) integers, 0 to (2 w - 1)² - 1, in the module of `like`.
    Raises ValueError for a window below 1.
    """
    if window < 1:
        raise ValueError(f"relative_index: window is {window}, expected at least 1")
    xp = get_xp(like)
    y, x = xp.arange(window * window) // window, xp.arange(window * window) % window
    return (y[:, None] - y + window - 1) * (2 * window - 1) + x[:, None] - x + window - 1
