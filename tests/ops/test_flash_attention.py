"""Tiles and memory of `flash_attention`: what its spec does not draw."""

import sys
import tracemalloc

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.random import PairMask

CAUSAL = ops.Mask(causal=True)
PLAN = sys.modules["tinyattn.ops.attention.flash_attention"]._Plan      # `ops.attention` is the function


@pytest.mark.parametrize(
    "mask",
    [CAUSAL, ops.Mask(window=7), ops.Mask(causal=True, window=5, lengths=np.array([40, 9, 0])), "array"],
    ids=["causal", "window", "lengths", "array"],
)
@pytest.mark.parametrize("tile", [(13, 5), (5, 13), (8, 64)])
def test_tiles_of_every_mask_with_dropout(mask, tile, rng):
    """Values, gradients, and L, the logarithm of the sum that softmax divides by."""
    q, k, v, dout = rng.standard_normal((4, 3, 2, 40, 6))
    mask = rng.random((3, 1, 40, 40)) < 0.1 if isinstance(mask, str) else mask
    allowed = np.broadcast_to(mask if isinstance(mask, np.ndarray) else mask.array(40, 40, like=q), (3, 2, 40, 40))
    keep = PairMask(7, 0.25, np.array([4, 0, 2]))
    whole = keep.tile((3, 2), slice(0, 40), slice(0, 40), q)
    out, L = ops.flash_attention(q, k, v, mask, keep, tile=tile)
    expected, weights = ops.attention(q, k, v, allowed, keep=whole, rate=0.25)
    np.testing.assert_allclose(out, expected, atol=1e-13)
    with np.errstate(divide="ignore"):
        sums = np.log(np.sum(np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(6)) * allowed, axis=-1, keepdims=True))
    np.testing.assert_allclose(L, sums, atol=1e-13)
    gradients = ops.flash_attention_backward(dout, q, k, v, out, L, mask, keep, tile=tile)
    theirs = ops.attention_backward(dout, q, k, v, weights, keep=whole, rate=0.25)[:3]
    for g, other in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(g, other, atol=1e-12)


@pytest.mark.host
def test_memory_grows_with_n_and_not_with_its_square(rng):
    """Four times as many tokens: at most four times the memory, beside the same few tiles."""
    peaks = []
    for n in (500, 2000):
        q, k, v, dout = rng.standard_normal((4, n, 4))
        tracemalloc.start()
        out, L = ops.flash_attention(q, k, v, CAUSAL, tile=(100, 100))
        ops.flash_attention_backward(dout, q, k, v, out, L, CAUSAL, tile=(100, 100))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 4 * peaks[0]
    assert peaks[1] < 2000 * 2000 * 8 / 20


@pytest.mark.host
@pytest.mark.parametrize(
    ("mask", "computed"),
    [(None, 64), (CAUSAL, 36), (ops.Mask(causal=True, window=5), 15), (ops.Mask(lengths=np.array([32])), 32),
     (np.eye(64, dtype=bool), 8), (np.zeros((64, 64), bool), 0)],
    ids=["all", "causal", "window", "lengths", "diagonal", "none"],
)  # fmt: skip
def test_tiles_without_a_pair_are_not_computed(mask, computed, rng, monkeypatch):
    made = []
    scores = PLAN.scores
    monkeypatch.setattr(PLAN, "scores", lambda *a: made.append(1) or scores(*a))
    q, dout = rng.standard_normal((2, 1, 1, 64, 4))
    out, L = ops.flash_attention(q, q, q, mask, tile=(8, 8))
    assert len(made) == computed
    ops.flash_attention_backward(dout, q, q, q, out, L, mask, tile=(8, 8))
    assert len(made) == 2 * computed


@pytest.mark.host
@pytest.mark.parametrize(
    ("n", "m", "mask", "expected"),
    [
        (12, 12, ops.Mask(), "8x5 8x5 8x2 4x5 4x5 4x2"),
        (12, 12, CAUSAL, "8x5* 8x3* 4x5 4x3 4x4*"),  # queries 8 to 11 all see the keys before 8, and no mask is made
        (12, 3, CAUSAL, "8x3* 4x3"),
        (3, 12, CAUSAL, "3x3*"),
        (12, 12, ops.Mask(causal=True, window=3), "8x5* 8x3* 4x2* 4x4*"),
        (12, 12, ops.Mask(window=3), "8x5* 8x5* 4x5* 4x1*"),
        (12, 12, ops.Mask(lengths=np.array([6])), "8x5 8x5* 4x5 4x5*"),
    ],
    ids=["all", "causal", "few keys", "few queries", "causal window", "window", "lengths"],
)
def test_tiles_are_no_larger_than_they_have_to_be(n, m, mask, expected, rng, monkeypatch):
    """Queries by keys of each tile of 8 x 5, with * where an array hides some; and the memory that all share."""
    made, scores = [], PLAN.scores

    def noted(plan, cq, kT, allowed, room):
        made.append(f"{cq.shape[-2]}x{kT.shape[-1]}" + "*" * (allowed is not True))
        assert room.shape == (min(8, n), min(5, m))
        return scores(plan, cq, kT, allowed, room)

    monkeypatch.setattr(PLAN, "scores", noted)
    q, k, dout = (rng.standard_normal((1, 1, size, 4)) for size in (n, m, n))
    out, L = ops.flash_attention(q, k, k, mask, tile=(8, 5))
    ops.flash_attention_backward(dout, q, k, k, out, L, mask, tile=(8, 5))
    assert made == 2 * expected.split()


