"""Latent attention: the two orders of its products, what its cache holds, and its gradient."""

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_layer
from tinyattn.layers import MIXERS, POSITIONS, MultiHead, nbytes
from tinyattn.ops import Mask

D, CAUSAL = 12, Mask(causal=True)
FORMS = [{}, {"position": POSITIONS["rope"]()}, {"heads": 1, "latent": D, "bias": False}, {"heads": 4, "turned": 1}]


def made(rng, **options):
    mixer = MIXERS["latent"](**{"heads": 3, "latent": 5} | options)
    return mixer, noisy(mixer.init(rng, D), rng)


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_absorbed_or_not_it_is_the_same(options, rng):
    """Keys and values made of latents, or queries and outputs that meet the latents themselves; in any pieces."""
    mixer, p = made(rng, **options)
    x, slots = rng.standard_normal((2, 9, D)), np.tile(np.arange(9), (2, 1))
    whole, cache = mixer.forward(p, x, mask=CAUSAL, slots=slots)
    np.testing.assert_allclose(cache.weights.sum(axis=(1, 3)), mixer.heads, rtol=1e-12)
    for ends in ([9], [1, 2, 9], [4, 9], range(1, 10)):
        past, found, begin = None, [], 0
        for end in ends:
            y, past = mixer.extend(p, x[:, begin:end], None, past)
            found.append(y)
            begin = end
        np.testing.assert_allclose(np.concatenate(found, axis=1), whole, rtol=0, atol=1e-12)
        _, latent, turned = mixer.widths(D)
        assert nbytes(past) == 2 * 9 * (latent + turned) * 8


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_its_gradient(options, rng):
    mixer, p = made(rng, **options)
    slots = np.tile(np.arange(4), (2, 1))

    def forward(p, x):
        return mixer.forward(p, x, mask=CAUSAL, slots=slots)

    def backward(p, dy, cache):
        dx, _, grads = mixer.backward(p, dy, cache)
        return dx, grads

    assert gradcheck_layer(forward, backward, p, rng.standard_normal((2, 4, D)))


def test_it_is_attention_where_the_latent_is_as_wide_as_the_heads(rng):
    """With the identity as W_c and r = 0, keys and values are those of multi-head attention, up to the scale."""
    mixer, p = made(rng, latent=D, bias=False)
    d, _, turned = mixer.widths(D)
    p["latent"]["W"], p["turned"]["W"][...] = np.eye(D), 0
    W = p["query"]["W"].reshape(D, 3, d + turned)[..., :d] * np.sqrt(d / (d + turned))
    plain = {"query": {"W": W.reshape(D, D)}} | {name: p[name] for name in ("key", "value", "output")}
    x = rng.standard_normal((2, 7, D))
    expected, _ = MultiHead(3).forward(plain, x, mask=CAUSAL)
    np.testing.assert_allclose(mixer.forward(p, x, mask=CAUSAL)[0], expected, rtol=0, atol=1e-12)


def test_what_is_kept_of_a_token(rng):
    """Numbers in a cache: all heads' keys and values, those of shared heads, or a latent vector and a turned key."""
    x, counts = rng.standard_normal((1, 10, 64)), {}
    for name, mixer in {
        "multi-head": MultiHead(8), "grouped": MultiHead(8, kv_heads=2), "multi-query": MultiHead(8, kv_heads=1),
        "latent": MIXERS["latent"](heads=8),
    }.items():  # fmt: skip
        counts[name] = nbytes(mixer.extend(mixer.init(rng, 64), x, x, None)[1]) // 8 // 10
    assert counts == {"multi-head": 128, "grouped": 32, "multi-query": 16, "latent": 20}
