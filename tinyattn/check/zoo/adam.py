"""Adam, and its known bugs."""

import numpy as np

from .bug import planted


def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
    m, v = moments
    g = gradient
    new_m = beta1 * m + (1 - beta1) * g
    new_v = beta2 * v + (1 - beta2) * (g * g)
    t = step
    up_m, up_v = 1 - beta1**t, 1 - beta2**t
    m_hat, v_hat = new_m / np.float64(up_m), new_v / np.float64(up_v)
    size = np.sqrt(v_hat) + eps
    update = lr * m_hat / size
    vector += (-update).astype(vector.dtype)
    m[...] = new_m
    v[...] = new_v


BUGS, make = planted(__name__)
