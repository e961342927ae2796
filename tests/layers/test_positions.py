"""What position schemes are for: order is seen, and by the relative ones as distances alone."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_layer
from tinyattn.layers import MECHANISMS, POSITIONS, MultiHead
from tinyattn.models import EncoderNetwork, SASRecNetwork, TransformerNetwork
from tinyattn.ops import Mask
from tinyattn.tree import tree_map

RELATIVE = [name for name, scheme in POSITIONS.items() if scheme.at_heads and not scheme.at_tokens]


def run(name, rng, slots, x, mask=None):
    """One layer of attention on tokens that stand at `slots`."""
    scheme = POSITIONS[name]()
    p = MultiHead(2, position=scheme).init(np.random.default_rng(1), 8)
    p = tree_map(lambda a: a + 0.5 * np.random.default_rng(2).standard_normal(a.shape), p)
    x = scheme.add(scheme.init(np.random.default_rng(3), 40, 8), x, slots)
    return MultiHead(2, position=scheme).forward(p, x, mask=mask, slots=slots)[0]


@pytest.mark.parametrize("name", POSITIONS)
def test_every_scheme_but_none_breaks_permutation_equivariance(name, rng):
    x, slots, order = rng.standard_normal((2, 7, 8)), np.tile(np.arange(7), (2, 1)), rng.permutation(7)
    moved = np.abs(run(name, rng, slots, x)[:, order] - run(name, rng, slots, x[:, order])).max()
    assert moved < 1e-12 if name == "none" else moved > 1e-3
    causal = Mask(causal=True)  # the mask alone tells one order from another
    assert np.abs(run(name, rng, slots, x, causal)[:, order] - run(name, rng, slots, x[:, order], causal)).max() > 1e-3


@pytest.mark.parametrize("name", [n for n in POSITIONS if n != "none"])
def test_only_relative_schemes_see_no_shift(name, rng):
    x, slots = rng.standard_normal((2, 7, 8)), np.tile(np.arange(7), (2, 1))
    moved = np.abs(run(name, rng, slots + 20, x) - run(name, rng, slots, x)).max()
    assert moved < 1e-12 if name in RELATIVE else moved > 1e-3


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("causal", [True, False])
def test_a_relative_scheme_gives_a_sequence_in_the_midst_of_others_what_it_gives_it_alone(name, causal, rng):
    """Tokens 5 to 9 of twelve, who see each other alone: as if the first five were not there."""
    x, slots = rng.standard_normal((2, 12, 8)), np.tile(np.arange(12), (2, 1))
    together = np.zeros((12, 12), bool)
    together[5:10, 5:10] = np.tri(5, dtype=bool) if causal else True
    alone = run(name, rng, slots[:, :5], x[:, 5:10], Mask(causal=causal))
    np.testing.assert_allclose(run(name, rng, slots, x, together)[:, 5:10], alone, rtol=0, atol=1e-12)


def test_an_amplitude_multiplies_scores_by_its_square_and_linear_scaling_walks_more_slowly(rng):
    q, k = rng.standard_normal((2, 1, 2, 12, 8))
    slots = np.arange(12)[None]

    def scores(**options):
        turned = POSITIONS["rope"](**options).enter(None, q, k, slots)
        return turned[0] @ turned[1].swapaxes(-1, -2)

    yarn = {"rope_scaling": "yarn", "rope_factor": 4.0, "rope_trained": 8}
    np.testing.assert_allclose(scores(**yarn), scores(**yarn, rope_amplitude=1) * (0.1 * math.log(4) + 1) ** 2)
    np.testing.assert_allclose(scores(rope_amplitude=3), 9 * scores())
    far = POSITIONS["rope"](rope_scaling="linear", rope_factor=4.0)
    np.testing.assert_allclose(far.turn(None, q[..., 8:9, :], 8), POSITIONS["rope"]().turn(None, q[..., 8:9, :], 2))


def test_gradients_of_scaled_rotations(rng):
    scheme = POSITIONS["rope"](rope_scaling="yarn", rope_factor=4.0, rope_trained=6, rope_fast=2.0)
    layer = MultiHead(2, position=scheme)
    slots = np.tile(np.arange(5), (2, 1))

    def forward(p, x):
        return layer.forward(p, x, slots=slots)

    def backward(p, dy, cache):
        dx, _, grads = layer.backward(p, dy, cache)
        return dx, grads

    assert gradcheck_layer(forward, backward, layer.init(rng, 8), rng.standard_normal((2, 5, 8)))


def test_what_cannot_be_is_refused(rng):
    for network, sizes in (
        (SASRecNetwork, {"n_items": 3}), (EncoderNetwork, {"n_tokens": 3}),
        (TransformerNetwork, {"n_sources": 3, "n_targets": 3}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="position rope turns features in pairs: heads of width 5"):
            network(**sizes, dim=10, heads=2, position="rope")
    with pytest.raises(ValueError, match="furthest is 9, expected above 16"):
        SASRecNetwork(n_items=3, position="t5", furthest=9)
    with pytest.raises(ValueError, match="buckets is 1, expected 2 to 1"):
        SASRecNetwork(n_items=3, position="t5", buckets=1)
    with pytest.raises(ValueError, match="rope_base is 0, expected a positive"):
        POSITIONS["rope"](rope_base=0)
    x, slots = rng.standard_normal((1, 3, 8)), np.array([[4, 5, 6]])
    with pytest.raises(IndexError, match="slot 6 is beyond the table of learned positions: it has 0 to 5"):
        POSITIONS["learned"]().add(np.zeros((6, 8)), x, slots)


def test_only_t5_has_another_scheme_for_looking_both_ways():
    t5 = POSITIONS["t5"](buckets=4, furthest=3)
    assert t5.both_ways() == POSITIONS["t5"](buckets=4, furthest=3, causal=False) != t5
    assert all((scheme := kind()).both_ways() is scheme for name, kind in POSITIONS.items() if name != "t5")


def loops(name, p, q, k, v, causal):
    """Scores and outputs of one head, pair by pair, as the papers have them."""
    n, d = q.shape
    K, out = 16, np.zeros((n, d))
    for i in range(n):
        keys = range(i + 1 if causal else n)
        s, values = np.zeros(n), v.copy()
        for j in keys:
            if name == "shaw":
                r = min(max(j - i, -K), K) + K
                s[j], values[j] = q[i] @ (k[j] + p["keys"][r]), v[j] + p["values"][r]
            else:
                R = [f((i - j) / 10000 ** (2 * c / (2 * d))) for c in range(d) for f in (np.sin, np.cos)]
                r = (R @ p["W"])[p["head"] * d : (p["head"] + 1) * d]
                s[j] = q[i] @ k[j] + q[i] @ r + p["u"] @ k[j] + p["v"] @ r
        weights = np.exp(s[: len(keys)] / np.sqrt(d))
        out[i] = weights / weights.sum() @ values[: len(keys)]
    return out


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ["shaw", "xl"])
def test_shaw_and_xl_are_their_papers_formulas_pair_by_pair(name, causal, rng):
    """Two heads of width 4, and more tokens than Shaw's distances."""
    scheme, full = POSITIONS[name](), MECHANISMS["full"]()
    p = tree_map(lambda a: rng.standard_normal(a.shape), scheme.init_heads(rng, 2, 4))
    q, k, v = rng.standard_normal((3, 1, 2, 20, 4))
    q_, k_, terms, _ = scheme.enter(p, q, k, np.arange(20)[None])
    out, _ = full.forward(None, q_, k_, v, Mask(causal=causal), terms, 0.0, None)
    for head in range(2):
        own = p if name == "shaw" else {"W": p["W"], "u": p["u"][head], "v": p["v"][head], "head": head}
        expected = loops(name, own, q[0, head], k[0, head], v[0, head], causal)
        np.testing.assert_allclose(out[0, head], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["shaw", "xl", "t5"])
