"""Pooling: the memory that winners take."""

import numpy as np
import pytest

from tinyattn import ops


@pytest.mark.parametrize(("width", "dtype"), [(127, np.int8), (129, np.int64)])
def test_winners_take_8_bits_where_these_hold_them(width, dtype):
    x = np.zeros((width + 2, 1), np.float32)
    x[width - 1] = 1  # the last of the first window, and in each of the next two one earlier
    _, winners = ops.max_pool1d(x, width)
    assert winners.dtype == dtype
    assert winners[:, 0].tolist() == [width - 1, width - 2, width - 3]
