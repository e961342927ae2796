"""The mechanism's W: no parameter, so it has to be the same wherever a model is loaded."""

import numpy as np
import pytest

from tinyattn.layers import MultiHead
from tinyattn.layers.mechanisms import Performer
from tinyattn.ops import Mask


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_w_is_that_of_every_saved_model(dtype, rng):
    mixer = MultiHead(2, Performer(features=3))
    p = mixer.init(rng, 4)
    p = {name: {part: a.astype(dtype) for part, a in each.items()} for name, each in p.items()}
    for _ in range(2):
        _, cache = mixer.forward(p, rng.standard_normal((1, 5, 4)).astype(dtype), mask=Mask(causal=True))
        W = cache.attended.W
        assert W.dtype == dtype
        expected = [[0.46809033, -0.07029288], [0.07911353, 0.52682827], [-1.31193167, 1.18109262]]
        np.testing.assert_allclose(W, expected, rtol=0, atol=1e-7)
    assert "mechanism" not in p                 # nothing for Adam to move
