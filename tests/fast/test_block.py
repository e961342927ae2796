"""The pre-LN block with its norms inside of products: the same numbers as the block that reads."""

import itertools

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.fast.block import FusedBlockCache, FusedHeadsCache
from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, MECHANISMS, Block, FeedForward, LayerNorm, MultiHead, RMSNorm
from tinyattn.layers.positions import POSITIONS
from tinyattn.ops import Mask
from tinyattn.tree import leaves

HEADS = [MultiHead(h, bias=b, output=o) for h, b, o in itertools.product((1, 3), (True, False), (True, False))]
HEADS += [MultiHead(2, MECHANISMS["window"](window=3)), MultiHead(3, kv_heads=1)]        # whose norm reads
MASKS = [None, Mask(causal=True), np.random.default_rng(0).random((70, 70)) < 0.5]


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("feed_forward", [FeedForward(5), FeedForward(5, "gelu")], ids=lambda f: f.activation)
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_the_fused_block_is_the_readable_one(heads, feed_forward, rate, rng):
    """y, who looks at whom, one row, and every gradient, under the same names."""
    fused = Block(heads, norm=LayerNorm(1e-8), feed_forward=feed_forward, rate=rate)
    p = noisy(fused.init(rng, 6), rng)
    x, dy = rng.standard_normal((2, 3, 70, 6))
    for mask in MASKS[: 3 if heads.is_plain else 2]:
        found = []
        for fast in (True, False):
            block = Block(heads, norm=LayerNorm(1e-8), feed_forward=feed_forward, rate=rate)
            with readable(not fast):
                y, cache = block.forward(p, x, mask=mask, rng=np.random.default_rng(1))
            can = heads.is_plain or feed_forward.activation == "relu"
            assert isinstance(cache, FusedBlockCache) == (fast and can)
            dx, grads = block.backward(p, dy, cache)
            found.append({"y": y, "dx": dx, "weights": cache.attention.weights, **dict(leaves(grads))})
        mine, theirs = found
        assert mine.keys() == theirs.keys()
        for name, exact in theirs.items():
            np.testing.assert_allclose(mine[name], exact, rtol=0, atol=1e-11, err_msg=name)
        np.testing.assert_array_equal(mine["weights"].shape, theirs["weights"].shape)


def test_what_is_not_fused_is_computed_as_it_reads(rng):
    others = [
        *(Block(MultiHead(2), form) for form in BLOCK_FORMS if form != "pre"),
        Block(MultiHead(2), norm=RMSNorm()),
        Block(MultiHead(4, kv_heads=2), feed_forward=FeedForward(activation="gelu")),
        Block(MultiHead(2, position=POSITIONS["rope"]()), feed_forward=FeedForward(activation="gelu")),
    ]
    for block in others:
        p, x = block.init(rng, 8), rng.standard_normal((2, 5, 8))
        _, cache = block.forward(p, x, mask=Mask(causal=True))
        assert not isinstance(cache, FusedBlockCache)
        assert not isinstance(cache.attention, FusedHeadsCache)
    block = Block(MultiHead(2))
    p = block.init(rng, 8)
    with readable():
        _, cache = block.forward(p, x, mask=Mask(causal=True))
    assert not isinstance(cache, FusedBlockCache)
    row, _ = block.forward(p, x, mask=Mask(causal=True), at=np.array([4, 0]))       # inference of one row reads, too
    y, _ = block.forward(p, x, mask=Mask(causal=True))
    np.testing.assert_allclose(row[:, 0], y[[0, 1], [4, 0]], rtol=0, atol=1e-12)
