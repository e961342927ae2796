"""Attention by features: weights are products of features, so that the keys can be summed before any query is known.

Softmax weighs key j by exp(q_i·k_j). If a product a_i·b_j replaces it, of positive features a_i of query i and b_j of
key j, the brackets can be moved:

    out_i  =  Σ_j (a_i·b_j) v_j / Σ_j a_i·b_j  =  a_i S / a_i z,      S = Σ_j b_jᵀ v_j,  z = Σ_j b_jᵀ

and S, of shape (features, e), summarises the keys: time grows with n and not with n². In causal attention S sums the
keys up to i: a recurrent network whose state is S. Numerator and denominator come from one sum, of v with a column of
ones beside it. Forward and backward then only compute the `causal_sum`

    y_t = Σ_{s <= t} (a_t·b_s) c_s

`linear_attention` has the features ELU(x) + 1, `performer_attention` random ones whose product is exp(q_i·k_j / √d) on
average. Random features may be too large or too small for a float. So a sum may have a running exponent g, which never
falls: b_s is then exp(-g_s) times the features of key s, and y_t is exp(-g_t) times the sum,

    y_t = Σ_{s <= t} exp(g_s - g_t) (a_t·b_s) c_s

in which no exponent is above 0. The quotient out does not depend on g, so g_t may depend on all keys up to t.
"""

from collections.abc import Callable

from ...backend import Array, get_xp
from ..shapes import expect, row_sum, transpose_last, with_ones

CHUNK = 32
FLOOR = 1e-30      # the least feature of a key: float32 can divide by it, but not by exp(-100)

Form = Callable[[Array, Array, Array, Array | None], Array]


def causal_sum(a: Array, b: Array, c: Array, form: str = "chunked", g: Array | None = None) -> Array:
    """y_t = Σ_{s <= t} exp(g_s - g_t) (a_t·b_s) c_s, where g never falls; without g, y_t = Σ_{s <= t} (a_t·b_s) c_s.

    `form` sets the order of the products:

    "parallel"   (tril(a bᵀ)) c: all pairs at once, and n² numbers
    "recurrent"  S += b_tᵀ c_t, y_t = a_t S: token by token, as in generating text
    "chunked"    parallel within chunks of 32, and with the S of all chunks before: no n², and few steps

    With g, S is multiplied by exp(g_{t-1} - g_t) before each addition.
    Shapes: a and b (..., n, d), c (..., n, e), g (..., n, 1) -> y (..., n, e).
    Raises ValueError for shapes that do not fit and for an unknown form, naming the known ones; TypeError for dtypes.
    """
    expect("...nd ...nd ...ne ...no", a=a, b=b, c=c, g=g)
    return _form(form)(a, b, c, g)


def attend(
    a: Array, b: Array, v: Array, causal: bool, form: str = "chunked", g: Array | None = None
) -> tuple[Array, Array]:
    """out_i = Σ_j (a_i·b_j) v_j / Σ_j a_i·b_j over keys j <= i (not causal: over all), and the denominator.

    Shapes: a (..., n, d), b (..., m, d), v (..., m, e), g (..., n, 1) -> out (..., n, e), denominator (..., n, 1).
    A query for which all products are 0 gets zeros.
    """
    y = _sum(a, b, with_ones(v), causal, _form(form), g)                       # (..., n, e + 1)
    denominator = y[..., -1:]
    denominator = get_xp(y).where(denominator == 0, 1.0, denominator)           # all products are 0: out is 0
    return y[..., :-1] / denominator, denominator


