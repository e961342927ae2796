"""Losses: what their specs do not draw."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import ops
from tinyattn.ops import losses


@pytest.mark.host
def test_a_regularisation_of_numpy_is_a_number(rng):
    """A float64 scalar widens no float32 on the way: to the last bit the losses are those of a Python number."""
    positive, negatives = rng.standard_normal(50).astype("f"), rng.standard_normal((50, 7)).astype("f")
    for p, n in zip(positive, negatives, strict=True):
        assert ops.bpr_max(p, n, None, np.float64(0.3)) == ops.bpr_max(p, n, None, 0.3)


@given(
    n=st.integers(0, 7), V=st.integers(1, 20), tile=st.integers(1, 22), smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    masked=st.booleans(), size=st.sampled_from([1.0, 30.0]), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
@pytest.mark.host
def test_every_tile_has_the_loss_and_the_gradients_of_all_logits_at_once(n, V, tile, smoothing, masked, size, seed):
    rng = np.random.default_rng(seed)
    x, E, targets = size * rng.standard_normal((2, n, 3)), rng.standard_normal((V, 3)), rng.integers(0, V, (2, n))
    weights = np.round(rng.random((2, n)) * 2) if masked else None          # some are 0, at times all
    logits = x @ E.T
    expected = ops.smoothed_cross_entropy(logits, targets, weights, smoothing)
    dlogits = ops.smoothed_cross_entropy_backward(0.7, logits, targets, weights, smoothing)
    loss, L = ops.tiled_cross_entropy(x, E, targets, weights, smoothing, tile)
    dx, dE = ops.tiled_cross_entropy_backward(0.7, x, E, L, targets, weights, smoothing, tile)
    np.testing.assert_allclose(loss, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dx, dlogits @ E, rtol=0, atol=1e-12)
    np.testing.assert_allclose(dE, np.einsum("bnv,bnd->vd", dlogits, x), rtol=0, atol=1e-12 * size)


@pytest.mark.host
def test_gradients_of_classes_are_written_where_the_caller_says(rng):
    x, E, targets = rng.standard_normal((6, 3)), rng.standard_normal((5, 3)), rng.integers(0, 5, 6)
    _, L = ops.tiled_cross_entropy(x, E, targets)
    expected = ops.tiled_cross_entropy_backward(0.7, x, E, L, targets)[1]
    buffer = np.full_like(E, np.nan)
    assert ops.tiled_cross_entropy_backward(0.7, x, E, L, targets, into=buffer)[1] is buffer
    np.testing.assert_array_equal(buffer, expected)


@pytest.mark.host
@pytest.mark.parametrize(
    ("positions", "classes", "tile", "sizes"),
    [(3, 10, None, [4, 4, 2]), (20, 2, None, [1, 1]), (0, 13, None, [12, 1]), (3, 10, 7, [7, 3])],
)
def test_a_tile_has_as_many_classes_as_there_is_room_for(positions, classes, tile, sizes, monkeypatch):
    monkeypatch.setattr(losses, "TILE", 12)
    tiles = list(losses._tiles(np.ones((positions, 2)), classes, tile))
    assert [each.stop - each.start for each in tiles] == sizes
    assert [each.start for each in tiles] == [sum(sizes[:i]) for i in range(len(sizes))]


@pytest.mark.host
def test_memory_of_tiles_grows_with_the_classes_and_not_with_the_logits(rng):
    """200 positions and 20,000 classes have 32 MB of logits; x, E and their gradients together 1.3 MB."""
    x, E, targets = rng.standard_normal((200, 4)), rng.standard_normal((20_000, 4)), rng.integers(0, 20_000, 200)
    tracemalloc.start()
    _, L = ops.tiled_cross_entropy(x, E, targets, tile=100)
    ops.tiled_cross_entropy_backward(1.0, x, E, L, targets, tile=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6
