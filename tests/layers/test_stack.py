"""Blocks one after another."""

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_layer
from tinyattn.layers import Block, FeedForward, MultiHead, Stack
from tinyattn.ops import Mask

BLOCKS = [Block(MultiHead(2), "pre"), Block(MultiHead(1), "post", feed_forward=FeedForward(5))]
CAUSAL = {"mask": Mask(causal=True)}


def test_each_block_takes_what_the_one_before_gives(rng):
    stack, x = Stack(BLOCKS), rng.standard_normal((2, 3, 4))
    p = stack.init(rng, 4)
    y, caches = stack.forward(p, x, **CAUSAL)
    first, _ = BLOCKS[0].forward(p[0], x, **CAUSAL)
    np.testing.assert_array_equal(y, BLOCKS[1].forward(p[1], first, **CAUSAL)[0])
    assert len(caches) == 2


def test_gradients_come_back_the_same_way_and_pass_what_is_done_before_each_block(rng):
    stack, real = Stack(BLOCKS), np.array([0.0, 1.0, 1.0])[:, None]

    def before(x):
        return x * real

    def forward(p, x):
        return stack.forward(p, x, before=before, **CAUSAL)

    def backward(p, dy, caches):
        return stack.backward(p, dy, caches, before=before)

    p, x = noisy(stack.init(rng, 4), rng), rng.standard_normal((2, 3, 4))
    assert gradcheck_layer(forward, backward, p, x)
    dx, _ = backward(p, np.ones((2, 3, 4)), forward(p, x)[1])
    assert not dx[:, 0].any()
    assert dx[:, 1:].all()


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_one_row_is_that_row_of_all(blocks, rng):
    stack, x, at = Stack(BLOCKS[:blocks]), rng.standard_normal((2, 3, 4)), np.array([0, 2])
    p = stack.init(rng, 4)
    y, _ = stack.forward(p, x, before=np.negative, **CAUSAL)
    np.testing.assert_allclose(stack.at(p, x, at, before=np.negative, **CAUSAL)[:, 0], y[[0, 1], at], atol=1e-12)


def test_parameters_of_another_number_of_blocks_are_refused(rng):
    p = Stack(BLOCKS).init(rng, 4)
    with pytest.raises(ValueError, match="longer"):
        Stack(BLOCKS[:1]).forward(p, rng.standard_normal((2, 3, 4)))
