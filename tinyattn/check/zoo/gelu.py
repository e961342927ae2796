"""The GELU, and its known bugs."""

import math

import numpy as np

from ...ops import gelu as right
from ...ops import gelu_backward as right_backward
from .bug import bug, in_place, planted


def gelu(x, approximate=False):
    wide, form = x.astype(np.float64), approximate
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    y = 0.5 * wide * (1 + np.tanh(inner)) if form else right(wide)
    return y.astype(x.dtype)


def gelu_backward(dy, x, approximate=False):
    v = x.astype(np.float64)
    slope = right_backward(np.ones_like(v), v, approximate)
    phi = np.where(v == 0, 0.5, right(v, approximate) / np.where(v == 0, 1, v))
    dx = dy * slope
    return dx.astype(dy.dtype)


def _seven_digits(x):
    """Abramowitz & Stegun 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-x * x))


_PRODUCT, _SAME, _Y, _ROOT = "d(x Φ) = Φ dx + x dΦ.", "The same function both ways.", "return y.astype -> y = {}; return y.astype", "math.sqrt(2 / math.pi) * (wide -> {} * (wide"
_EXACT, _SLOPE, _CUBE = "else right(wide) -> else {}", "dx = dy * slope -> dx = dy * ({})", "wide + 0.044715 * wide**3 -> {}"
_OF_EXACT = _SLOPE.format("slope if approximate else phi + v * {}")

BUGS, make = planted(__name__, [
    bug("tanh_always", "it is the tanh form where the exact one is asked for", "Which of the two forms was asked for?", "(np.float64), approximate -> (np.float64), True"),
    bug("exact_always", "it is the exact form where the tanh form is asked for", "Which of the two forms was asked for?", "(np.float64), approximate -> (np.float64), False"),
    bug("forms_swapped", "approximate=True gives the exact form, and False the tanh form", "Which of the two was asked for?", "(np.float64), approximate -> (np.float64), not approximate"),
    bug("sigmoid", "it is x σ(1.702 x)", "Compare with x Φ(x) at x = 1, to 6 digits.", _Y.format("wide / (1 + np.exp(-1.702 * np.clip(wide, -300, None)))")),
    bug("silu", "it is x σ(x)", "Compare with x Φ(x) at x = 1.", _Y.format("wide / (1 + np.exp(-np.clip(wide, -700, None)))")),
    bug("no_half", "the factor ½ is missing", "Compute gelu of a large number.", _Y.format("2 * y")),
    bug("erf_no_sqrt2", "Φ(x) is computed with erf(x), not erf(x / √2)", "Φ(1) is 0.8413...", _EXACT.format("right(wide * math.sqrt(2)) / math.sqrt(2)")),
    bug("erf_rational", "erf is an approximation good to seven digits", "How many digits of Φ(1) are right?", _EXACT.format("0.5 * wide * (1 + _seven_digits(wide / math.sqrt(2)))"), noisy=True),
    bug("cube_coefficient", "the tanh form has 0.44715 for 0.044715", "Count the zeros.", _CUBE.format("wide + 0.44715 * wide**3")),
    bug("cube_sign", "the tanh form subtracts the cube", "Does it still tend to x?", _CUBE.format("wide - 0.044715 * wide**3")),
    bug("no_cube", "the tanh form lacks the cube", "Compare with the exact form at x = 2.", _CUBE.format("wide")),
    bug("no_root", "the tanh form has 2/π for √(2/π)", "Compare with the exact form at x = 1.", _ROOT.format("2 / math.pi")),
    bug("pi_over_2", "the tanh form has √(π/2) for √(2/π)", "Compare with the exact form at x = 1.", _ROOT.format("math.sqrt(math.pi / 2)")),
    bug("phi_alone", "it is Φ(x), without the factor x", "Compute gelu(0).", _Y.format("np.where(wide == 0, 0.5, y / np.where(wide == 0, 1, wide))")),
    bug("relu", "it is the ReLU", "Is there a kink at 0?", _Y.format("np.maximum(wide, 0)")),
    bug("single_in_double", "it computes in float32 whatever goes in", "How many digits agree in float64?", _EXACT.format("right(wide.astype(np.float32)).astype(float)"), noisy=True),
    bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs.", "y.astype(x.dtype) -> y.astype(float)"),
    bug("changes_input", "it writes into x", "Print x before and after.", "return y.astype -> in_place(np.multiply, x, 0.5); return y.astype"),
    bug("tanh_in_backward", "the exact form has the tanh form's gradient", _SAME, "np.ones_like(v), v, approximate -> np.ones_like(v), v, True"),
    bug("exact_in_backward", "the tanh form has the exact form's gradient", _SAME, "np.ones_like(v), v, approximate -> np.ones_like(v), v, False"),
    bug("phi_only", "the gradient is Φ(x): the product rule is forgotten", _PRODUCT, _SLOPE.format("phi")),
    bug("pdf_only", "the gradient is x φ(x): half of the product rule", _PRODUCT, _SLOPE.format("slope - phi")),
    bug("pdf_no_x", "the gradient is Φ + φ, without x", _PRODUCT, _SLOPE.format("phi + np.where(v == 0, 0.5 * math.sqrt(2 / math.pi), (slope - phi) / np.where(v == 0, 1, v))")),
    bug("pdf_sign", "the gradient is Φ - x φ", _PRODUCT, _SLOPE.format("2 * phi - slope")),
    bug("pdf_no_half", "the density is exp(-x²) for exp(-x²/2)", "φ(1) is 0.2420...", _OF_EXACT.format("np.exp(-np.clip(v, -20, 20) ** 2) / math.sqrt(2 * math.pi)")),
    bug("pdf_no_norm", "the density lacks its factor 1 / √(2π)", "φ(0) is 0.3989...", _OF_EXACT.format("np.exp(-np.clip(v, -40, 40) ** 2 / 2)")),
    bug("relu_backward", "the gradient is the ReLU's", "Compute the slope at 0.", _SLOPE.format("(v > 0).astype(float)")),
    bug("no_dy", "the gradient is the slope and forgets dy", "The chain rule multiplies.", "dx = dy * slope -> dx = slope"),
    bug("backward_inplace", "the backward writes into dy", "Call backward twice.", "return dx.astype -> in_place(np.multiply, dy, 0.5); return dx.astype"),
])  # fmt: skip
