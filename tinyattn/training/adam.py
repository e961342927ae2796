"""Adam (Kingma & Ba 2015, algorithm 1) on one flat vector of parameters."""

import math
from typing import NamedTuple

from ..backend import Array, get_xp
from ..forms import replaceable


class Moments(NamedTuple):
    """Running means of the gradient and of its square; zeros before the first step."""

    m: Array
    v: Array


@replaceable
def adam(
    vector: Array,
    gradient: Array,
    moments: Moments,
    step: int | tuple[Array, Array],
    *,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.98,
    eps: float = 1e-8,
) -> None:
    """One step: vector -= lr m̂ / (√v̂ + eps), with m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ), t = `step` from 1 on.

    First, m = β₁ m + (1 - β₁) g and v = β₂ v + (1 - β₂) g². Both `vector` and `moments` are updated in place.
    Shapes: vector, gradient, m, v (P,). m and v start at 0, so at first they are too small by the factor 1 - βᵗ, by
    which they are divided. So the first step is lr · sign(g), for any |g| well above eps. SASRec uses beta2 = 0.98.
    `step` may be what `corrections` returns, as float32 arrays on a device; `lr` is then not read.
    """
    xp = get_xp(vector, gradient)
    root, rate = step if isinstance(step, tuple) else corrections(step, lr, beta1, beta2)
    m, v = moments
    m *= beta1
    m += (1 - beta1) * gradient
    v *= beta2
    v += (1 - beta2) * (gradient * gradient)
    size = xp.sqrt(v)
    size *= root
    size += eps
    update = m / size
    update *= rate
    vector -= update


def corrections(step: int, lr: float, beta1: float = 0.9, beta2: float = 0.98) -> tuple[float, float]:
    """1 / √(1 - β₂ᵗ) and lr / (1 - β₁ᵗ): the numbers of a step that depend on t = `step`."""
    return 1 / math.sqrt(1 - beta2**step), lr / (1 - beta1**step)
