"""Linear attention: weights that are products of features, so that the keys can be summed up before any query comes.

Softmax weighs key j by exp(q_i·k_j). With a product φ(q_i)·φ(k_j) in its place, φ positive (Katharopoulos et al. 2020,
equations 4 to 7, φ(x) = ELU(x) + 1), the brackets can be moved:

    out_i  =  Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j)  =  φ(q_i) S / φ(q_i) z,  S = Σ_j φ(k_j)ᵀ v_j, z = Σ_j φ(k_j)ᵀ

and S, as large as (d, e), is all that is to be known of the keys: time grows with n and not with n². Causal, S holds
the keys up to i (equations 8 to 12): a recurrent network whose state is S. Numerator and denominator come from one sum,
of v with a column of ones beside it, and all there is to compute, forward and backward, is the `causal_sum`

    y_t = Σ_{s <= t} (a_t·b_s) c_s
"""

from collections.abc import Callable

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto, row_sum, transpose_last

CHUNK = 32
FLOOR = 1e-30      # φ is nowhere less: float32 divides by it still, and exp(-100) it could not


def linear_attention(
    q: Array, k: Array, v: Array, causal: bool = True, keys: Array | None = None, form: str = "chunked"
) -> tuple[Array, Array]:
    """out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j) over keys j <= i (not causal: over all), φ(x) = ELU(x) + 1.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e), causal: m = n; `keys` (boolean, True = a real key, none of the
    padding) broadcasts to (..., m) -> out (..., n, e), denominator (..., n, 1).
    `form` says how causal sums are computed, see `causal_sum`; to rounding the result is the same. A query that may
    look at nothing gets zeros.
    Raises ValueError for shapes that do not fit and for an unknown form, TypeError for dtypes.
    """
    expect("...nd ...nd ...ne" if causal else "...nd ...md ...me", q=q, k=k, v=v)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    _form(form)
    y = _sum(_query_features(q), _features(k, keys), _with_ones(v), causal, form)     # (..., n, e + 1)
    denominator = y[..., -1:]
    denominator = get_xp(y).where(denominator == 0, 1.0, denominator)           # nothing to look at: out is 0
    return y[..., :-1] / denominator, denominator


