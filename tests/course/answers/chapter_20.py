"""Answers to the exercises of chapter 20."""

import numpy as np

from tinyattn.models import attention_distance
from tinyattn.ops import conv2d_backward, patchify, patchify_backward, shifted_windows

from . import listed

# --- my_patch_gradients ---------------------------------------------------------------------------------------------


def with_the_librarys_ops(dy, x, W):
    P = W.shape[0]
    flat = W.reshape(-1, W.shape[-1])
    return patchify_backward(dy @ flat.T, x, P), (patchify(x, P).T @ dy).reshape(W.shape)


def by_hand(dy, x, W):
    P, _, C, D = W.shape
    u, v = x.shape[0] // P, x.shape[1] // P
    rows = x.reshape(u, P, v, P, C).transpose(0, 2, 1, 3, 4).reshape(u * v, -1)
    dp = dy @ W.reshape(-1, D).T
    dx = dp.reshape(u, v, P, P, C).transpose(0, 2, 1, 3, 4).reshape(x.shape)
    return dx, (rows.T @ dy).reshape(P, P, C, D)


def patch_by_patch(dy, x, W):
    P = len(W)
    dx, dW, t = np.zeros(x.shape), np.zeros(W.shape), 0
    for top in range(0, x.shape[0], P):
        for left in range(0, x.shape[1], P):
            here = np.s_[top : top + P, left : left + P]
            dx[here] = W @ dy[t]
            dW += x[here][..., None] * dy[t]
            t += 1
    return dx, dW