def by_attention(q, k, v, scale):
    out, weights = ops.attention(q, k, v, scale=scale)
    return out, *ops.attention_backward(out, q, k, v, weights, scale=scale)[:3]


def by_fused(q, k, v, scale):
    out, cache = ops.fused_attention(q, k, v, scale=scale)
    return out, *ops.fused_attention_backward(out, cache)


def by_flash(q, k, v, scale):
    out, L = ops.flash_attention(q, k, v, scale=scale)
    return out, *ops.flash_attention_backward(out, q, k, v, out, L, scale=scale)


@pytest.mark.host
@pytest.mark.parametrize("compute", [by_attention, by_fused, by_flash])
def test_a_scale_of_numpy_is_a_number(compute, rng):
    """A float64 scalar widens no float32 on the way: to the last bit the result is that of a Python number."""
    q, k, v = rng.standard_normal((3, 7, 5)).astype("f")
    for scale in (2.0, 0.3):
        found = compute(q, k, v, np.float64(scale))
        s = np.exp(scale * (q.astype(float) @ k.T))
        np.testing.assert_allclose(found[0], s / s.sum(axis=1, keepdims=True) @ v, atol=1e-5)
        for x, y in zip(found, compute(q, k, v, scale), strict=True):
            assert x.dtype == np.float32
            np.testing.assert_array_equal(x, y)


@pytest.mark.host
@pytest.mark.parametrize("tile", [(0, 8), (8, -1)])
def test_a_tile_without_a_pair_is_refused(tile, rng):
    q = rng.standard_normal((4, 2))
    with pytest.raises(ValueError, match=r"tile is \(.*\), expected at least 1 query and 1 key"):
        ops.flash_attention(q, q, q, tile=tile)


@pytest.mark.host
def test_masks_that_do_not_fit_are_refused(rng):
    q = rng.standard_normal((2, 3, 4, 2))
    with pytest.raises(ValueError, match=r"flash_attention: mask has shape \(5, 5\), .* broadcasts to \(2, 3, 4, 4\)"):
        ops.flash_attention(q, q, q, np.ones((5, 5), bool))
    with pytest.raises(ValueError, match=r"flash_attention_backward: mask has shape \(5, 5\)"):
        ops.flash_attention_backward(q, q, q, q, q, q[..., :1], np.ones((5, 5), bool))
    with pytest.raises(TypeError, match="flash_attention: keep is a ndarray, expected a PairMask"):
        ops.flash_attention(q, q, q, keep=np.ones((4, 4), bool))
    for x, lengths in ((q, [4]), (q, [4, 4, 4]), (q[0], [4, 4, 4]), (q[0, 0], [4])):
        with pytest.raises(ValueError, match=r"flash_attention: the mask's lengths have shape .* one a sequence"):
            ops.flash_attention(x, x, x, ops.Mask(lengths=np.array(lengths)))


def test_lengths_belong_to_sequences_under_further_axes(rng):
    q, mask = rng.standard_normal((3, 2, 1, 5, 4)), ops.Mask(lengths=np.array([5, 2]))
    expected, _ = ops.attention(q, q, q, mask.array(5, 5, like=q))
    np.testing.assert_allclose(ops.flash_attention(q, q, q, mask, tile=(2, 2))[0], expected, atol=1e-13)


@pytest.mark.parametrize(("d", "e"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_heads_of_one_feature_or_none(d, e, rng):
    q, k, v, dout = (rng.standard_normal((2, 7, size)) for size in (d, d, e, e))
    out, L = ops.flash_attention(q, k, v, CAUSAL, tile=(3, 2))
    found = ops.flash_attention_backward(dout, q, k, v, out, L, CAUSAL, tile=(3, 2))
    whole, weights = ops.attention(q, k, v, CAUSAL.array(7, 7, like=q))
    theirs = ops.attention_backward(dout, q, k, v, weights)[:3]
    for mine, expected in zip((out, *found), (whole, *theirs), strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-13)
