"""Fresh parameters of every layer that can be chosen: each array is drawn from what its docstring says."""

import math

import numpy as np
import pytest

from tests.models.initial import ONES, ZEROS, by_rows, could_be, expected, glorot, refuse_equal
from tinyattn.layers import MIXERS, REFINEMENTS, Block, FeedForward, MultiHead, SwiGLU
from tinyattn.layers.dense import dense_init
from tinyattn.layers.gaussian_block import GaussianBlock
from tinyattn.layers.mixers.lstm import LSTM
from tinyattn.layers.mixers.mamba import Mamba
from tinyattn.tree import leaves

pytestmark = pytest.mark.host                       # parameters are drawn on the host
D = 48
OWN = {
    "rnn": {"W": by_rows(D), "U": by_rows(D)},
    "gru": {"W": by_rows(D), "U": by_rows(D)},
    "lstm": {"W": by_rows(D), "U": by_rows(D)},
    "lstmn": {name: by_rows(D) for name in ("W", "U", "Wh", "Wx", "Wr", "v")},
    "rwkv": {f"W{name}": by_rows(D) for name in "kvro"},
    "mamba": {"W_in": by_rows(D), "conv": by_rows(4), "W_x": by_rows(2 * D), "W_delta": by_rows(3),
              "W_out": by_rows(2 * D), "b_conv": ZEROS, "D": ONES},
    "delta": {"W_in": by_rows(D), "conv": by_rows(4), "W_rate": by_rows(D), "gamma": ONES, "W_out": by_rows(D)},
    "attention": {}, "latent": {},
}  # fmt: skip
SPECIAL = {"delta": {"b_rate"}, "lstm": {"b"}, "lstmn": {"b"}, "mamba": {"b_delta", "log_A"},
           "rwkv": {"mu_k", "mu_v", "mu_r", "log_w", "u"}}  # fmt: skip


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer(name, rng):
    p = MIXERS[name]().init(rng, D)
    for leaf, a in leaves(p):
        if leaf not in SPECIAL.get(name, ()):
            assert could_be(a, OWN[name].get(leaf) or expected(leaf, a)), leaf
    drawn = {leaf: a for leaf, a in leaves(p) if leaf not in SPECIAL.get(name, ())}
    refuse_equal(drawn)
    assert len({id(a) for _, a in leaves(p)}) == len(list(leaves(p)))


@pytest.mark.parametrize("mixer", ["lstm", "lstmn"])
def test_a_forget_gate_begins_nearly_open_and_no_other_does(mixer, rng):
    """The gates stand in the order in, forget, cell, out."""
    b = MIXERS[mixer]().init(rng, D)["b"]
    assert b.reshape(4, D).tolist() == [[0] * D, [1] * D, [0] * D, [0] * D]
    without = LSTM(forget=False).init(rng, D)
    assert without["W"].shape == without["U"].shape == (D, 3 * D)
    assert without["b"].tolist() == [0] * (3 * D)


def test_of_mamba_rates_are_minus_1_to_minus_n_and_steps_are_spread_evenly_over_their_sizes(rng):
    p = Mamba(state=5, expand=3, kernel=2).init(rng, D)
    wide = 3 * D
    assert {name: a.shape for name, a in p.items()} == {
        "W_in": (D, 2 * wide), "conv": (2, wide), "b_conv": (wide,), "W_x": (wide, 3 + 2 * 5), "W_delta": (3, wide),
        "b_delta": (wide,), "log_A": (5, wide), "D": (wide,), "W_out": (wide, D),
    }  # fmt: skip
    np.testing.assert_allclose(np.exp(p["log_A"]), np.arange(1, 6)[:, None] * np.ones(wide), rtol=1e-12)
    step = np.log(np.log1p(np.exp(p["b_delta"])))                    # log softplus: uniform from log .001 to log .1
    low, high = math.log(1e-3), math.log(1e-1)
    assert could_be(step - (low + high) / 2, ("uniform", (high - low) / 2))
    many = np.log1p(np.exp(Mamba(expand=100).init(rng, D)["b_delta"]))
    assert 0.001 <= many.min() < 0.00102
    assert 0.098 < many.max() <= 0.1


