"""Attention to a memory against central differences, and what calls, dtypes and caches of layers promise."""

import numpy as np
import pytest

from tests.helpers import noisy
from tests.layers.forms import FORMS, block_of
from tinyattn.check import gradcheck_layer
from tinyattn.layers import (
    FeedForward,
    MultiHead,
    SwiGLU,
    multi_head_attention,
    multi_head_attention_backward,
    multi_head_init,
)
from tinyattn.tree import leaves, tree_map


def test_swiglu_is_its_equation_and_has_no_more_numbers_than_the_network_that_it_replaces(rng):
    p, x = SwiGLU().init(rng, 6), rng.standard_normal((2, 6))
    W_1, W_3, W_2 = (p[name]["W"] for name in ("gate", "inner", "outer"))
    a = x @ W_1
    np.testing.assert_allclose(SwiGLU().forward(p, x)[0], (a / (1 + np.exp(-a)) * (x @ W_3)) @ W_2, atol=1e-14)
    matrices = (sum(W.size for _, W in leaves(part.init(rng, 6)) if W.ndim == 2) for part in (SwiGLU(), FeedForward()))
    assert len(set(matrices)) == 1
    assert SwiGLU(5).init(rng, 6)["outer"]["W"].shape == (5, 6)


@pytest.mark.host
def test_an_activation_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"activation is .gleu., expected one of .*; did you mean gelu"):
        FeedForward(activation="gleu")


@pytest.mark.parametrize("key", [None, 5])
@pytest.mark.parametrize("output", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_cross_attention(heads, output, key, rng):
    p = noisy(multi_head_init(rng, 6, output=output), rng)
    x, memory = rng.standard_normal((2, 4, 6)), rng.standard_normal((2, 5, 6))
    mask = rng.random((2, 1, 4, 5)) < 0.7  # one mask a sequence, the same for all heads
    mask[0, :, 1] = False
    report = gradcheck_layer(
        multi_head_attention, multi_head_attention_backward, p, x, memory, key=key, heads=heads, mask=mask, rate=0.3
    )
    assert report


@pytest.mark.host
def test_heads_that_cannot_be_shared_out_are_refused(rng):
    x = np.ones((1, 3, 8))
    with pytest.raises(ValueError, match="kv_heads = 3 does not divide heads = 4"):
        multi_head_attention(multi_head_init(rng, 8, kv_dim=6), x, x, heads=4, kv_heads=3)
    for kv_heads in (3, 0, -2, 8):
        with pytest.raises(ValueError, match=f"kv_heads is {kv_heads}, expected a divisor of heads, which is 4"):
            MultiHead(4, kv_heads=kv_heads)


@pytest.mark.host
def test_one_head_of_keys_for_all_is_not_copied(rng):
    """The cache of multi-query attention holds keys and values of one head, seen as many times as there are heads."""
    mixer, x = MultiHead(4, kv_heads=1), rng.standard_normal((2, 5, 8))
    cache = mixer.forward(mixer.init(rng, 8), x)[1].attended
    for seen in (cache.k, cache.v):
        assert seen.shape == (2, 4, 5, 2)
        assert np.shares_memory(seen[:, 0], seen[:, 3])


@pytest.mark.parametrize("form", FORMS)
def test_a_call_leaves_no_trace(form, rng):
    """Two calls, then both backwards, in either order: each has its own cache, and inputs keep their bits."""
    block = block_of(form)
    p = block.init(rng, 6)
    x = [rng.standard_normal((2, 4, 6)) for _ in range(2)]
    before = [a.copy() for a in x]
    (y0, cache0), (_, cache1) = (block.forward(p, a) for a in x)
    dy = rng.standard_normal(y0.shape)
    given = dy.copy()
    first = block.backward(p, dy, cache0)[0]
    block.backward(p, dy, cache1)
    np.testing.assert_array_equal(block.backward(p, dy, cache0)[0], first)
    for a, b in zip([*x, dy], [*before, given], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", FORMS)
def test_float32_stays_float32_and_agrees(form, rng):
    block = block_of(form, rate=0.2)
    p = noisy(block.init(rng, 6), rng)
    x, dy = rng.standard_normal((2, 2, 4, 6))
    results = []
    for dtype in (np.float64, np.float32):
        q = tree_map(lambda a, dtype=dtype: a.astype(dtype), p)
        key = np.random.default_rng(3)
        y, cache = block.forward(q, x.astype(dtype), rng=key)
        dx, grads = block.backward(q, dy.astype(dtype), cache)
        assert {y.dtype, dx.dtype, *(g.dtype for _, g in leaves(grads))} == {np.dtype(dtype)}
        results.append((y, dx, grads["attention"]["query"]["W"]))
    for exact, single in zip(*results, strict=True):
        np.testing.assert_allclose(single, exact, rtol=0, atol=5e-5)
