"""Longformer, BigBird and strided attention against full attention, built from its parts; what they keep and reach."""

import numpy as np
import pytest

from tests.models.schemes import Turning
from tinyattn import ops
from tinyattn.forms import readable
from tinyattn.layers import MECHANISMS, Block, MultiHead
from tinyattn.layers.mechanisms import BigBird, Longformer, Strided, Window
from tinyattn.ops import Mask
from tinyattn.random import keep_mask

EVERY = [Longformer(4, 0), Longformer(4, 3), BigBird(4, 1, 1, 1), Strided(4), Window(4)]


def heads_of(x, p, heads):
    y = x @ p["W"] + p["b"]
    return y.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("tokens", [1, 3, 12, 30])
def test_longformer_is_two_attentions_under_their_masks(tokens, causal, rng):
    """Sequences shorter than the global tokens, padding, dropout; a scheme that turns heads turns both projections."""
    for position, n, lengths in ((None, 12, [12, 2, 7]), (Turning(), 12, [12, 1, 5]), (None, 1, [1, 1, 1])):
        mixer = MultiHead(2, Longformer(4, tokens), *([position] if position else []), output=False)
        p, x = mixer.init(rng, 8), rng.standard_normal((3, n, 8))
        p = {name: {"W": part["W"], "b": rng.standard_normal(8)} for name, part in p.items()}
        assert list(p) == ["query", "key", "value", "global_query", "global_key", "global_value"]
        slots = np.broadcast_to(np.arange(n), (3, n))
        out, cache = mixer.forward(
            p, x, mask=Mask(causal, lengths=np.array(lengths)), slots=slots, rate=0.3, rng=np.random.default_rng(2)
        )
        keep = keep_mask(np.random.default_rng(2), (3, 2, n, n), 0.3)
        i, j = np.indices((n, n))
        mask = (j < np.array(lengths)[:, None, None, None]) & ((j <= i) | (not causal))
        near = mask & ((abs(i - j) < 4) | (j < tokens))
        found = []
        for prefix, allowed in (("", near), ("global_", mask)):
            q, k, v = (heads_of(x, p[prefix + name], 2) for name in ("query", "key", "value"))
            if position:
                q, k, _, _ = position.enter(None, q, k, slots)
            found.append(ops.attention(q, k, v, allowed, keep=keep, rate=0.3))
        is_global = np.arange(n)[:, None] < tokens
        expected, weights = (np.where(is_global, more, ordinary) for ordinary, more in zip(*found, strict=True))
        np.testing.assert_allclose(out, expected.swapaxes(-2, -3).reshape(3, n, 8), rtol=0, atol=1e-12)
        np.testing.assert_allclose(cache.weights, weights, rtol=0, atol=1e-13)


@pytest.mark.parametrize("mechanism", EVERY, ids=str)
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_one_head_or_many_and_the_readable_form_drops_the_same(mechanism, heads, rng):
    block = Block(MultiHead(heads, mechanism), "sasrec", rate=0.3)  # the form that drops weights
    p, x = block.init(rng, 6), rng.standard_normal((2, 21, 6))
    for causal in (True, False):
        found = []
        for wanted in (True, False):
            with readable(wanted):
                y, cache = block.forward(p, x, mask=Mask(causal), rng=np.random.default_rng(1))
                dx, _ = block.backward(p, np.cos(y), cache)
            found.append((y, cache.attention.weights, dx))
        for mine, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
        at = np.array([20, 4])
        row, _ = block.forward(p, x, mask=Mask(causal), at=at)
        y, _ = block.forward(p, x, mask=Mask(causal))
        np.testing.assert_allclose(row[:, 0], y[[0, 1], at], rtol=0, atol=1e-12)


def reach(mechanism, layers, n, rng, causal=True, at=-1, heads=2):
    """Which tokens move the output at one position, by its derivative."""
    block, width = MultiHead(heads, mechanism), 4
    p, x = [block.init(rng, width) for _ in range(layers)], rng.standard_normal((1, n, width))
    caches = []
    for each in p:
        x, cache = block.forward(each, x, mask=Mask(causal))
        caches.append(cache)
    dx = np.zeros_like(x)
    dx[:, at] = 1
    for each, cache in zip(p[::-1], caches[::-1], strict=True):
        dx, _, _ = block.backward(each, dx, cache)
    return np.flatnonzero(np.abs(dx[0]).max(axis=-1))


def test_how_far_they_reach(rng):
    for mechanism in (Window(4), Longformer(4, 0)):
        for layers in (1, 2, 3):
            found = reach(mechanism, layers, 30, rng)
            assert found.tolist() == list(range(29 - layers * 3, 30))  # L (w - 1) tokens back, w with itself
    assert reach(Longformer(4, 2), 1, 30, rng).tolist() == [0, 1, 26, 27, 28, 29]
    assert reach(Longformer(4, 2), 1, 30, rng, causal=False, at=1).tolist() == list(range(30))  # all of it
    assert reach(Longformer(4, 5), 2, 30, rng, at=3).tolist() == [0, 1, 2, 3]  # and nothing ahead
    assert len(reach(Strided(5), 1, 30, rng)) < 30
    assert reach(Strided(5), 1, 30, rng, heads=1).tolist() == [4, 9, 14, 19, *range(24, 30)]  # near, or a multiple back
    assert reach(Strided(5), 2, 30, rng).tolist() == list(range(30))  # two hops
    assert reach(BigBird(4, 1, 1, 0), 1, 30, rng).tolist() == [0, 1, 2, 3, 28, 29]


def test_global_projections_get_no_gradient_from_other_tokens(rng):
    mixer = MultiHead(1, Longformer(3, 2))
    p, x = mixer.init(rng, 4), rng.standard_normal((2, 9, 4))
    y, cache = mixer.forward(p, x, mask=Mask(causal=True))
    dy = np.ones_like(y)
    dy[:, :2] = 0
    _, _, grads = mixer.backward(p, dy, cache)
    assert all(not grads[f"global_{name}"]["W"].any() for name in ("query", "key", "value"))
    assert all(grads[name]["W"].any() for name in ("query", "key", "value"))


@pytest.mark.host
def test_only_tokens_that_are_global_are_projected_again(rng):
    mixer = MultiHead(1, Longformer(3, 2))
    p, x = mixer.init(rng, 4), rng.standard_normal((2, 9, 4))
    for causal, rows in ((True, 2), (False, 9)):
        _, cache = mixer.forward(p, x, mask=Mask(causal))
        assert [made.x.shape[-2] for made in cache.more.projected] == [rows] * 3
    _, cache = mixer.forward(p, x[:, :1], mask=Mask(causal=True))
    assert cache.more.rows == 1
    assert "global_query" not in MultiHead(1, Longformer(3, 0)).init(rng, 4)


@pytest.mark.parametrize(("n", "window", "sinks"), [(12, 4, 2), (12, 1, 0), (5, 9, 3), (1, 1, 1)])
def test_sinks_and_a_window_are_big_birds_blocks_of_one_token(n, window, sinks, rng):
    """StreamingLLM (Xiao et al. 2024): a query looks at the newest tokens, and at the first few."""
    q, k, v = rng.standard_normal((3, 2, 1, n, 4))
    blocks = MECHANISMS["bigbird"](block_size=1, window_blocks=window, global_blocks=sinks, random_blocks=0)
    i, j = np.arange(n)[:, None], np.arange(n)
    seen = (j <= i) & ((j > i - window) | (j < sinks))
    found = blocks.forward(None, q, k, v, Mask(causal=True), {}, 0.0, None)[0]
    expected = MECHANISMS["full"]().forward(None, q, k, v, Mask(allowed=seen), {}, 0.0, None)[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["longformer", "bigbird", "strided"])
def test_an_empty_sequence_and_an_empty_batch(name, rng):
    for heads, shape in ((1, (2, 0, 4)), (2, (0, 3, 4)), (2, (2, 1, 4))):
        block = Block(MultiHead(heads, MECHANISMS[name]()))
        p, x = block.init(rng, 4), rng.standard_normal(shape)
        for causal in (True, False):
            y, cache = block.forward(p, x, mask=Mask(causal))
            dx, _ = block.backward(p, y, cache)
            assert y.shape == dx.shape == shape


@pytest.mark.host
def test_queries_and_keys_of_two_sequences_are_refused(rng):
    for mechanism in EVERY[:-1]:
        mixer = MultiHead(1, mechanism)
        with pytest.raises(ValueError, match=f"mechanism {mechanism.name} has 3 queries and 5 keys"):
            mixer.forward(mixer.init(rng, 4), np.ones((1, 3, 4)), np.ones((1, 5, 4)), mask=Mask())


def test_all_tokens_may_be_global_and_no_more_than_there_are():
    Longformer(4, 5).refuse_length(5)
    with pytest.raises(ValueError, match="global_tokens is 6, expected at most maxlen, which is 5"):
        Longformer(4, 6).refuse_length(5)
