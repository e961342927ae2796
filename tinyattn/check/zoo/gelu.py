"""The GELU, wrong in every way that is known."""

import math
from types import SimpleNamespace

import numpy as np

from ...ops import gelu as right
from ...ops import gelu_backward as right_backward
from .bug import Bug, in_place

BUGS = [
    Bug("tanh_always", "it is the tanh form where the exact one is asked for", "Which of the two forms was asked for?"),
    Bug("exact_always", "it is the exact form where the tanh form is asked for", "Which of the two forms was asked for?"),
    Bug("forms_swapped", "approximate=True gives the exact form, and False the tanh form", "Which of the two was asked for?"),
    Bug("sigmoid", "it is x σ(1.702 x)", "Compare with x Φ(x) at x = 1, to 6 digits."),
    Bug("silu", "it is x σ(x)", "Compare with x Φ(x) at x = 1."),
    Bug("no_half", "the factor ½ is missing", "Compute gelu of a large number."),
    Bug("erf_no_sqrt2", "Φ(x) is computed with erf(x), not erf(x / √2)", "Φ(1) is 0.8413..."),
    Bug("erf_rational", "erf is an approximation good to seven digits", "How many digits of Φ(1) are right?", noisy=True),
    Bug("cube_coefficient", "the tanh form has 0.44715 for 0.044715", "Count the zeros."),
    Bug("cube_sign", "the tanh form subtracts the cube", "Does it still tend to x?"),
    Bug("no_cube", "the tanh form lacks the cube", "Compare with the exact form at x = 2."),
    Bug("no_root", "the tanh form has 2/π for √(2/π)", "Compare with the exact form at x = 1."),
    Bug("pi_over_2", "the tanh form has √(π/2) for √(2/π)", "Compare with the exact form at x = 1."),
    Bug("phi_alone", "it is Φ(x), without the factor x", "Compute gelu(0)."),
    Bug("relu", "it is the ReLU", "Is there a kink at 0?"),
    Bug("single_in_double", "it computes in float32 whatever goes in", "How many digits agree in float64?", noisy=True),
    Bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs."),
    Bug("changes_input", "it writes into x", "Print x before and after."),
    Bug("tanh_in_backward", "the exact form has the tanh form's gradient", "The same function both ways."),
    Bug("exact_in_backward", "the tanh form has the exact form's gradient", "The same function both ways."),
    Bug("phi_only", "the gradient is Φ(x): the product rule is forgotten", "d(x Φ) = Φ dx + x dΦ."),
    Bug("pdf_only", "the gradient is x φ(x): half of the product rule", "d(x Φ) = Φ dx + x dΦ."),
    Bug("pdf_no_x", "the gradient is Φ + φ, without x", "d(x Φ) = Φ dx + x dΦ."),
    Bug("pdf_sign", "the gradient is Φ - x φ", "d(x Φ) = Φ dx + x dΦ."),
    Bug("pdf_no_half", "the density is exp(-x²) for exp(-x²/2)", "φ(1) is 0.2420..."),
    Bug("pdf_no_norm", "the density lacks its factor 1 / √(2π)", "φ(0) is 0.3989..."),
    Bug("relu_backward", "the gradient is the ReLU's", "Compute the slope at 0."),
    Bug("no_dy", "the gradient is the slope and forgets dy", "The chain rule multiplies."),
    Bug("backward_inplace", "the backward writes into dy", "Call backward twice."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> gelu and gelu_backward with these bugs."""

    def gelu(x, approximate=False):
        dtype, given = x.dtype, x
        x = x.astype(np.float64)
        approximate = not approximate if "forms_swapped" in bugs else approximate
        approximate = False if "exact_always" in bugs else approximate
        if approximate or "tanh_always" in bugs:
            cube = 0.44715 if "cube_coefficient" in bugs else -0.044715 if "cube_sign" in bugs else 0.044715
            cube = 0.0 if "no_cube" in bugs else cube
            root = 2 / math.pi if "no_root" in bugs else math.sqrt(math.pi / 2 if "pi_over_2" in bugs else 2 / math.pi)
            y = 0.5 * x * (1 + np.tanh(root * (x + cube * x**3)))
        else:
            y = right(x)
            y = right(x * math.sqrt(2)) / math.sqrt(2) if "erf_no_sqrt2" in bugs else y
            y = 0.5 * x * (1 + _seven_digits(x / math.sqrt(2))) if "erf_rational" in bugs else y
            y = right(x.astype(np.float32)).astype(float) if "single_in_double" in bugs else y
        y = x / (1 + np.exp(-1.702 * np.clip(x, -300, None))) if "sigmoid" in bugs else y
        y = x / (1 + np.exp(-np.clip(x, -700, None))) if "silu" in bugs else y
        y = 2 * y if "no_half" in bugs else y
        y = np.where(x == 0, 0.5, y / np.where(x == 0, 1, x)) if "phi_alone" in bugs else y
        y = np.maximum(x, 0) if "relu" in bugs else y
        in_place(np.multiply, given, 0.5, "changes_input" in bugs)
        return y.astype(float if "double_out" in bugs else dtype)

    def gelu_backward(dy, x, approximate=False):
        dtype = dy.dtype
        wide = x.astype(np.float64)
        form = approximate
        form = True if "tanh_in_backward" in bugs else form
        form = False if "exact_in_backward" in bugs else form
        slope = right_backward(np.ones_like(wide), wide, form)
        pdf = np.exp(-np.clip(wide, -40, 40) ** 2 / 2) / math.sqrt(2 * math.pi)
        phi = np.where(wide == 0, 0.5, right(wide) / np.where(wide == 0, 1, wide))
        if approximate:
            u = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
            phi = 0.5 * (1 + np.tanh(u))
            slope = phi if "phi_only" in bugs else slope
            slope = slope - phi if "pdf_only" in bugs else slope
            slope = 2 * phi - slope if "pdf_sign" in bugs else slope
            if "pdf_no_x" in bugs:
                slope = phi + np.where(wide == 0, 0.5 * math.sqrt(2 / math.pi), (slope - phi) / np.where(wide == 0, 1, wide))
        else:
            slope = phi if "phi_only" in bugs else slope
            slope = wide * pdf if "pdf_only" in bugs else slope
            slope = phi + pdf if "pdf_no_x" in bugs else slope
            slope = phi - wide * pdf if "pdf_sign" in bugs else slope
            if "pdf_no_half" in bugs:
                slope = phi + wide * np.exp(-np.clip(wide, -20, 20) ** 2) / math.sqrt(2 * math.pi)
            slope = phi + wide * pdf * math.sqrt(2 * math.pi) if "pdf_no_norm" in bugs else slope
        slope = (wide > 0).astype(float) if "relu_backward" in bugs else slope
        dx = slope if "no_dy" in bugs else dy * slope
        in_place(np.multiply, dy, 0.5, "backward_inplace" in bugs)
        return dx.astype(dtype)

    return SimpleNamespace(gelu=gelu, gelu_backward=gelu_backward)


def _seven_digits(x):
    """Abramowitz & Stegun 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-x * x))
