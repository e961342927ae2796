"""Activations: one number in, one number out."""

import math
from collections.abc import Callable

from ..backend import Array, get_xp, is_numpy
from .shapes import expect

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
_CUBIC = 0.044715
_TILE = 65536            # numbers that the host processes at once


def relu(x: Array) -> Array:
    """max(x, 0), elementwise. Shapes: x (...) -> y (...). Raises TypeError for dtypes other than float32 / float64."""
    expect("...", x=x)
    return get_xp(x).maximum(x, 0)


def relu_backward(dy: Array, x: Array) -> Array:
    """dx = dy where x > 0, else 0; at the kink x = 0 the gradient is taken as 0. Shapes: dy, x (...) -> dx (...)."""
    expect("... ...", dy=dy, x=x)
    return dy * (x > 0)


def gelu(x: Array, approximate: bool = False) -> Array:
    """x Φ(x), with Φ the normal distribution function (Hendrycks & Gimpel 2016). Shapes: x (...) -> y (...).

    `approximate=True` is the same paper's tanh form, x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
    Raises TypeError for dtypes other than float32 / float64.
    """
    expect("...", x=x)
    return _in_tiles(_tanh_form, x) if approximate else x * _in_tiles(_phi, x)


def gelu_backward(dy: Array, x: Array, approximate: bool = False) -> Array:
    """dx = dy (Φ(x) + x φ(x)): the product rule, and Φ' = φ, the normal density.

    For the tanh form, with u = √(2/π) (x + 0.044715 x³) and t = tanh(u): dx = dy (½ (1 + t) + ½ x (1 - t²) u').
    Shapes: dy, x (...) -> dx (...).
    """
    expect("... ...", dy=dy, x=x)
    if approximate:
        return _in_tiles(_tanh_form_backward, dy, x)
    near = _near(x)
    density = _INV_SQRT_2PI * get_xp(x).exp(-0.5 * near * near)
    return dy * (_in_tiles(_phi, x) + near * density)


def _tanh_form(x: Array) -> Array:
    """½ x (1 + t)."""
    y = _tanh(_near(x))
    y += 1
    y *= x
    y *= 0.5
    return y


def _tanh_form_backward(dy: Array, x: Array) -> Array:
    """½ dy (1 + t + x (1 - t²) u')."""
    near = _near(x)
    t = _tanh(near)
    more = near * near
    more *= 3 * _CUBIC * _SQRT_2_OVER_PI
    more += _SQRT_2_OVER_PI                             # u'
    more *= near
    more *= 1 - t * t
    t += more
    t += 1
    t *= dy
    t *= 0.5
    return t


def _near(x: Array) -> Array:
    return get_xp(x).clip(x, -40.0, 40.0)               # φ is 0 beyond, to the last bit; x³ must not overflow


def _tanh(near: Array) -> Array:
    """t = tanh(u), u = √(2/π) (x + 0.044715 x³)."""
    u = near * near
    u *= _SQRT_2_OVER_PI * _CUBIC
    u += _SQRT_2_OVER_PI
    u *= near
    return get_xp(near).tanh(u, out=u)


def _phi(x: Array) -> Array:
    """Φ(x) = ½ (1 + erf(x / √2))."""
    return _phi_in_single(x) if x.dtype == get_xp(x).float32 else 0.5 * (1 + erf(_SQRT_HALF * x))


def _in_tiles(f: Callable[..., Array], *arrays: Array) -> Array:
    """f of arrays of one shape, elementwise. The host works in tiles: f takes many steps (`erf` a hundred), and each is
    fast while its numbers stay in a core's cache."""
    xp, x = get_xp(*arrays), arrays[0]
    if not is_numpy(xp) or x.size <= _TILE:
        return f(*arrays)
    flat = [a.reshape(-1) for a in arrays]
    y = xp.empty(x.size, dtype=x.dtype)
    for begin in range(0, x.size, _TILE):
        y[begin : begin + _TILE] = f(*(a[begin : begin + _TILE] for a in flat))
    return y.reshape(x.shape)


def _phi_in_single(x: Array) -> Array:
    """Φ(-z) = ½ exp(z P(z)) for z = |x|, and Φ(z) = 1 - Φ(-z): exact to 1e-7, as float32 is, in a quarter of `erf`'s
    steps."""
    xp = get_xp(x)
    size = xp.minimum(xp.abs(x), 40.0)                  # Φ is 0 or 1 beyond, and z⁸ must not overflow
    exponent = _LOG_TAIL[0] * size
    for a in _LOG_TAIL[1:]:
        exponent += a
        exponent *= size
    tail = 0.5 * xp.exp(exponent)
    return xp.where(x < 0, tail, 1 - tail)


# P, highest power first: fitted here to (log Φ(-z) + log 2) / z on 0 to 7, with a largest error of Φ of 8e-9.
_LOG_TAIL = (
    -1.96511236e-6, 2.72955472e-5, -1.29054296e-4, -9.49092008e-5, 4.89598156e-3, -3.63875736e-2, -3.18298868e-1,
    -7.97885328e-1,
)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function 2/√π ∫₀ˣ exp(-t²) dt, elementwise: rational approximations of Cody (1969).

    NumPy has none. The three ranges are |x| below 0.47, below 4, and above; beyond 6 the value is ±1 to the
    last bit of float64. Absolute error under 1e-15 in float64.
    """
    xp = get_xp(x)
    x = xp.clip(x, -6.0, 6.0)                           # beyond 6 nothing changes, and x⁸ stays small
    size = xp.abs(x)
    near = x * _ratio(x * x, _ERF_NEAR)
    safe = xp.maximum(size, 0.4)                        # keeps 1 / x² finite where `near` is the answer
    gauss = xp.exp(-safe * safe)
    middle = gauss * _ratio(safe, _ERFC_MIDDLE)
    inverse = 1 / (safe * safe)
    far = gauss / safe * (1 / math.sqrt(math.pi) - inverse * _ratio(inverse, _ERFC_FAR))
    beyond = 1 - xp.where(size < 4, middle, far)        # erf = 1 - erfc
    return xp.where(size < 0.46875, near, xp.where(x < 0, -beyond, beyond))


def _ratio(x: Array, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    """A quotient of two polynomials in x with these coefficients."""
    top, bottom = coefficients
    p, q = top[0] * x, x
    for a, b in zip(top[1:-1], bottom[:-1], strict=True):
        p, q = (p + a) * x, (q + b) * x
    return (p + top[-1]) / (q + bottom[-1])


# Cody (1969), "Rational Chebyshev approximations for the error function", highest power first.
_ERF_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
_ERFC_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_ERFC_FAR = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip
