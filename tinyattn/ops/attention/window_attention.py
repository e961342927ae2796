"""Attention through a window: every query looks at its neighbours only (Beltagy et al. 2020, section 3.1).

Full attention compares n queries with n keys. If a query may look at only W tokens, all but n W of these pairs are
masked, and need not be computed. The tokens are cut into chunks of c >= W - 1:

    queries of a chunk      the keys of this chunk and of the one before (not causal: and of the one after)

So all keys of a query are among 2 c (not causal: 3 c), and each chunk is an ordinary `attention` with a mask. That is
n / c products of c queries with 2 c keys: time and memory grow with n W and not with n².
"""

import math
from numbers import Integral

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto, transpose_last
from .attention import attention, attention_backward

CHUNK = 16      # least number of queries in a chunk: in products of smaller matrices the overhead of calls dominates


def window_attention(
    q: Array, k: Array, v: Array, window: int, causal: bool = True, keys: Array | None = None,
    keep: Array | None = None, rate: float = 0.0, scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """`attention` under the mask 0 <= i - j < W for query i and key j, with W = `window`; not causal: |i - j| < W.

    A window of W is the query itself and the W - 1 before it; not causal: the W - 1 after it as well.
    A window of n or more is full attention (causal or not).

    Shapes: q and k (..., n, d), v (..., n, e); `keys` (boolean, True = a real key, not padding) broadcasts to
    (..., n); `keep` (boolean, from `keep_mask`) is (..., n, S), with the S and the order of `distance_slots`; S is not
    checked -> out (..., n, e), weights (..., chunks, c, width), the sizes of `window_shape`, before dropout.
    `window_weights` makes them (..., n, n). A query that may look at nothing gets zeros.
    Raises ValueError for a window below 1 and for shapes that do not fit, TypeError for dtypes.
    """
    expect("...nd ...nd ...ne", q=q, k=k, v=v)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    n = q.shape[-2]
    _, c, width = window_shape(n, window, causal)
    mask = _band(c, width, window, causal, q) & _real(keys, n, c, width, q)     # (..., chunks, c, width)
    out, weights = attention(
        _chunked(q, c), _around(_chunked(k, c), width), _around(_chunked(v, c), width), mask,
        keep=laid_out(keep, c, width, causal), rate=rate, scale=scale,
    )  # fmt: skip
    return whole(out, n), weights


def window_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, weights: Array, window: int, causal: bool = True,
    keep: Array | None = None, rate: float = 0.0, scale: float | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of `window_attention`. Shapes: as there, and dout like out -> dq, dk, dv like q, k, v.

    Each chunk runs `attention_backward`. A key is read by the queries of two (not causal: three) chunks, and their
    gradients are added. No mask is needed: hidden keys have weight 0.
    """
    expect("...ne ...nd ...nd ...ne ...zcw", dout=dout, q=q, k=k, v=v, weights=weights)
    n = q.shape[-2]
    _, c, width = window_shape(n, window, causal)
    dq, dk, dv, _ = attention_backward(
        _chunked(dout, c), _chunked(q, c), _around(_chunked(k, c), width), _around(_chunked(v, c), width), weights,
        keep=laid_out(keep, c, width, causal), rate=rate, scale=scale,
    )  # fmt: skip
    return whole(dq, n), whole(_around_backward(dk, c), n), whole(_around_backward(dv, c), n)


def window_shape(n: int, window: int, causal: bool = True) -> tuple[int, int, int]:
    """The last three axes of `window_attention`'s weights: -> chunks, queries per chunk (c), keys per query (width).

    width is c for a single chunk, which has no neighbours, else 2 c (not causal: 3 c).
    Raises ValueError for a window that is not a whole number of at least 1.
    """
    if not isinstance(window, Integral):
        raise ValueError(f"window_attention: window is {window!r}, expected a whole number")
    if window < 1:
        raise ValueError(f"window_attention: window is {window}, expected at least 1")
    c = max(min(n, max(int(window) - 1, CHUNK)), 1)
    chunks = math.ceil(n / c)
    return chunks, c, c if chunks < 2 else 2 * c if causal else 3 * c


def window_weights(weights: Array, n: int) -> Array:
    """The weights of `window_attention` in the shape of `attention`'s: 0 outside of the window.

    Shapes: weights (..., chunks, c, width), n the number of tokens -> (..., n, n).
    """
    *lead, chunks, c, width = weights.shape
    dense = get_xp(weights).zeros((*lead, n, n), dtype=weights.dtype)
    for z in range(chunks):
        first = z * c if width == c else (z - 1) * c            # the key that column 0 of this chunk belongs to
        left, right, rows = max(first, 0), min(first + width, n), min(c, n - z * c)
        dense[..., z * c : z * c + rows, left:right] = weights[..., z, :rows, left - first : right - first]
    return dense


def distance_slots(n: int, window: int, causal: bool = True) -> int:
    """S, the number of entries that `keep` of `window_attention` has for a query: one for each distance of a key.

    Entry r is the key r tokens before. Not causal: entry 2 r is the key r before, 2 r - 1 the key r after. So dropout
    depends on the query and the distance, and not on the number of tokens.
    """
    window = min(int(window), max(n, 1))
    return window if causal else 2 * window - 1


def laid_out(keep: Array | None, c: int, width: int, causal: bool) -> Array | None:
    """A mask by query and distance, laid out as the weights are: (..., n, W) -> (..., chunks, c, width)."""
    if keep is None:
        return None
    xp, back = get_xp(keep), _back(c, width, keep)
    slot = back if causal else xp.where(back < 0, -2 * back - 1, 2 * back)
    slot = xp.clip(slot, 0, keep.shape[-1] - 1)                 # beyond the window the weights are 0 anyway
    keep = _chunked(keep, c)                                    # (..., chunks, c, W)
    return xp.take_along_axis(keep, xp.broadcast_to(slot, (*keep.shape[:-2], *slot.shape)), axis=-1)


def _back(c: int, width: int, like: Array) -> Array:
    """The distance i - j from each key of a chunk to each query. Shapes: -> (c, width)."""
    xp = get_xp(like)
    first = 0 if width == c else -c                             # the first key, counted from the first query
    return xp.arange(c)[:, None] - (xp.arange(width) + first)


def _band(c: int, width: int, window: int, causal: bool, like: Array) -> Array:
    """Which of its keys a query of a chunk may look at, by their distance. Shapes: -> (c, width) boolean."""
    back = _back(c, width, like)
    return (back < int(window)) & (back > (-1 if causal else -int(window)))


def _real(keys: Array | None, n: int, c: int, width: int, like: Array) -> Array:
    """Which keys are real, and not beyond either end. Shapes: keys (..., n) or None -> (..., chunks, 1, width)."""
    xp = get_xp(like)
    keys = xp.ones(n, dtype=bool) if keys is None else xp.broadcast_to(keys, (*keys.shape[:-1], n))
    return transpose_last(_around(_chunked(keys[..., None], c), width))


def _chunked(x: Array, c: int) -> Array:
    """(..., n, d) -> (..., chunks, c, d), the last one filled up with zeros."""
    xp, (*lead, n, d) = get_xp(x), x.shape
    chunks = math.ceil(n / c)
    if n < chunks * c:
        x = xp.concatenate([x, xp.zeros((*lead, chunks * c - n, d), dtype=x.dtype)], axis=-2)
    return x.reshape(*lead, chunks, c, d)


def whole(x: Array, n: int) -> Array:
    """Undo `_chunked`: (..., chunks, c, d) -> (..., n, d)."""
    *lead, chunks, c, d = x.shape
    return x.reshape(*lead, chunks * c, d)[..., :n, :]


def _around(x: Array, width: int) -> Array:
    """Each chunk with its neighbours, up to `width` rows: (..., chunks, c, d) -> (..., chunks, width, d)."""
    xp, c = get_xp(x), x.shape[-2]
    if width == c:
        return x
    none = xp.zeros_like(x[..., :1, :, :])
    before = xp.concatenate([none, x[..., :-1, :, :]], axis=-3)
    after = [xp.concatenate([x[..., 1:, :, :], none], axis=-3)] if width == 3 * c else []
    return xp.concatenate([before, x, *after], axis=-2)


def _around_backward(g: Array, c: int) -> Array:
    """A row's gradient is the sum over its copies: (..., chunks, width, d) -> (..., chunks, c, d).

    A chunk's rows are also the first c rows of the next chunk, and (not causal) the last c rows of the previous one.
    """
    width = g.shape[-2]
    if width == c:
        return g
    own = g[..., c : 2 * c, :].copy()
    own[..., :-1, :, :] += g[..., 1:, :c, :]
    if width == 3 * c:
        own[..., 1:, :, :] += g[..., :-1, 2 * c :, :]
    return own
