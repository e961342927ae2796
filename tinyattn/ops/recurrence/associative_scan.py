"""A first-order linear recurrence, as a scan whose brackets may be set in any way (Blelloch 1990, section 1.4).

A token is a map of the state, h -> a h + b. Two in a row are a map of the same kind,

    (a, b) ∘ (a', b') = (a a', a' b + b')        first a and b, then a' and b'

and ∘ is associative, so the map of n tokens may be computed from left to right, in chunks, or in a tree (Gu & Dao 2023,
section 3.3.2). For n a power of 4, where a step is all combinations that need only earlier steps:

    form          steps             combinations
    sequential    n - 1             n - 1
    chunked       2 √n - 2          2 n - 2 √n              √n chunks side by side, each of √n tokens
    doubling      log₂ n            n log₂ n - n + 1        each token is combined with the one 1, 2, 4, .. before it
    tree          2 log₂ n - 2      2 n - 2 - log₂ n        a scan of the pairs, then the tokens between

Doubling is Hillis & Steele's (1986), the tree Blelloch's.
"""

import math
from collections.abc import Callable

from ...backend import Array, get_xp
from ..shapes import expect


def associative_scan(a: Array, b: Array, h0: Array | None = None, form: str = "tree") -> Array:
    """h_t = a_t ⊙ h_{t-1} + b_t.

    Each channel is independent; h0 is the state before the first token. `form` sets the order of the products,
    "sequential", "chunked", "doubling" or "tree": to rounding the result is the same. Where |a| > 1, forms that
    multiply decays first may overflow sooner.

    Shapes: a and b (..., n, d), h0 (..., d) or None for zeros -> h (..., n, d).
    Raises ValueError for shapes that do not fit and for an unknown form, TypeError for dtypes other than float32 /
    float64.
    """
    expect("...nd ...nd ...d", a=a, b=b, h0=h0)
    if form not in FORMS:
        raise ValueError(f"associative_scan: form is {form!r}, expected one of {', '.join(FORMS)}")
    return FORMS[form](a, _begun(a, b, h0)) if a.shape[-2] else get_xp(b).zeros_like(b)


def associative_scan_backward(
    dh: Array, a: Array, h: Array, h0: Array | None = None, form: str = "tree"
) -> tuple[Array, Array, Array | None]:
    """da_t = G_t ⊙ h_{t-1}, and db_t = G_t, with G_t = dh_t + a_{t+1} ⊙ G_{t+1}.

    Shapes: as in `associative_scan`, and dh like h -> da, db, dh0 = a_1 ⊙ G_1 (None where h0 is).
    G_t, the whole gradient of h_t, is again a scan, from the last token to the first, with the decay of the next token.
    """
    expect("...nd ...nd ...nd ...d", dh=dh, a=a, h=h, h0=h0)
    xp, n = get_xp(a), a.shape[-2]
    if not n:
        return xp.zeros_like(a), xp.zeros_like(a), None if h0 is None else xp.zeros_like(h0)
    later = xp.concatenate([a[..., 1:, :], xp.zeros_like(a[..., :1, :])], axis=-2)
    G = _reversed(associative_scan(_reversed(later), _reversed(dh), form=form))
    first = xp.zeros_like(h[..., :1, :]) if h0 is None else h0[..., None, :]
    before = xp.concatenate([first, h[..., :-1, :]], axis=-2)
    return G * before, G, None if h0 is None else a[..., 0, :] * G[..., 0, :]


def _begun(a: Array, b: Array, h0: Array | None) -> Array:
    """b with a h0 added at the first token, so that the scan begins with a state of 0."""
    if h0 is None:
        return b
    return get_xp(b).concatenate([b[..., :1, :] + a[..., :1, :] * h0[..., None, :], b[..., 1:, :]], axis=-2)


def _reversed(x: Array) -> Array:
    return x[..., ::-1, :]


def _sequential(a: Array, b: Array) -> Array:
    h = get_xp(b).empty_like(b)
    h[..., 0, :] = b[..., 0, :]
    for t in range(1, a.shape[-2]):
        h[..., t, :] = a[..., t, :] * h[..., t - 1, :] + b[..., t, :]
    return h


def _chunked(a: Array, b: Array) -> Array:
    """√n chunks side by side, each from a state of 0; then each adds the last state before it, times `left`."""
    xp, (*lead, n, d) = get_xp(b), b.shape
    length = math.isqrt(n)
    chunks = n // length
    cut = (*lead, chunks, length, d)
    here_a, here_b = (x[..., : chunks * length, :].reshape(cut) for x in (a, b))
    h, left = here_b.copy(), here_a.copy()
    for j in range(1, length):
        h[..., j, :] += here_a[..., j, :] * h[..., j - 1, :]
        left[..., j, :] *= left[..., j - 1, :]
    for c in range(1, chunks):
        h[..., c, :, :] += left[..., c, :, :] * h[..., c - 1, -1:, :]
    h = h.reshape(*lead, chunks * length, d)
    rest_a, rest_b = (x[..., chunks * length :, :] for x in (a, b))
    if not rest_a.shape[-2]:
        return h
    return xp.concatenate([h, _sequential(rest_a, _begun(rest_a, rest_b, h[..., -1, :]))], axis=-2)


def _doubling(a: Array, b: Array) -> Array:
    """After the step of width w each token is the combination of itself and up to 2 w - 1 before it."""
    a, b, w = a.copy(), b.copy(), 1
    while w < a.shape[-2]:
        b[..., w:, :] += a[..., w:, :] * b[..., :-w, :]
        a[..., w:, :] = a[..., w:, :] * a[..., :-w, :]
        w *= 2
    return b


def _tree(a: Array, b: Array) -> Array:
    """The scan of the n / 2 pairs gives the states of the odd tokens; the even ones are one step from these."""
    if a.shape[-2] == 1:
        return b.copy()
    pairs = a.shape[-2] // 2 * 2
    first_a, first_b, then_a, then_b = (x[..., start:pairs:2, :] for start in (0, 1) for x in (a, b))
    h = get_xp(b).empty_like(b)
    h[..., 1::2, :] = _tree(first_a * then_a, then_a * first_b + then_b)
    h[..., 0, :] = b[..., 0, :]
    h[..., 2::2, :] = a[..., 2::2, :] * h[..., 1:-1:2, :] + b[..., 2::2, :]
    return h


FORMS: dict[str, Callable[[Array, Array], Array]] = {
    "sequential": _sequential,
    "chunked": _chunked,
    "doubling": _doubling,
    "tree": _tree,
}
