"""The logistic sigmoid: from any number to one between 0 and 1."""

import numpy as np

from ..backend import Array, get_xp


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)), elementwise, at both ends. Shapes: z (...) -> (...)."""
    with np.errstate(over="ignore"):                    # far below 0, 1 / (1 + inf) is 0, as it should be
        return 1 / (1 + get_xp(z).exp(-z))