def test_of_rwkv_channels_go_from_slow_to_fast(rng):
    p = MIXERS["rwkv"]().init(rng, 5)
    assert p["log_w"].tolist() == [-5, -3, -1, 1, 3]
    for name in "kvr":
        assert p[f"mu_{name}"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    np.testing.assert_allclose(np.exp(p["u"]), 0.3)
    assert MIXERS["rwkv"]().init(rng, 1)["log_w"].tolist() == [-5]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", [name for name, kind in REFINEMENTS.items() if not kind.identity])
def test_a_map_of_a_refinement_is_the_identity_and_a_tenth_of_a_glorot_one(name, shared, rng):
    p = REFINEMENTS[name](refine_shared=shared).init(rng, 3, 40)
    assert set(p) == set(REFINEMENTS[name].maps)
    for a in p.values():
        assert a.shape == (1 if shared else 3, 40, 40)
        _, limit = glorot(40, 40)
        for head in a:
            assert could_be(head - np.eye(40), ("uniform", 0.1 * limit))
    heads = [head for a in p.values() for head in a]
    assert not any(np.allclose(a, b) for i, a in enumerate(heads) for b in heads[:i])


def test_widths_and_biases_are_those_that_were_asked_for(rng):
    def shapes(p):
        return {name: a.shape for name, a in leaves(p)}

    assert shapes(FeedForward().init(rng, 6)) == {"inner.W": (6, 6), "inner.b": (6,), "outer.W": (6, 6),
                                                  "outer.b": (6,)}  # fmt: skip
    assert shapes(FeedForward(10).init(rng, 6)) == {"inner.W": (6, 10), "inner.b": (10,), "outer.W": (10, 6),
                                                    "outer.b": (6,)}  # fmt: skip
    for dim, hidden in ((6, 4), (7, 5), (8, 6)):                     # two thirds, rounded up
        assert shapes(SwiGLU().init(rng, dim)) == {"gate.W": (dim, hidden), "inner.W": (dim, hidden),
                                                   "outer.W": (hidden, dim)}  # fmt: skip
    assert shapes(MultiHead(4, kv_heads=2, bias=False).init(rng, 8)) == {
        "query.W": (8, 8), "key.W": (8, 4), "value.W": (8, 4), "output.W": (8, 8)}  # fmt: skip
    assert shapes(MultiHead(2, output=False).init(rng, 4)) == {
        "query.W": (4, 4), "query.b": (4,), "key.W": (4, 4), "key.b": (4,), "value.W": (4, 4), "value.b": (4,)}
    assert set(dense_init(rng, 3, 2)) == {"W", "b"}
    ligr = Block(form="ligr").init(rng, 4)
    assert ligr["gate_1"]["W"].shape == ligr["gate_2"]["W"].shape == (4, 4)
    assert set(Block().init(rng, 4)) == {"norm_1", "attention", "norm_2", "feed_forward"}


def test_both_streams_of_a_gaussian_block(rng):
    p = GaussianBlock(heads=4).init(rng, D)
    assert p["mean"]["feed_forward"]["inner"]["W"].shape == (D, 4 * D)
    for name, a in leaves(p):
        assert could_be(a, expected(name, a)), name
    refuse_equal(p)


@pytest.mark.host
@pytest.mark.parametrize(("dim", "rank"), [(8, 1), (16, 1), (17, 2), (24, 2), (33, 3)])
def test_mambas_step_has_a_number_for_each_sixteen_of_the_width(dim, rank):
    """Rounded up, as in the published code."""
    p = MIXERS["mamba"]().init(np.random.default_rng(0), dim)
    assert p["W_delta"].shape[0] == rank
