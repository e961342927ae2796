"""A step of an optimiser."""

import math

import numpy as np

from ...backend import Array


def adam(
    vector: Array, gradient: Array, m: Array, v: Array, step: int, lr: float = 1e-3, beta1: float = 0.9,
    beta2: float = 0.98, eps: float = 1e-8,
) -> tuple[Array, ...]:  # fmt: skip
    """-> new vector, m, v, entry by entry."""
    results = np.zeros((3, len(vector)))
    for i in range(len(vector)):
        m_i = beta1 * m[i] + (1 - beta1) * gradient[i]
        v_i = beta2 * v[i] + (1 - beta2) * gradient[i] ** 2
        m_hat, v_hat = m_i / (1 - beta1**step), v_i / (1 - beta2**step)
        results[:, i] = vector[i] - lr * m_hat / (math.sqrt(v_hat) + eps), m_i, v_i
    return tuple(results)


def adamw(
    vector: Array, gradient: Array, m: Array, v: Array, step: int, lr: float = 1e-3, beta1: float = 0.9,
    beta2: float = 0.98, eps: float = 1e-8, weight_decay: float | Array = 0.01,
) -> tuple[Array, ...]:  # fmt: skip
    """-> new vector, m, v, entry by entry."""
    new, m_new, v_new = adam(vector, gradient, m, v, step, lr, beta1, beta2, eps)
    decay = np.broadcast_to(weight_decay, vector.shape)
    return np.array([new[i] - lr * decay[i] * vector[i] for i in range(len(vector))]), m_new, v_new


def curve(name: str, t: int, w: int, T: int, floor: float) -> float:
    """The learning rate of step t after the peak at step w, as a share of it; lines and cosines end at `floor` at T."""
    along = min((t - w) / (T - w), 1)
    falls = {"a line": 1 - along, "a cosine": math.cos(math.pi * along / 2) ** 2}
    if name in falls:
        return floor + (1 - floor) * falls[name]
    return math.sqrt(w / t) if name == "an inverse root" else 1.0