def attend_backward(
    dout: Array, a: Array, b: Array, v: Array, out: Array, denominator: Array, causal: bool, form: str = "chunked",
    g: Array | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of `attend`. Shapes: as there, and dout like out -> da, db, dv like a, b, v.

    With c = [v, 1] and y_t = Σ_{s <= t} (a_t·b_s) c_s, a gradient dy comes back as

        da_t = Σ_{s <= t} (dy_t·c_s) b_s      db_s = Σ_{t >= s} (c_s·dy_t) a_t      dc_s = Σ_{t >= s} (b_s·a_t) dy_t

    the same sum three times, two of them backward in time. out = y[:-1] / y[-1] is a quotient, so
    dy = [dout, -Σ dout ⊙ out] / denominator. A running exponent g has no gradient: out does not depend on it.
    """
    xp, c, sums = get_xp(dout), with_ones(v), _form(form)
    dy = xp.concatenate([dout, -row_sum(dout * out)], axis=-1)      # out = y[:-1] / y[-1]
    dy /= denominator
    da = _sum(dy, c, b, causal, sums, g)                            # y = Σ (a·b) c: da
    db = _sum_back(c, dy, a, causal, sums, g)                       #                db
    dv = _sum_back(b, a, dy, causal, sums, g)[..., :-1]             #                dc;  c = [v, 1]
    return da, db, dv


def weights_of(a: Array, b: Array, causal: bool, g: Array | None = None) -> Array:
    """The attention weights, which `attend` does not compute. Shapes: a, b, g as there -> (..., n, m)."""
    weights = _products(a, b, g) if causal else a @ transpose_last(b)
    denominator = row_sum(weights)
    weights /= get_xp(a).where(denominator == 0, 1.0, denominator)
    return weights


def running_max(x: Array) -> Array:
    """The largest up to each token, by doubling: of 2 tokens, then 4, 8, .. Shapes: x (..., n, 1) -> like x."""
    xp, step = get_xp(x), 1
    while step < x.shape[-2]:
        later = xp.maximum(x[..., step:, :], x[..., :-step, :])
        x = xp.concatenate([x[..., :step, :], later], axis=-2)
        step *= 2
    return x


def _form(name: str) -> Form:
    if name not in FORMS:
        raise ValueError(f"causal_sum: form is {name!r}, expected one of {', '.join(FORMS)}")
    return FORMS[name]


def _products(a: Array, b: Array, g: Array | None) -> Array:
    """exp(g_s - g_t) a_t·b_s for s <= t, and 0 for s > t. Shapes: -> (..., n, n)."""
    products = get_xp(a).tril(a @ transpose_last(b))
    if g is not None:
        products *= _shrunk(transpose_last(g), g)
    return products


def _shrunk(before: Array, after: Array) -> Array:
    """exp(g_s - g_t), by which a sum shrinks from s to t; 1 where t is before s, to prevent overflow."""
    xp = get_xp(before)
    return xp.exp(xp.minimum(before - after, 0))


def _parallel(a: Array, b: Array, c: Array, g: Array | None) -> Array:
    return _products(a, b, g) @ c                                   # (..., n, n) @ (..., n, e)


def _recurrent(a: Array, b: Array, c: Array, g: Array | None) -> Array:
    xp, (*lead, n, d), e = get_xp(a), a.shape, c.shape[-1]
    state, y = xp.zeros((*lead, d, e), dtype=a.dtype), xp.empty((*lead, n, e), dtype=a.dtype)
    for t in range(n):
        if g is not None and t:
            state *= _shrunk(g[..., t - 1, None, :], g[..., t, None, :])
        state += b[..., t, :, None] * c[..., t, None, :]            # (..., d, 1) (..., 1, e)
        y[..., t, :] = (a[..., t, None, :] @ state)[..., 0, :]
    return y


def _chunked(a: Array, b: Array, c: Array, g: Array | None) -> Array:
    n = a.shape[-2]
    if n <= 2 * CHUNK:                                              # one piece is faster
        return _parallel(a, b, c, g)
    a, b, c = (_in_chunks(x) for x in (a, b, c))                    # (..., chunks, 32, d or e)
    g = None if g is None else _in_chunks(g)
    y = _parallel(a, b, c, g)
    b, c, end = b[..., :-1, :, :], c[..., :-1, :, :], None          # the last chunk has no later one
    if g is not None:
        end = g[..., :-1, -1:, :]
        b = b * _shrunk(g[..., :-1, :, :], end)                     # from each token to the end of its chunk
    states = _running_sum(transpose_last(b) @ c, end)               # (..., chunks - 1, d, e)
    seen = a[..., 1:, :, :] @ states
    if g is not None:
        seen *= _shrunk(end, g[..., 1:, :, :])                      # from there to each token of the next chunk
    y[..., 1:, :, :] += seen
    *lead, chunks, _, e = y.shape
    return y.reshape(*lead, chunks * CHUNK, e)[..., :n, :]


def _running_sum(states: Array, end: Array | None) -> Array:
    """Each state and all before it, by doubling: 1 before, then 2, 4, .. (`cumsum` along this axis is far slower.)"""
    step = 1
    while step < states.shape[-3]:
        before = states[..., :-step, :, :]
        if end is not None:
            before = before * _shrunk(end[..., :-step, :, :], end[..., step:, :, :])
        later = states[..., step:, :, :] + before
        states[..., step:, :, :] = later
        step *= 2
    return states


FORMS: dict[str, Form] = {"parallel": _parallel, "recurrent": _recurrent, "chunked": _chunked}


def _in_chunks(x: Array) -> Array:
    """(..., n, d) -> (..., chunks, 32, d), the last one padded with zeros, which add nothing."""
    xp, (*lead, n, d) = get_xp(x), x.shape
    missing = -n % CHUNK
    if missing:
        x = xp.concatenate([x, xp.zeros((*lead, missing, d), dtype=x.dtype)], axis=-2)
    return x.reshape(*lead, (n + missing) // CHUNK, CHUNK, d)


def _sum(a: Array, b: Array, c: Array, causal: bool, form: Form, g: Array | None) -> Array:
    """The causal sum, or the sum over all s: a (bᵀ c)."""
    return form(a, b, c, g) if causal else a @ (transpose_last(b) @ c)


def _sum_back(a: Array, b: Array, c: Array, causal: bool, form: Form, g: Array | None) -> Array:
    """The sum over t >= s: the causal sum in reversed time, where -g never falls."""
    if not causal:
        return _sum(a, b, c, causal, form, g)
    a, b, c = (get_xp(x).ascontiguousarray(x[..., ::-1, :]) for x in (a, b, c))
    return _sum(a, b, c, causal, form, None if g is None else -g[..., ::-1, :])[..., ::-1, :]
