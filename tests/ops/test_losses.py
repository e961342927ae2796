"""Losses: what their specs do not draw."""

import numpy as np
import pytest

from tinyattn import ops


@pytest.mark.host
def test_a_regularisation_of_numpy_is_a_number(rng):
    """A float64 scalar widens no float32 on the way: to the last bit the losses are those of a Python number."""
    positive, negatives = rng.standard_normal(50).astype("f"), rng.standard_normal((50, 7)).astype("f")
    for p, n in zip(positive, negatives, strict=True):
        assert ops.bpr_max(p, n, None, np.float64(0.3)) == ops.bpr_max(p, n, None, 0.3)