def test_gradients_both_ways_of_looking_with_dropout_of_weights(name, rng):
    """The seams check causal models; keys after the query, and more of them than Shaw tells apart, are here."""
    options = {"shaw": {"clip": 2}, "t5": {"buckets": 4, "furthest": 3, "causal": False}}.get(name, {})
    mixer = MultiHead(2, position=POSITIONS[name](**options))
    p = noisy(mixer.init(rng, 4), rng)
    x = rng.standard_normal((2, 6, 4))
    assert gradcheck_layer(mixer.forward, mixer.backward, p, x)
    assert gradcheck_layer(mixer.forward, mixer.backward, p, x, rate=0.4, key=3)
    for options, says in (
        ({"rope_scaling": "longrope"}, "rope_scaling is 'longrope', expected one of none, linear, ntk, yarn, llama3"),
        ({"rope_factor": 2.0}, "rope_factor is 2.0, expected 1 without a rope_scaling"),
        ({"rope_scaling": "ntk", "rope_factor": 0.5}, "rope_factor is 0.5, expected at least 1"),
        ({"rope_slow": 4.0, "rope_fast": 4.0}, "rope_fast is 4.0, expected above rope_slow, which is 4.0"),
        ({"rope_scaling": "yarn", "rope_base": 1}, "rope_base is 1.0, expected above 1 with rope_scaling yarn"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            POSITIONS["rope"](**options)
