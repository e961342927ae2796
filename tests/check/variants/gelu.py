"""The GELU written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "tanh_always": ("loops",),
    "sigmoid": ("loops",),
    "no_half": ("loops",),
    "erf_no_sqrt2": ("loops",),
    "erf_rational": ("loops",),
    "cube_coefficient": ("loops",),
    "tanh_in_backward": ("loops",),
    "phi_only": ("loops",),
    "pdf_no_x": ("loops",),
    "no_dy": ("loops",),
    "flag_ignored": ("loops",),
    "flag_inverted": ("einsum", "inplace"),
    "tail_cut": ("loops",),
    "erf_sign_lost": ("loops",),
    "cube_overflows": ("einsum", "inplace"),
    "single_in_double": ("loops",),
    "fortran_order": ("loops",),
    "widened": ("loops",),
    "writes_x": ("einsum", "inplace"),
    "exact_in_tanh_backward": ("loops",),
    "cube_derivative": ("loops",),
    "inner_constant_missing": ("loops",),
    "one_minus_t": ("loops",),
    "density_unnormalised": ("loops",),
    "remembers_x": ("loops",),
}

INVENTED = {
    "flag_ignored": "approximate=True gives the exact form",
    "flag_inverted": "approximate=True gives the exact form, and approximate=False the tanh form",
    "tail_cut": "beyond |x| = 3 the function is taken as 0 or x",
    "erf_sign_lost": "the error function is that of |x|: negative x give x Φ(|x|), exact form only",
    "cube_overflows": "the tanh form cubes x in the input's own dtype: huge x overflow",
    "single_in_double": "float64 inputs are computed in float32",
    "fortran_order": "entries are read in memory order, which is wrong for Fortran-ordered x only",
    "widened": "float32 inputs give float64 results",
    "writes_x": "the forward clips the caller's x to -40..40, where that can be written to",
    "exact_in_tanh_backward": "the gradient of the tanh form is that of the exact form",
    "cube_derivative": "the gradient of the tanh form misses the 3 that x cubed brings down",
    "inner_constant_missing": "the gradient of the tanh form misses the inner factor sqrt(2/pi)",
    "one_minus_t": "the gradient of the tanh form has 1 - t where 1 - t^2 belongs",
    "density_unnormalised": "the gradient of the exact form has exp(-x^2/2) without 1/sqrt(2 pi)",
    "remembers_x": "the backward uses the x of the latest forward, where shapes agree",
}

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_FAR = 9.0  # beyond, Φ is 0 or 1 to the last bit of x Φ(x)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2  # on 0..1


def make(style, bug=None):
    """-> a namespace with gelu and gelu_backward; with `bug`, wrong in exactly that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(gelu=forward, gelu_backward=backward)


def _form(bug, approximate):
    """Which form the flag leads to."""
    if bug == "tanh_always":
        return True
    if bug == "flag_ignored":
        return False
    return not approximate if bug == "flag_inverted" else bool(approximate)


def _rational_erf(z):
    """Abramowitz & Stegun 7.1.26, good to 1.5e-7, for z >= 0."""
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 1 - series * np.exp(-z * z)


def _loops(bug):
    """One number at a time, by the mathematics library's erfc and tanh."""
    latest = {}
    coefficient = 0.44715 if bug == "cube_coefficient" else 0.044715

    def cdf(v):
        if bug == "erf_rational":
            tail = (1 - _rational_erf(min(abs(v), 40.0) / math.sqrt(2))) / 2
            return float(tail) if v < 0 else 1 - float(tail)
        if bug == "erf_sign_lost":
            v = abs(v)
        return 0.5 * math.erfc(-v if bug == "erf_no_sqrt2" else -v / math.sqrt(2))

    def logistic(v):
        return 1 / (1 + math.exp(-v)) if v > 0 else math.exp(max(v, -700.0)) / (1 + math.exp(max(v, -700.0)))

    def value(v, approximate):
        if bug == "sigmoid":
            return v * logistic(1.702 * v)
        if bug == "tail_cut" and abs(v) > 3:
            return max(v, 0.0)
        if approximate:
            near = max(-40.0, min(40.0, v))
            y = 0.5 * v * (1 + math.tanh(_ROOT_2_OVER_PI * (near + coefficient * near**3)))
        else:
            y = v * cdf(v)
        return 2 * y if bug == "no_half" else y

    def slope(v, approximate):
        near = max(-40.0, min(40.0, v))
        if bug == "phi_only":
            return cdf(v)
        if approximate:
            t = math.tanh(_ROOT_2_OVER_PI * (near + coefficient * near**3))
            inner = 1 + (1 if bug == "cube_derivative" else 3) * coefficient * near * near
            if bug != "inner_constant_missing":
                inner *= _ROOT_2_OVER_PI
            if bug == "pdf_no_x":
                near = 1.0
            return 0.5 * (1 + t) + 0.5 * near * ((1 - t) if bug == "one_minus_t" else (1 - t) * (1 + t)) * inner
        density = math.exp(-0.5 * near * near)
        if bug != "density_unnormalised":
            density *= _DENSITY
        normal = 0.5 * math.erfc(-v / math.sqrt(2)) if bug in ("erf_rational", "erf_sign_lost") else cdf(v)
        return normal + (density if bug == "pdf_no_x" else near * density)

    def gelu(x, approximate=False):
        form = _form(bug, approximate)
        latest["x"] = x.copy() if bug == "remembers_x" else None
        flat = x.reshape(-1, order="A" if bug == "fortran_order" else "C")
        y = np.array([value(v, form) for v in flat.tolist()])
        if bug == "widened":
            return y.reshape(x.shape)
        if bug == "single_in_double":
            y = y.astype(np.float32)
        return y.astype(x.dtype).reshape(x.shape)

    def gelu_backward(dy, x, approximate=False):
        form = approximate or bug in ("tanh_in_backward", "tanh_always")
        if bug == "exact_in_tanh_backward":
            form = False
        if bug == "remembers_x" and getattr(latest.get("x"), "shape", None) == x.shape:
            x = latest["x"]
        dx = [(1.0 if bug == "no_dy" else u) * slope(v, form) for u, v in zip(dy.flat, x.flat, strict=True)]
        return np.array(dx, np.float64).astype(dy.dtype).reshape(x.shape)

    return gelu, gelu_backward