def einsums(dy, x, W):
    P, C, D = len(W), x.shape[-1], dy.shape[-1]
    h, w = x.shape[:2]
    cut, grid = x.reshape(h // P, P, w // P, P, C), dy.reshape(h // P, w // P, D)
    return np.einsum("uvd,abcd->uavbc", grid, W).reshape(h, w, C), np.einsum("uavbc,uvd->abcd", cut, grid)


def as_a_convolution(dy, x, W):
    """A token at every P-th place, and zeros between: the gradients of a convolution."""
    P = len(W)
    spread = np.zeros((x.shape[0] - P + 1, x.shape[1] - P + 1, dy.shape[-1]), dy.dtype)
    spread[::P, ::P] = dy.reshape(x.shape[0] // P, x.shape[1] // P, -1)
    return list(conv2d_backward(spread, x, W, padding="valid"))


def pixel_by_pixel(dy, x, W):
    P, across = len(W), x.shape[1] // len(W)
    dx, dW = np.empty_like(x), np.zeros_like(W)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            token = dy[i // P * across + j // P]
            dx[i, j] = W[i % P, j % P] @ token
            dW[i % P, j % P] += np.outer(x[i, j], token)
    return dx, dW


def tensordots(dy, x, W):
    P, (h, w, C) = len(W), x.shape
    grid = dy.reshape(h // P, w // P, -1)
    dx = np.tensordot(grid, W, (2, 3)).swapaxes(1, 2).reshape(h, w, C)  # (u, v, P, P, C), rows beside each other
    cut = x.reshape(h // P, P, w // P, P, C)
    return dx, np.tensordot(cut, grid, ((0, 2), (0, 1)))


def by_lists_of_patches(dy, x, W):
    P, across = len(W), x.shape[1] // len(W)
    corners = [(P * (t // across), P * (t % across)) for t in range(len(dy))]
    cut = np.array([x[i : i + P, j : j + P].ravel() for i, j in corners])
    dx = np.zeros_like(x)
    for (i, j), row in zip(corners, dy @ W.reshape(-1, W.shape[-1]).T, strict=True):
        dx[i : i + P, j : j + P] = row.reshape(P, P, -1)
    return dx, (dy.T @ cut).T.reshape(W.shape)


# --- my_attention_distance ------------------------------------------------------------------------------------------


def in_three_lines(p, columns):
    y, x = np.divmod(np.arange(p.shape[-1]), columns)
    far = np.sqrt((y[:, None] - y) ** 2 + (x[:, None] - x) ** 2)
    return np.sum(p * far, axis=-1).mean(axis=-1)


def with_complex_numbers(p, columns):
    i = np.arange(p.shape[-1])
    place = i % columns + 1j * (i // columns)
    return np.einsum("hij,ij->h", p, abs(place[:, None] - place)) / len(place)


def all_pairs_in_loops(p, columns):
    """A list."""
    heads, n, _ = p.shape
    found = [0.0] * heads
    for h in range(heads):
        for i in range(n):
            for j in range(n):
                far = ((i // columns - j // columns) ** 2 + (i % columns - j % columns) ** 2) ** 0.5
                found[h] += p[h, i, j] * far / n
    return found


def on_a_grid(p, columns):
    heads, n, _ = p.shape
    y, x = np.mgrid[: n // columns, :columns]
    q = p.reshape(heads, n // columns, columns, n // columns, columns)
    far = np.hypot(y[:, :, None, None] - y, x[:, :, None, None] - x)
    return (q * far).sum(axis=(1, 2, 3, 4)) / n


def the_librarys(p, columns):
    return attention_distance([p[None]], p.shape[-1] // columns, columns)[0]


def with_a_norm(p, columns):
    place = np.array(np.unravel_index(np.arange(p.shape[-1]), (p.shape[-1] // columns, columns))).T
    far = np.linalg.norm(place[:, None] - place[None], axis=-1)
    return np.array([np.trace(one @ far.T) / len(far) for one in p])


def by_rows_and_columns(p, columns):
    """Sums p over pairs of the same step down and across."""
    n = p.shape[-1]
    i, j = np.indices((n, n))
    down, across = i // columns - j // columns, i % columns - j % columns
    return np.tensordot(p, np.hypot(down, across), 2) / n


def means_of_means(p, columns):
    places = [divmod(i, columns) for i in range(p.shape[-1])]
    return np.array([
        np.mean([sum(w * np.hypot(a - c, b - d) for w, (c, d) in zip(row, places, strict=True))
                 for row, (a, b) in zip(head, places, strict=True)])
        for head in p
    ])  # fmt: skip


# --- repaired_windows -----------------------------------------------------------------------------------------------


def rounded_down(height, width, window, shift):
    y, x = np.divmod(np.arange(height * width), width)
    y, x = (y - shift) // window, (x - shift) // window
    return (y[:, None] == y) & (x[:, None] == x)


def the_layouts_mask(height, width, window, shift):
    return shifted_windows(height, width, window, shift).mask


def a_window_more(height, width, window, shift):
    """Shifted the other way by what is left of a window, where nothing is below 0."""
    n = np.arange(height * width)
    cell = [(i + (window - shift) % window) // window for i in (n // width, n % width)]
    return (cell[0][:, None] == cell[0]) & (cell[1][:, None] == cell[1])


def rolled_and_kept_apart(height, width, window, shift):
    """The rolled image's windows, without pairs of opposite borders."""
    y, x = np.divmod(np.arange(height * width), width)
    mask = np.ones((height * width,) * 2, bool)
    for place, size in ((y, height), (x, width)):
        cell = (place - shift) % size // window
        mask &= (cell[:, None] == cell) & ((place < shift)[:, None] == (place < shift))
    return mask


def by_edges(height, width, window, shift):
    """Cells are counted by the edges before a place."""
    cells = []
    for size in (height, width):
        edges = [e for e in range(shift, size, window) if e > 0]
        cells.append(np.searchsorted(edges, np.arange(size), side="right"))
    y, x = cells[0].repeat(width), np.tile(cells[1], height)
    return np.logical_and(np.equal.outer(y, y), np.equal.outer(x, x))


def all_pairs(height, width, window, shift):
    """A list of lists."""
    places = [((i - shift) // window, (j - shift) // window) for i in range(height) for j in range(width)]
    return [[a == b for b in places] for a in places]


def by_a_numbered_picture(height, width, window, shift):
    """The number of each patch's window is painted on a picture."""
    picture = np.zeros((height, width), int)
    rows, columns = (sorted({0, *range(shift, size, window)}) for size in (height, width))
    for number, (top, left) in enumerate((a, b) for a in rows for b in columns):
        picture[top:, left:] = number
    flat = picture.ravel()
    return flat[:, None] == flat[None, :]


def padded_and_cut(height, width, window, shift):
    """A border in front makes the first windows whole; it is cut away afterwards."""
    front = (window - shift) % window
    y, x = np.indices((height + front, width + front)) // window
    y, x = y[front:, front:].ravel(), x[front:, front:].ravel()
    return ~((y[:, None] != y) | (x[:, None] != x))


RIGHT = {
    "my_patch_gradients": (
        with_the_librarys_ops, by_hand, patch_by_patch, einsums, as_a_convolution, pixel_by_pixel, tensordots,
        by_lists_of_patches,
    ),
    "my_attention_distance": (
        in_three_lines, with_complex_numbers, all_pairs_in_loops, on_a_grid, the_librarys, with_a_norm,
        by_rows_and_columns, means_of_means,
    ),
    "repaired_windows": (
        rounded_down, the_layouts_mask, a_window_more, rolled_and_kept_apart, by_edges, all_pairs,
        by_a_numbered_picture, padded_and_cut,
    ),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_patch_gradients", listed("my_patch_gradients")),
        ("my_attention_distance", listed("my_attention_distance")),
        ("repaired_windows", listed("repaired_windows")),
    )
}
