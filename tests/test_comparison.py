"""The counter, the formulas beside its counts, and the errata of the sources' comparison tables, each computed."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import comparison, roofline
from benchmarks.counting import Counted, chain, counted, counting, kept
from tests.test_ladder import TINY
from tinyattn.layers import MECHANISMS, MultiHead
from tinyattn.layers.mixers import GRU
from tinyattn.ops import Mask, attention, fused_attention, linear_attention
from tinyattn.tree import leaves

LAYERS = {layer.name: layer for layer in comparison.layers()}
RNG = np.random.default_rng(0)


def tokens(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def test_forward_and_backward_count_the_products_that_the_profile_computes_by_hand():
    network, shapes = TINY.network, [(2, 70), (3, 5)]
    p = network.init(RNG)["blocks"]
    with counting() as counts:
        for rows, n in shapes:
            x = counted(tokens(rows, n, network.dim))
            for weights in p:
                _, cache = network.block.forward(counted(weights), x, mask=Mask(causal=True))
                network.block.backward(counted(weights), counted(tokens(rows, n, network.dim)), cache)
    found = roofline.flops(network, shapes)
    ones = found["pairs"]  # a column of ones more in one product of the backward, for a sum of rows
    assert counts.products == (found[roofline.LINEAR] + found[roofline.SCORES]) / 2 + ones


def test_counting_changes_no_number_and_leaves_nothing_behind():
    p, x = MultiHead(2).init(RNG, 8), tokens(2, 70, 8)
    before = MultiHead(2).forward(p, x, mask=Mask(causal=True))[0]
    with counting():
        inside = MultiHead(2).forward(counted(p), counted(x), mask=Mask(causal=True))[0]
    after, cache = MultiHead(2).forward(p, x, mask=Mask(causal=True))
    assert type(inside) is Counted
    np.testing.assert_array_equal(np.asarray(inside), before)
    np.testing.assert_array_equal(after, before)
    made = [after, *(g for _, g in leaves(MultiHead(2).backward(p, after, cache)[2])), np.zeros(3), np.tri(3)]
    assert {type(x) for x in made} == {np.ndarray}


def test_a_chain_is_what_waits_for_one_another():
    with counting() as counts:
        x, out = counted(tokens(4, 4)), np.zeros((3, 4))
        assert chain(x + 1) == 1
        assert chain((x @ x).T @ x) == 2
        out[1] = (x * x + x)[0]
        assert chain(out[2:]) == 2  # one buffer
        out[0] += 1
        assert chain(out) == 3
        assert chain(np.concatenate([x + 1, x])) == 1
        assert chain(np.arange(9)[:, None] + np.arange(9) > 3) == 0  # no floats: a mask
        assert [type(part) for part in np.linalg.qr(np.ones((3, 2)))] == [Counted, Counted]
        with pytest.raises(NotImplementedError, match="write the product with @"):
            np.einsum("ij,jk->ik", x, x)
    assert counts.products == 2 * 4**3
    assert counts.entries == 16 + 32 + 4 + 16


def test_what_is_kept_is_counted_once_and_whole():
    x, p = np.zeros((3, 4)), {"W": np.zeros((4, 4))}
    assert kept((x, x[:1], {"there": [x.T, p["W"]]}, np.zeros(5, bool), None), p) == 12


@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if layer.theory.own])
def test_formulas_are_what_is_counted(name):
    layer, n, d = LAYERS[name], 96, 12
    own = comparison.cost(layer.mixer, n, d, layer.causal)["products"] - layer.around(n, d)
    assert own == layer.theory.own(layer.mixer, n, d)


def test_every_mechanism_has_a_row():
    assert set(MECHANISMS) <= set(LAYERS)


def test_supports_are_what_the_layers_may_look_at():
    n, far = 20, np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    seen = {
        "full": np.ones((n, n), bool), "window": far < 16, "linear": np.ones((n, n), bool),
        "gru": np.tri(n, dtype=bool), "convolution": np.tri(n, dtype=bool) & (far < 3),
    }  # fmt: skip
    for name, expected in seen.items():
        found = comparison.support(LAYERS[name].mixer, n, 4, LAYERS[name].causal)
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_what_never_connects_all_is_said():
    assert comparison.hops([np.tri(5, dtype=bool)] * 9, np.ones((5, 5), bool)) is None
    assert comparison.path(LAYERS["gru"], 30, 4) == (30, 29)


def test_recurrence_is_cheaper_where_n_is_above_d():
    """E1. Of n² d and n d², for products; and for whole layers, which are the same where n = d."""
    n, d = 32, 512
    around = LAYERS["full"].around(n, d)
    a_product = (comparison.cost(MultiHead(1), n, d, False)["products"] - around) / 2  # q kᵀ; the other is weights v
    a_state = comparison.cost(GRU(), n, d, True)["products"] / 6  # one of three gates' products, of x and of h
    assert (a_product, a_state) == (n * n * d, n * d * d) == (524_288, 8_388_608)
    for d in (8, 24):
        found = [comparison.against_gru(n, d) for n in (d // 2, d - 1, d, d + 1, 2 * d)]
        assert found == sorted(found)
        assert found[1] < found[2] == 1 < found[3]


def test_heads_with_a_quadratic_bias_are_a_convolution():
    """E2. Cordonnier, Loukas & Jaggi (2020), theorem 1, of one axis: head h looks at the token h - 1 after its own."""
    n, d, heads = 24, 4, 3
    x, W = tokens(n, d), tokens(heads, d, d)
    convolved = sum(x[h : n - heads + 1 + h] @ W[h] for h in range(heads))
    shift = np.arange(n) - np.arange(n)[:, None] - (np.arange(heads)[:, None, None] - 1)
    off = []
    for sharpness in (1.0, 5.0, 10.0, 20.0, 46.0):
        value, zeros = np.broadcast_to(x, (heads, n, d)), np.zeros((heads, n, 1))
        out, _ = attention(zeros, zeros, value, bias=-sharpness * shift.astype(float) ** 2)
        joined = np.sum(out @ W, axis=0)
        off.append(np.max(np.abs(joined[1:-1] - convolved)))
    assert off == sorted(off, reverse=True)
    assert off[1] / off[2] == pytest.approx(math.exp(5), rel=0.05)
    assert off[0] > 1
    assert off[-1] < 1e-13
    first, last = (sum(x[i] @ W[h] for i, h in pairs) for pairs in (((0, 1), (1, 2)), ((n - 2, 0), (n - 1, 1))))
    assert min(np.max(np.abs(joined[0] - first)), np.max(np.abs(joined[-1] - last))) > 0.5  # zeros beyond the edges


def test_what_is_held_constant_multiplies_the_cost():
    """E3. The keys of a window, the features of a kernel, the state of a selective recurrence."""
    n, d = 96, 8
    window = [comparison.cost(MultiHead(1, MECHANISMS["window"](window=w)), n, d, True)["products"] for w in (17, 33)]
    around = LAYERS["window"].around(n, d)
    assert window[1] - around == 2 * (window[0] - around)
    for m in (4, 8, 24):  # features; one column more of v is the denominator
        with counting() as counts:
            linear_attention(*(counted(tokens(1, n, width)) for width in (m, m, d)), causal=False)
        assert counts.products == 2 * n * m * (d + 1)
    scans = [_selective_scan(n, d, state) for state in (4, 8, 16)]
    assert scans == [4 * n * d * state for state in (4, 8, 16)]


def _selective_scan(n, d, state):
    """Entries of h_t = a_t ⊙ h_{t-1} + x_t b_tᵀ, y_t = h_t c_t: Gu & Dao (2023), algorithm 2, for one sequence."""
    with counting() as counts:
        x, a, b, c = (counted(tokens(*shape)) for shape in ((n, d), (n, d, state), (n, state), (n, state)))
        h = np.zeros((d, state))
        for t in range(n):
            h = a[t] * h + x[t, :, None] * b[t]
            h @ c[t]
    return counts.entries


@pytest.mark.parametrize("n", [28, 81])
def test_only_dilated_convolutions_reach_far_in_few_layers(n):
    """E4. k = 3: (n - 1) / 2 plain layers, rounded up, and log_3 n dilated ones."""
    assert comparison.path(LAYERS["convolution"], n, 2) == (3, math.ceil((n - 1) / 2))
    assert comparison.path(LAYERS[comparison.DILATED], n, 2) == (3, 4)
    assert 3**3 < n <= 3**4


def test_invariant_is_what_forgets_the_order():
    """E5. Attention without positions, and a convolution moved along."""
    x, order = tokens(1, 9, 8), np.random.default_rng(2).permutation(9)
    heads, convolution = MultiHead(2), comparison.Convolution()
    p, c = heads.init(RNG, 8), convolution.init(RNG, 8)
    y, moved = heads.forward(p, x)[0], heads.forward(p, x[:, order])[0]
    np.testing.assert_allclose(moved, y[:, order], rtol=1e-12)
    np.testing.assert_allclose(np.mean(moved, axis=1), np.mean(y, axis=1), rtol=1e-12)
    assert np.max(np.abs(moved - y)) > 0.1
    later = np.concatenate([np.zeros((1, 2, 8)), x], axis=1)
    here, there = convolution.forward(c, x)[0], convolution.forward(c, later)[0]
    np.testing.assert_allclose(there[:, 2:], here, rtol=1e-12)
    assert np.max(np.abs(there[:, :9] - here)) > 0.1


def test_brackets_move_in_exact_arithmetic_only():
    """E6. Tiles and kernels: equal as fractions, and as floats equal to rounding, of which no bit is promised."""
    q, k, v = tokens(3, 200, 8).astype(np.float32)
    plain, tiled = attention(q, k, v, Mask(causal=True).array(200, 200, q))[0], fused_attention(q, k, v, Mask(True))[0]
    forms = [linear_attention(q, k, v, form=form)[0] for form in ("parallel", "recurrent", "chunked")]
    for one, other in ((plain, tiled), (forms[0], forms[1]), (forms[0], forms[2])):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6)
        assert not np.array_equal(one, other)
    a, b, c = (np.array([[Fraction(float(x)) for x in row] for row in part[:9]]) for part in (np.abs(q), np.abs(k), v))
    assert np.array_equal((a @ b.T) @ c, a @ (b.T @ c))  # the kernel's brackets
    s = np.array([3, -1, 7, 2, 9, 4, 0, 8, 5])
    weights = np.array([Fraction(2) ** int(x) for x in s])  # 2 in the place of e, so that it is a fraction
    total, largest = np.array([Fraction(0)] * 9), -99
    for tile in (slice(0, 4), slice(4, 7), slice(7, 9)):  # the running maximum of FlashAttention
        new = max(largest, int(s[tile].max()))
        found = np.array([Fraction(2) ** (int(x) - new) for x in s[tile]])
        ones = np.array([[Fraction(1)]] * len(found))
        total = total * Fraction(2) ** (largest - new) + found @ np.concatenate([c[tile], ones], axis=1)
        largest = new
    assert np.array_equal(total[:-1] / total[-1], weights @ c / weights.sum())
