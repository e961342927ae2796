"""Random numbers by key: every place of a mask is drawn on its own."""

import numpy as np
import pytest

from tinyattn.random import MaskKeys, keep_mask


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 8), (6, 5, 7, 8)])
def test_no_two_rows_of_a_mask_agree_beyond_chance(shape):
    """Neighbours along any axis, and along any two at once, as one step up and one down."""
    mask = keep_mask(MaskKeys(np.random.default_rng(0), np.arange(shape[0])), (*shape[:-1], 400), 0.5)
    steps = [np.eye(mask.ndim, dtype=int)[axis] * sign for axis in range(mask.ndim) for sign in (1, -1)]
    for step in [a + b for a in steps for b in steps if (a + b).any()]:
        moved = tuple(slice(max(s, 0), size + min(s, 0)) for s, size in zip(step, mask.shape, strict=True))
        there = tuple(slice(max(-s, 0), size + min(-s, 0)) for s, size in zip(step, mask.shape, strict=True))
        assert 0.4 < np.mean(mask[moved] == mask[there]) < 0.6, step


def test_more_axes_than_there_are_keys_for_are_refused():
    with pytest.raises(ValueError, match="has 5 axes, expected at most 4"):
        keep_mask(np.random.default_rng(0), (2, 2, 2, 2, 2), 0.5)