def _einsum(bug):
    """Φ by Gauss-Legendre quadrature of its own integral, and the tanh form by the logistic function it equals."""
    coefficient = 0.044715

    def cdf(x):
        """Φ(x) = 1/2 + x ∫₀¹ φ(x t) dt."""
        near = np.clip(x, -_FAR, _FAR)
        bell = np.exp(-0.5 * np.square(np.multiply.outer(near, _NODES)))
        phi = 0.5 + _DENSITY * near * np.einsum("...k,k->...", bell, _WEIGHTS)
        phi = np.where(near <= -_FAR, 0.0, phi)
        return np.where(near >= _FAR, 1.0, phi)

    def logistic(u):
        return 1 / (1 + np.exp(np.clip(-u, -700, 700)))

    def argument(x):
        near = x if bug == "cube_overflows" else np.clip(x, -40, 40)
        return 2 * _ROOT_2_OVER_PI * (near + coefficient * near**3)

    def gelu(x, approximate=False):
        wide = np.asarray(x, np.float64)
        tanh_form = _form(bug, approximate)
        gate = logistic(argument(x if bug == "cube_overflows" else wide)) if tanh_form else cdf(wide)
        y = np.asarray(np.einsum("...,...->...", wide, gate))
        if bug == "writes_x" and x.flags.writeable:
            np.clip(x, -40, 40, out=x)
        return y.astype(x.dtype)

    def gelu_backward(dy, x, approximate=False):
        form = approximate
        if bug == "flag_inverted":
            form = not approximate
        wide = np.asarray(x, np.float64)
        near = np.clip(wide, -40, 40)
        if form:
            gate = logistic(argument(x if bug == "cube_overflows" else wide))
            factor = 3
            square = np.square(x) if bug == "cube_overflows" else np.square(near)
            inner = 2 * _ROOT_2_OVER_PI * (1 + factor * coefficient * square)
            other = logistic(-argument(wide))
            bump = gate * other
            slope = gate + near * bump * inner
        else:
            density = np.exp(-0.5 * np.square(near)) * _DENSITY
            slope = cdf(wide) + near * density
        return np.asarray(np.einsum("...,...->...", dy, slope)).astype(dy.dtype)

    return (gelu, gelu_backward)


def _inplace(bug):
    """Φ by a series of positive terms, φ(x) (x + x³/3 + x⁵/15 + ...), in float64 buffers."""
    coefficient = 0.044715

    def density(near):
        bell = np.square(near)
        bell *= -0.5
        np.exp(bell, out=bell)
        bell *= _DENSITY
        return bell

    def cdf(x):
        near = np.array(x, dtype=np.float64)
        np.clip(near, -_FAR, _FAR, out=near)
        square = np.square(near)
        total, term = (near.copy(), near.copy())
        for k in range(3, 341, 2):
            term *= square
            term /= k
            total += term
        square *= -0.5
        np.exp(square, out=square)
        square *= _DENSITY
        total *= square
        total += 0.5
        total[near <= -_FAR] = 0
        total[near >= _FAR] = 1
        return total

    def tangent(x):
        """-> tanh of the inner argument."""
        near = np.array(x, dtype=x.dtype if bug == "cube_overflows" else np.float64)
        if bug != "cube_overflows":
            np.clip(near, -40, 40, out=near)
        u = np.multiply(near, near, out=np.empty_like(near))
        u *= coefficient
        u += 1
        u *= near
        u *= _ROOT_2_OVER_PI
        return np.tanh(u, out=u).astype(np.float64)

    def gelu(x, approximate=False):
        order = "C"
        y = x.reshape(-1, order=order).astype(np.float64)
        if _form(bug, approximate):
            gate = tangent(y.astype(x.dtype) if bug == "cube_overflows" else y)
            gate += 1
            gate *= 0.5
        else:
            gate = cdf(y)
        y *= gate.astype(y.dtype)
        if bug == "writes_x" and x.flags.writeable:
            np.minimum(np.maximum(x, -40, out=x), 40, out=x)
        return y.astype(x.dtype).reshape(x.shape)

    def gelu_backward(dy, x, approximate=False):
        form = approximate
        shape, x = (x.shape, x.reshape(-1))
        near = x.astype(np.float64)
        np.clip(near, -40, 40, out=near)
        if form:
            t = tangent(x)
            dx = np.square(near)
            if bug == "cube_overflows":
                dx = np.array(x * x, dtype=np.float64)
            dx *= 3 * coefficient
            dx += 1
            dx *= _ROOT_2_OVER_PI
            dx *= (1 - t) * (1 + t)
            dx *= near
            dx += t
            dx += 1
            dx *= 0.5
        else:
            dx = density(near)
            dx *= near
            dx += cdf(near)
        dx *= dy.reshape(-1)
        return dx.astype(dy.dtype).reshape(shape)

    return (gelu, gelu_backward)
