"""A norm and what reads it, in their faster form: the same numbers as one after the other."""

import itertools

import numpy as np
import pytest

from tinyattn.layers import FUSED, FeedForward, LayerNorm, MultiHead, Pair, RMSNorm, gather_rows, paired
from tinyattn.ops import Mask
from tinyattn.tree import leaves, tree_map

CHOICES = itertools.product((1, 3), (True, False), (True, False))
PARTS = [*(MultiHead(heads, bias=bias, output=output) for heads, bias, output in CHOICES), FeedForward(5)]
MASKS = [None, Mask(causal=True), np.random.default_rng(0).random((70, 70)) < 0.5]


def noisy(tree, rng):
    return tree_map(lambda a: a + 0.3 * rng.standard_normal(a.shape), tree)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_the_faster_pair_is_the_readable_one(part, rng):
    """y, who looks at whom, one row, and every gradient, under the same names."""
    norm = LayerNorm(1e-8)
    fast, readable = paired(norm, part), Pair(norm, part)
    assert type(fast) is not Pair
    p_norm, p = noisy(norm.init(6), rng), noisy(part.init(rng, 6), rng)
    x, dy = rng.standard_normal((2, 3, 70, 6))
    at = np.array([0, 69, 33])
    for mask in MASKS if isinstance(part, MultiHead) else [None]:
        context = {"mask": mask} if isinstance(part, MultiHead) else {}
        found = []
        for pair in (fast, readable):
            y, *caches = pair.forward(p_norm, p, x, **context)
            dx, d_norm, grads = pair.backward(p_norm, p, dy, *caches)
            found.append({"y": y, "dx": dx, **dict(leaves(d_norm)), **dict(leaves(grads))})
            if context:
                row = pair.at(p_norm, p, x, at, **context)
                np.testing.assert_allclose(row, gather_rows(y, at), rtol=0, atol=1e-12)
                found[-1]["weights"] = caches[1].weights
        mine, theirs = found
        assert mine.keys() == theirs.keys()
        for name, exact in theirs.items():
            np.testing.assert_allclose(mine[name], exact, rtol=0, atol=1e-11, err_msg=name)


def test_other_norms_activations_and_shared_heads_are_computed_as_they_read():
    for norm in (LayerNorm(), RMSNorm()):
        assert type(paired(norm, FeedForward(activation="gelu"))) is Pair
    for part in PARTS:
        assert type(paired(RMSNorm(), part)) is Pair
    assert type(paired(LayerNorm(), MultiHead(4, kv_heads=2))) is Pair


def test_every_faster_pair_is_tested_here():
    # a new line in FUSED: its part, with every option it is faster for, goes into PARTS
    assert set(FUSED) == {(LayerNorm, type(part)) for part in PARTS}
