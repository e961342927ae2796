"""Convolution: every token is a sum of linear maps of its neighbours, one map for each place in the kernel.

Tokens are rows, in a sequence (`conv1d`) or a grid (`conv2d`), with zeros beyond either end. As in all libraries
of neural networks the kernel is not flipped: W_0 belongs to the first neighbour. `dilation` δ leaves gaps of δ - 1
between the tokens that are read, so that a kernel of K spans (K - 1) δ + 1 tokens; layers whose dilation doubles see
exponentially far (Yu & Koltun 2016; causal: van den Oord et al. 2016, WaveNet, section 2.1).

    "valid"    the kernel stays within: (K - 1) δ tokens fewer come out
    "same"     as many come out as go in: half of (K - 1) δ zeros before, rounded down, and the rest after
    "causal"   the same, with all zeros before: no token sees a later one, and W_{K-1} belongs to the token itself
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from ..backend import Array, get_xp
from .shapes import expect, rows


def conv1d(x: Array, W: Array, dilation: int = 1, padding: str = "same") -> Array:
    """y_t = Σ_j x_{t + j δ - p} W_j.

    δ is the `dilation`, x_s = 0 beyond either end, and p is the number of zeros before: 0 ("valid"), ⌊(K - 1) δ / 2⌋
    ("same"), or (K - 1) δ ("causal").
    Shapes: x (..., n, i), W (K, i, o) -> y (..., n, o), "valid": (..., n - (K - 1) δ, o).
    Raises ValueError for shapes that do not fit, a K or dilation below 1, an unknown padding, and a "valid" kernel that
    spans more tokens than there are; TypeError for dtypes.
    """
    expect("...ni kio", x=x, W=W)
    return _convolve(x, W, dilation, _padding("conv1d", x, W, dilation, padding))


def conv1d_backward(dy: Array, x: Array, W: Array, dilation: int = 1, padding: str = "same") -> tuple[Array, Array]:
    """dx_s = Σ_j dy_{s - j δ + p} W_jᵀ, and dW_j = Σ_t x_{t + j δ - p}ᵀ dy_t.

    Shapes: dy like y, x (..., n, i), W (K, i, o) -> dx like x, dW like W.

    y is a sum of linear maps of shifted x. The backward is that of `linear` for each map, shifted back: token s is read
    by y_t as x_{t + j δ - p}, with t = s - j δ + p. The gradient of the padding is dropped.
    """
    expect("...mo ...ni kio", dy=dy, x=x, W=W)
    return _convolve_backward(dy, x, W, dilation, _padding("conv1d_backward", x, W, dilation, padding, dy))


def conv2d(x: Array, W: Array, dilation: int = 1, padding: str = "same") -> Array:
    """y_st = Σ_jl x_{s + j δ - p, t + l δ - r} W_jl.

    δ is the `dilation`, x = 0 beyond each edge, and p and r are 0 ("valid"), or ⌊(K - 1) δ / 2⌋ and ⌊(L - 1) δ / 2⌋
    ("same").
    Shapes: x (..., h, w, i), W (K, L, i, o) -> y (..., h, w, o), "valid": (..., h - (K - 1) δ, w - (L - 1) δ, o).
    Raises as `conv1d` does; "causal" is for sequences.
    """
    expect("...hwi klio", x=x, W=W)
    return _convolve(x, W, dilation, _padding("conv2d", x, W, dilation, padding))


def conv2d_backward(dy: Array, x: Array, W: Array, dilation: int = 1, padding: str = "same") -> tuple[Array, Array]:
    """dx_st = Σ_jl dy_{s - j δ + p, t - l δ + r} W_jlᵀ, and dW_jl = Σ_st x_{s + j δ - p, t + l δ - r}ᵀ dy_st.

    As `conv1d_backward`, along both axes.
    Shapes: dy like y, x (..., h, w, i), W (K, L, i, o) -> dx like x, dW like W.
    """
    expect("...uvo ...hwi klio", dy=dy, x=x, W=W)
    return _convolve_backward(dy, x, W, dilation, _padding("conv2d_backward", x, W, dilation, padding, dy))


def _padding(
    op: str, x: Array, W: Array, dilation: int, padding: str, dy: Array | None = None
) -> list[tuple[int, int]]:
    """The numbers of zeros before and after, for each axis of the kernel. Also checks the shape of dy."""
    known = ("valid", "same", "causal") if W.ndim == 3 else ("valid", "same")
    if padding not in known:
        raise ValueError(f"{op}: padding is {padding!r}, expected one of {', '.join(known)}")
    if dilation < 1:
        raise ValueError(f"{op}: dilation is {dilation}, expected at least 1")
    found, sizes = [], []
    for K, n in zip(W.shape[:-2], _grid(x, W), strict=True):
        if K < 1:
            raise ValueError(f"{op}: W has shape {W.shape}, expected a kernel of at least 1")
        gaps = (K - 1) * dilation
        if padding == "valid" and gaps >= n:
            raise ValueError(f"{op}: the kernel spans {gaps + 1} tokens, expected at most {n}, the number of tokens")
        before = {"valid": 0, "same": gaps // 2, "causal": gaps}[padding]
        found.append((before, 0 if padding == "valid" else gaps - before))
        sizes.append(n + sum(found[-1]) - gaps)
    if dy is not None and _grid(dy, W) != tuple(sizes):
        expected = ", ".join(["...", *map(str, sizes), str(W.shape[-1])])
        raise ValueError(f"{op}: dy has shape {dy.shape}, expected ({expected}), that of y")
    return found


def _convolve(x: Array, W: Array, dilation: int, padding: list[tuple[int, int]]) -> Array:
    padded = _padded(x, padding)
    y: Array = 0.0
    for place, seen in _places(padded, W, dilation):
        y = y + padded[seen] @ W[place]
    return y


def _convolve_backward(
    dy: Array, x: Array, W: Array, dilation: int, padding: list[tuple[int, int]]
) -> tuple[Array, Array]:
    xp, padded, dW = get_xp(dy), _padded(x, padding), get_xp(dy).empty_like(W)
    dpadded = xp.zeros_like(padded)
    for place, seen in _places(padded, W, dilation):
        dpadded[seen] += dy @ W[place].T                        # y += padded[seen] @ W[place], by padded
        dW[place] = rows(padded[seen]).T @ rows(dy)             #                               and by W
    inner = [slice(before, before + n) for (before, _), n in zip(padding, _grid(x, W), strict=True)]
    return xp.ascontiguousarray(dpadded[(..., *inner, slice(None))]), dW


def _grid(x: Array, W: Array) -> tuple[int, ...]:
    """The sizes of x along the axes of the kernel: (n,) for a sequence, (h, w) for a grid."""
    return x.shape[-W.ndim + 1 : -1]


def _places(padded: Array, W: Array, dilation: int) -> Iterator[tuple[Any, Any]]:
    """Each place in the kernel, and the part of `padded` that all outputs read there."""
    sizes = [n - (K - 1) * dilation for n, K in zip(_grid(padded, W), W.shape, strict=False)]
    for place in product(*map(range, W.shape[:-2])):
        window = [slice(j * dilation, j * dilation + size) for j, size in zip(place, sizes, strict=True)]
        yield place, (..., *window, slice(None))


def _padded(x: Array, padding: list[tuple[int, int]]) -> Array:
    """x with these numbers of zeros before and after, along the kernel's axes."""
    xp = get_xp(x)
    for axis, (before, after) in zip(range(-1 - len(padding), -1), padding, strict=True):
        parts = []
        for size in (before, after):
            shape = list(x.shape)
            shape[axis] = size
            parts.append(xp.zeros(shape, dtype=x.dtype))
        x = xp.concatenate([parts[0], x, parts[1]], axis=axis)
    return x