def linear_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, denominator: Array, causal: bool = True,
    keys: Array | None = None, form: str = "chunked",
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of `linear_attention`. Shapes: as there, and dout like out -> dq, dk, dv like q, k, v.

    With a = φ(q), b = φ(k), c = [v, 1] and y_t = Σ_{s <= t} (a_t·b_s) c_s, a gradient dy comes back as

        da_t = Σ_{s <= t} (dy_t·c_s) b_s      db_s = Σ_{t >= s} (c_s·dy_t) a_t      dc_s = Σ_{t >= s} (b_s·a_t) dy_t

    the same sum three times, twice from the end of time to its beginning. out = y[:-1] / y[-1] is a quotient, so
    dy = [dout, -Σ dout ⊙ out] / denominator. And φ' is 1 where φ > 1, and φ itself, the exponential, below.
    """
    expect("...ne ...nd ...md ...me ...ne ...no", dout=dout, q=q, k=k, v=v, out=out, denominator=denominator)
    xp, a, b, c = get_xp(dout), _query_features(q), _features(k, keys), _with_ones(v)
    dy = xp.concatenate([dout, -row_sum(dout * out)], axis=-1)      # out = y[:-1] / y[-1]
    dy /= denominator
    dq = _sum(dy, c, b, causal, form)                               # y = Σ (a·b) c: da
    dk = _sum_back(c, dy, a, causal, form)                          #                db
    dv = _sum_back(b, a, dy, causal, form)[..., :-1]                #                dc;  c = [v, 1]
    dq *= _slope(a)                                          # a = φ(q)
    dk *= _slope(b)                                          # b = φ(k), and 0 for what is no real key
    return dq, dk, dv


def linear_weights(q: Array, k: Array, causal: bool = True, keys: Array | None = None) -> Array:
    """The attention weights that `linear_attention` has without ever computing them: out = weights v.

    Shapes: q (..., n, d), k (..., m, d), keys as there -> weights (..., n, m). Rows sum to 1, or to 0 where nothing
    may be looked at.
    """
    expect("...nd ...nd" if causal else "...nd ...md", q=q, k=k)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    weights = _query_features(q) @ transpose_last(_features(k, keys))     # (..., n, d) @ (..., d, m)
    if causal:
        weights = get_xp(q).tril(weights)
    denominator = row_sum(weights)
    weights /= get_xp(q).where(denominator == 0, 1.0, denominator)
    return weights


def causal_sum(a: Array, b: Array, c: Array, form: str = "chunked") -> Array:
    """y_t = Σ_{s <= t} (a_t·b_s) c_s, in one of three forms that differ in what they put into brackets.

    "parallel"   (tril(a bᵀ)) c: all pairs at once, and n² numbers
    "recurrent"  S += b_tᵀ c_t, y_t = a_t S: token by token, as a network that is asked for the next one must
    "chunked"    parallel within chunks of 32, and with the S of all chunks before: no n², and few steps

    Shapes: a and b (..., n, d), c (..., n, e) -> y (..., n, e).
    Raises ValueError for shapes that do not fit and for an unknown form, naming the known ones.
    """
    expect("...nd ...nd ...ne", a=a, b=b, c=c)
    return _form(form)(a, b, c)


def _form(name: str) -> Callable[[Array, Array, Array], Array]:
    if name not in FORMS:
        raise ValueError(f"linear_attention: form is {name!r}, expected one of {', '.join(FORMS)}")
    return FORMS[name]


def _parallel(a: Array, b: Array, c: Array) -> Array:
    return get_xp(a).tril(a @ transpose_last(b)) @ c                # (..., n, n) @ (..., n, e)


def _recurrent(a: Array, b: Array, c: Array) -> Array:
    xp, (*lead, n, d), e = get_xp(a), a.shape, c.shape[-1]
    state, y = xp.zeros((*lead, d, e), dtype=a.dtype), xp.empty((*lead, n, e), dtype=a.dtype)
    for t in range(n):
        state += b[..., t, :, None] * c[..., t, None, :]            # (..., d, 1) (..., 1, e)
        y[..., t, :] = (a[..., t, None, :] @ state)[..., 0, :]
    return y


def _chunked(a: Array, b: Array, c: Array) -> Array:
    n = a.shape[-2]
    if n <= 2 * CHUNK:                                              # so few that one piece is faster
        return _parallel(a, b, c)
    a, b, c = (_in_chunks(x) for x in (a, b, c))                    # (..., chunks, 32, d or e)
    y = _parallel(a, b, c)
    states = _running_sum(transpose_last(b[..., :-1, :, :]) @ c[..., :-1, :, :])    # (..., chunks - 1, d, e)
    y[..., 1:, :, :] += a[..., 1:, :, :] @ states
    *lead, chunks, _, e = y.shape
    return y.reshape(*lead, chunks * CHUNK, e)[..., :n, :]


def _running_sum(states: Array) -> Array:
    """Each state and all before it, by doubling: 1 before, then 2, 4, .. (`cumsum` along this axis is far slower.)"""
    step = 1
    while step < states.shape[-3]:
        later = states[..., step:, :, :] + states[..., :-step, :, :]
        states[..., step:, :, :] = later
        step *= 2
    return states


FORMS = {"parallel": _parallel, "recurrent": _recurrent, "chunked": _chunked}


def _in_chunks(x: Array) -> Array:
    """(..., n, d) -> (..., chunks, 32, d), the last one filled up with zeros, which add nothing."""
    xp, (*lead, n, d) = get_xp(x), x.shape
    missing = -n % CHUNK
    if missing:
        x = xp.concatenate([x, xp.zeros((*lead, missing, d), dtype=x.dtype)], axis=-2)
    return x.reshape(*lead, (n + missing) // CHUNK, CHUNK, d)


def _sum(a: Array, b: Array, c: Array, causal: bool, form: str) -> Array:
    """The causal sum, or that over all s: a (bᵀ c)."""
    return _form(form)(a, b, c) if causal else a @ (transpose_last(b) @ c)


def _sum_back(a: Array, b: Array, c: Array, causal: bool, form: str) -> Array:
    """The sum over t >= s: the causal sum of time reversed."""
    if not causal:
        return _sum(a, b, c, causal, form)
    a, b, c = (get_xp(x).ascontiguousarray(x[..., ::-1, :]) for x in (a, b, c))
    return _sum(a, b, c, causal, form)[..., ::-1, :]


def _query_features(q: Array) -> Array:
    """φ(q). Of a query whose entries are all negative, φ is divided by its largest: out stays, and is not 0 / 0."""
    xp = get_xp(q)
    return _features(q - xp.minimum(xp.max(q, axis=-1, keepdims=True), 0)) if q.size else _features(q)


def _slope(features: Array) -> Array:
    """φ' from φ: 1 where x > 0, exp(x) below, and 0 for what is no real key."""
    return get_xp(features).clip(features - FLOOR, 0, 1)


def _features(x: Array, keys: Array | None = None) -> Array:
    """φ(x) = ELU(x) + 1: x + 1 above 0, exp(x) below; and 0 for what is no real key."""
    xp = get_xp(x)
    features = xp.exp(xp.minimum(x, 0))
    features += xp.maximum(x, 0) + FLOOR
    if keys is not None:
        features *= xp.broadcast_to(keys, x.shape[:-1])[..., None]
    return features


def _with_ones(v: Array) -> Array:
    """[v, 1]: (..., m, e) -> (..., m, e + 1)."""
    xp = get_xp(v)
    return xp.concatenate([v, xp.ones((*v.shape[:-1], 1), dtype=v.dtype)], axis=-1)
