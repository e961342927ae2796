"""What multi-head attention and blocks do, beyond having right gradients."""

import numpy as np
import pytest

from tests.helpers import noisy
from tests.layers.forms import FORMS, block_of
from tinyattn.fast.one_query import attention_of_one
from tinyattn.layers import BLOCK_FORMS, MIXERS, Block, DecoderBlock, MultiHead, multi_head_attention, multi_head_init
from tinyattn.layers.heads import merge, split
from tinyattn.layers.mechanisms.grid_windows import GridWindows
from tinyattn.ops import Mask
from tinyattn.tree import tree_map


def test_split_and_merge_are_inverse_and_head_i_owns_its_columns(rng):
    x = rng.standard_normal((2, 5, 6))
    np.testing.assert_array_equal(merge(split(x, 3)), x)
    np.testing.assert_array_equal(split(x, 3)[:, 1], x[..., 2:4])


def test_the_key_bias_is_a_dead_parameter(rng):
    from tinyattn.layers import multi_head_attention_backward

    p = multi_head_init(rng, 6)
    x = rng.standard_normal((4, 6))
    y, cache = multi_head_attention(p, x, x, heads=2)
    _, _, grads = multi_head_attention_backward(p, rng.standard_normal(y.shape), cache)
    np.testing.assert_allclose(grads["key"]["b"], 0, atol=1e-14)
    assert np.max(np.abs(grads["query"]["b"])) > 1e-3


def test_heads_must_divide_the_dimension(rng):
    for heads in (4, 0, -3):
        with pytest.raises(ValueError, match=f"dim 6 is not divisible by heads {heads}"):
            multi_head_attention(multi_head_init(rng, 6), np.ones((2, 6)), np.ones((2, 6)), heads=heads)


@pytest.mark.host
def test_what_a_block_cannot_be_made_of_is_refused():
    for make, says in (
        (lambda: MultiHead(0), "heads is 0, expected at least 1"),
        (lambda: MultiHead(mechanism="full"), "mechanism is 'full', expected an object of class Mechanism"),
        (lambda: MultiHead(position="rope"), "position is 'rope', expected an object of class Position"),
        (lambda: Block(form="prae"), "form is 'prae', expected one of pre, post, sasrec, .*; did you mean pre"),
        (lambda: DecoderBlock(form="past"), "form is 'past', expected one of pre, post; did you mean post"),
        (lambda: DecoderBlock(cross=MIXERS["gru"]()), "cross is mixer gru, which has no keys that could come from"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            make()


@pytest.mark.host
def test_what_a_mechanism_does_not_take_is_refused_by_name():
    windows, lengths, array = GridWindows(2, 2, 2), np.array([0]), np.zeros((4, 4), bool)       # which takes nothing
    windows.refuse(Mask(), {}, False)
    for given, says in (
        ((Mask(causal=True), {}, False), "a causal mask"), ((Mask(window=2), {}, False), "a mask with a window"),
        ((Mask(lengths=lengths), {}, False), "a mask with lengths"), ((Mask(), {}, True), "dropout of its weights"),
        ((Mask(allowed=array), {}, False), "an array as its mask"),
        ((Mask(), {"bias": 0}, False), "a bias of its scores"),
        ((Mask(), {"relative_values": 0}, False), "values that depend on the distance"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"mechanism windows does not take {says}$"):
            windows.refuse(*given)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("output", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_of_one_query_needs_no_keys(heads, output, bias, rng):
    p = noisy(multi_head_init(rng, 6, bias=bias, output=output), rng)
    x, memory = rng.standard_normal((3, 1, 6)), rng.standard_normal((3, 5, 6))
    mask = rng.random((3, 1, 1, 5)) < 0.6
    mask[1] = False  # a query that may look at nothing
    for m in (mask, None):
        expected, _ = multi_head_attention(p, x, memory, heads=heads, mask=m)
        found = attention_of_one(p, x, memory, heads=heads, mask=m)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_a_causal_block_is_causal_and_not_over_masked(form, rng):
    block = block_of(form)
    p = noisy(block.init(rng, 6), rng, 0.2)
    x = rng.standard_normal((1, 5, 6))
    mask = np.tri(5, dtype=bool)
    y, cache = block.forward(p, x, mask=mask)
    for t in range(5):
        other = x.copy()
        other[:, t] += rng.standard_normal(6)  # no equal shift of all features: a norm would not see it
        moved = np.abs(block.forward(p, other, mask=mask)[0] - y).max(axis=(0, 2))
        assert np.all(moved[:t] == 0)  # the past does not move, to the last bit
        assert np.all(moved[t:] > 1e-9)  # the present and all that follows do
        dy = np.zeros_like(y)
        dy[:, t] = rng.standard_normal(6)
        dx = np.abs(block.backward(p, dy, cache)[0]).max(axis=(0, 2))
        assert np.all(dx[t + 1 :] == 0)
        assert np.all(dx[: t + 1] > 1e-9)


@pytest.mark.parametrize("form", ["pre", "fast pre"])
def test_a_silent_branch_makes_the_pre_block_the_identity(form, rng):
    block = block_of(form)
    p = block.init(rng, 6)
    p["attention"]["output"] = tree_map(np.zeros_like, p["attention"]["output"])
    p["feed_forward"]["outer"] = tree_map(np.zeros_like, p["feed_forward"]["outer"])
    x, dy = rng.standard_normal((2, 3, 4, 6))
    y, cache = block.forward(p, x)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(block.backward(p, dy, cache)[0], dy)


def test_the_forms_differ_in_what_travels_on(rng):
    """A shift of all features is seen by pre's residual only: post normalises it away, sasrec carries the normed."""
    blocks = {form: block_of(form, heads=1) for form in BLOCK_FORMS}
    p = blocks["hstu"].init(rng, 6) | blocks["ligr"].init(rng, 6)  # they have all that the others have
    x = rng.standard_normal((4, 6))
    shift = {form: np.abs(b.forward(p, x + 2.0)[0] - b.forward(p, x)[0]).max() for form, b in blocks.items()}
    np.testing.assert_allclose(shift["pre"], 2.0, atol=1e-9)
    assert shift["post"] != shift["sasrec"]
    y, _ = blocks["post"].forward(p, x)
    np.testing.assert_allclose(y.mean(axis=-1), 0, atol=1e-12)
