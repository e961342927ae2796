"""Schedules: factors of the learning rate at each step. The rate grows over a warm-up, and `lr` is its peak.

    rate(t) = lr · min(1, t / w) · schedule(max(t, w)),    t = 1 .. T

w is the number of steps of the warm-up, or 1 if there is none (Goyal et al. 2017, section 2.2). A schedule is a
function (t, w, T) of an array of steps t >= w that is 1 at w.
"""

import numpy as np

from ..options import one_of


def constant(t: np.ndarray, w: int, T: int) -> np.ndarray:
    """1."""
    return np.ones(t.shape)


def linear(t: np.ndarray, w: int, T: int) -> np.ndarray:
    """(T + 1 - t) / (T + 1 - w): a line that is 0 only after the last step (Devlin et al. 2019, appendix A.2)."""
    return (T + 1 - t) / (T + 1 - w)


def cosine(t: np.ndarray, w: int, T: int) -> np.ndarray:
    """(1 + cos(π (t - w) / (T + 1 - w))) / 2: slow at both ends (Loshchilov & Hutter 2017, equation 5, one cycle)."""
    return (1 + np.cos(np.pi * (t - w) / (T + 1 - w))) / 2


def noam(t: np.ndarray, w: int, T: int) -> np.ndarray:
    """√(w / t). With lr = 1 / √(D w) it is D^-½ min(t^-½, t w^-³ᐟ²) (Vaswani et al. 2017, equation 3)."""
    return np.sqrt(w / t)


SCHEDULES = {"constant": constant, "linear": linear, "cosine": cosine, "noam": noam}


def rate_factors(schedule: str, warmup: int, steps: int) -> np.ndarray:
    """(steps + 1,): the factor of the learning rate at each step, counted from 1; entry 0 is 0.

    A warm-up longer than the training is cut off: the rate then never reaches its peak.
    Raises ValueError for a schedule that is not in SCHEDULES.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule is {schedule!r}, expected {one_of(SCHEDULES, schedule)}")
    t, w = np.arange(steps + 1), max(warmup, 1)
    return np.minimum(1.0, t / w) * SCHEDULES[schedule](np.maximum(t, w), w, max(steps, w))


def rate_at(lr: float, factors: np.ndarray, step: int) -> float:
    """The learning rate of a step; the last factor holds for all later steps."""
    return lr * float(factors[min(step, len(factors) - 1)])
