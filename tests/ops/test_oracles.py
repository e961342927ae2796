"""Every kind against plain loops on its spec's cases; and what no spec draws: large sizes, and two ops against one."""

import numpy as np
import pytest

from tests.strict import strict
from tinyattn import ops
from tinyattn.check import adapters, gradcheck, oracles
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import tolerance, widened
from tinyattn.check.specs import SPECS
from tinyattn.ops.masks import Mask, as_mask

LEADS = [(), (3,), (2, 3)]


def cases(spec):
    """The extremes that a spec names, and what it draws: without, with one and with several leading axes."""
    drawn = (spec.case(CaseDrawer.seeded(seed, (lead,))) for lead in LEADS for seed in range(6))
    return [*spec.special_cases(), *drawn]


@pytest.mark.parametrize("name", [spec.name for spec in SPECS.values() if spec.common and spec.oracle])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_forward(name, dtype):
    """Every kind against plain loops, on every device."""
    spec = SPECS[name]
    library = {"tinyattn.ops": ops, "tinyattn.check.adapters": adapters}[spec.ours().__name__]
    for case in cases(spec):
        cast = {n: x.astype(dtype) if getattr(x, "dtype", np.dtype("i")).kind == "f" else x for n, x in case.items()}
        exact = spec.oracle(**widened(cast))
        got = getattr(library, spec.function)(**cast)
        pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (got, exact)), strict=False)
        for mine, theirs in pairs:
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance(spec, cast))


def masks(n, m, rng):
    """Of every form: none, causal, with holes, rows and columns of nothing, one a sequence, nothing at all.

    A `Mask` that is causal is worked off in tiles, an array that happens to be is not.
    """
    holes = rng.random((n, m)) < 0.5
    holes[n // 2 :] = False
    holes[:, m // 3] = False
    early = np.tri(n, m, dtype=bool)[::-1].copy()  # later queries see fewer keys
    arrays = [np.tri(n, m, dtype=bool), holes, early, rng.random((2, 1, n, m)) < 0.7, np.zeros((n, m), bool)]
    return [None, Mask(causal=True), *arrays]


@pytest.mark.parametrize(("n", "m"), [(3, 5), (64, 64), (65, 64), (150, 130), (130, 200), (150, 3), (1, 7)])
@pytest.mark.parametrize("size", [1.0, 60.0], ids=["small", "large scores"])
def test_fused_attention_is_attention(size, n, m, rng):
    """Whatever the mask and however large the scores: out, weights and all three gradients."""
    q, k, v, dout = (rng.standard_normal((2, 3, rows, d)) for rows, d in ((n, 6), (m, 6), (m, 4), (n, 4)))
    q *= size
    for mask in masks(n, m, rng):
        out, weights = ops.attention(q, k, v, as_mask(mask).array(n, m, q))
        fused, looked = ops.fused_attention(q, k, v, mask)
        np.testing.assert_allclose(fused, out, rtol=0, atol=1e-12)
        np.testing.assert_allclose(looked.weights, weights, rtol=0, atol=1e-13)
        expected = ops.attention_backward(dout, q, k, v, weights)[:3]
        for g, theirs in zip(ops.fused_attention_backward(dout, looked), expected, strict=True):
            np.testing.assert_allclose(g, theirs, rtol=0, atol=1e-10)
            assert g.dtype == theirs.dtype


@pytest.mark.host  # a device's gradients are carried back, not `into`: tests/layers runs the fused block there
@pytest.mark.parametrize("scale", [1, 0.3, 0, 2])
def test_fused_attention_with_a_scale_of_its_own_and_gradients_put_where_they_belong(scale, rng):
    """Side by side in one array, whose rows are longer than a head: what stood there is written over."""
    q, k, v, dout = rng.standard_normal((4, 2, 3, 70, 5))
    for mask in masks(70, 70, rng):
        out, weights = ops.attention(q, k, v, as_mask(mask).array(70, 70, q), scale=scale)
        fused, looked = ops.fused_attention(q, k, v, mask, scale=scale)
        np.testing.assert_allclose(fused, out, rtol=0, atol=1e-12)
        expected = ops.attention_backward(dout, q, k, v, weights, scale=scale)[:3]
        there = np.full((2, 70, 9, 5), np.nan).swapaxes(1, 2)
        into = there[:, :3], there[:, 3:6], there[:, 6:]
        ops.fused_attention_backward(dout, looked, into=into)
        np.testing.assert_allclose(there, np.concatenate(expected, axis=1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("lead", LEADS, ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_norm_linear_is_linear_of_layer_norm(bias, lead, rng):
    """Value and all gradients, held to the two ops that it joins, and to differences."""
    x, dy = rng.standard_normal((*lead, 4, 6)) + 3, rng.standard_normal((*lead, 4, 5))
    gamma, beta, W = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal((6, 5))
    b = rng.standard_normal(5) if bias else None
    h, x_hat, rstd = ops.layer_norm(x, gamma, beta, 1e-3)
    y, *saved = ops.norm_linear(x, gamma, beta, W, b, 1e-3)
    dh, dW, db = ops.linear_backward(dy, h, W)
    expected = (ops.linear(h, W, b), x_hat, rstd, *ops.layer_norm_backward(dh, x_hat, rstd, gamma), dW, db)
    found = (y, *saved, *ops.norm_linear_backward(dy, *saved, gamma, beta, W))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
        assert mine.shape == theirs.shape
    assert gradcheck(ops.norm_linear, ops.norm_linear_backward, x, gamma, beta, W, b, eps=1e-3)


# In some runs a product of a few float32 numbers raised the flag "invalid", though every number was finite. It is
# BLAS's own, and what comes out is compared below, number by number.
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")
def test_norm_linear_in_float32_at_its_extremes(rng):
    """Means far from zero, tokens without variance, none at all: as good as the two ops, inputs unchanged."""
    x = rng.standard_normal((3, 40, 6)).astype(np.float32)
    x[0] += 1e4
    x[1] = 7
    gamma, beta, W, dy = (rng.standard_normal(shape).astype(np.float32) for shape in (6, 6, (6, 5), (3, 40, 5)))
    before = [a.copy() for a in (x, gamma, beta, W, dy)]
    for x_ in (x, x[:0]):
        h, *given = ops.layer_norm(x_, gamma, beta)
        dh, dW, _ = ops.linear_backward(dy[: len(x_)], h, W)
        y, *saved = ops.norm_linear(x_, gamma, beta, W)
        first, again = (ops.norm_linear_backward(dy[: len(x_)], *saved, gamma, beta, W) for _ in range(2))
        dx, dgamma, dbeta = ops.layer_norm_backward(dh, *given, gamma)
        for mine, theirs in zip((y, *first), (ops.linear(h, W), dx, dgamma, dbeta, dW), strict=False):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-5 * max(1, np.abs(theirs).max(initial=0)))
            assert mine.dtype == np.float32
        for mine, theirs in zip(first, again, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for a, b in zip((x, gamma, beta, W, dy), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_norm_linear_names_what_does_not_fit():
    x, g, W = np.ones((2, 6)), np.ones(6), np.ones((6, 5))
    with pytest.raises(ValueError, match=r"norm_linear: W has shape \(5, 6\), expected \(i, o\) with i = 6"):
        ops.norm_linear(x, g, g, W.T)
    with pytest.raises(TypeError, match="norm_linear: b is float32 where the others are float64"):
        ops.norm_linear(x, g, g, W, np.ones(5, np.float32))
    y, *saved = ops.norm_linear(x, g, g, W)
    with pytest.raises(TypeError, match="norm_linear_backward: W is float32 where the others are float64"):
        ops.norm_linear_backward(y, *saved, g, g, W.astype(np.float32))


@pytest.mark.parametrize("far", [0.0, 45.0, 60.0, 300.0, -45.0, -60.0, -95.0, -300.0])
def test_fused_attention_far_from_zero(far, rng):
    """Every row's scores moved by the same: softmax is the same. Beyond 50, exp would leave float32's range.

    At -95 it is still there, with a few bits left.
    """
    q, k, v, dout = rng.standard_normal((4, 70, 6)).astype(np.float32)
    q[:, 0], k[:, 0] = far * np.sqrt(6), 1
    q[1::2, 0] = 0  # every second row stays where it is
    mask = np.tri(70, dtype=bool)
    exact, weights = ops.attention(*(a.astype(float) for a in (q, k, v)), mask)
    out, looked = ops.fused_attention(q, k, v, Mask(causal=True))
    np.testing.assert_allclose(out, exact, rtol=0, atol=2e-6 * max(1, abs(far)))
    np.testing.assert_allclose(looked.weights, weights, rtol=0, atol=2e-6 * max(1, abs(far)))
    gradients = ops.fused_attention_backward(dout, looked)
    expected = ops.attention_backward(*(a.astype(float) for a in (dout, q, k, v)), weights)[:3]
    for g, theirs in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, theirs, rtol=1e-4, atol=1e-5 * max(1, abs(far)))


def test_fused_attention_of_nothing(rng):
    """No queries, or no keys, whatever the mask: nothing warns, and gradients are 0."""
    for n, m in ((0, 3), (3, 0), (0, 0)):
        q, k, v, dout = (rng.standard_normal((2, *shape)) for shape in ((n, 6), (m, 6), (m, 4), (n, 4)))
        for mask in (None, Mask(causal=True), np.ones((n, m), bool)):
            out, looked = ops.fused_attention(q, k, v, mask)
            assert out.shape == (2, n, 4)
            assert looked.weights.shape == (2, n, m)
            assert not out.any()
            assert not any(g.any() for g in ops.fused_attention_backward(dout, looked))


@pytest.mark.host
def test_fused_attention_names_what_does_not_fit(rng):
    q, k, v = rng.standard_normal((3, 4, 6))
    with pytest.raises(ValueError, match=r"fused_attention: k has shape \(4, 5\), expected .* d = 6"):
        ops.fused_attention(q, k[:, :5], v)
    with pytest.raises(ValueError, match=r"fused_attention: mask has shape \(3, 4\), expected one that broadcasts to"):
        ops.fused_attention(q, k, v, np.ones((3, 4), bool))
    _, looked = ops.fused_attention(q, k, v)
    with pytest.raises(TypeError, match="fused_attention_backward: q is float64 where the others are float32"):
        ops.fused_attention_backward(q.astype(np.float32), looked)


@pytest.mark.host  # not carried there and back: these arrays are the double's
def test_fused_attention_there_returns_what_it_was_given_to_write_into(rng):
    """On the double, as on a device: the gradients lie in `into`, and `into` comes back."""
    q, k, v, dout = (strict.asarray(a) for a in rng.standard_normal((4, 5, 6)))
    into = tuple(strict.zeros((5, 6)) for _ in range(3))
    _, looked = ops.fused_attention(q, k, v)
    assert ops.fused_attention_backward(dout, looked, into) is into
    for there, g in zip(into, ops.fused_attention_backward(dout, looked), strict=True):
        np.testing.assert_array_equal(there.get(), g.get())


@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_embedding_backward(lead, rng):
    ids, E = rng.integers(0, 3, (*lead, 40)), rng.standard_normal((4, 5))  # ids that occur often and never
    dy = rng.standard_normal((*lead, 40, 5))
    np.testing.assert_allclose(
        ops.embedding_backward(dy, ids, E), oracles.embedding_backward(dy, ids, E), rtol=0, atol=1e-12
    )


@pytest.mark.host  # a device adds into the whole table: test_embedding_backward
@pytest.mark.parametrize("repeats", [1, 3, 8, 16, 17, 60, 256, 300])
def test_sum_rows(repeats, rng):
    """Ids that occur a few times are added in rounds, frequent ones run by run: both, and a mixture."""
    once = np.arange(12, 40)
    ids = rng.permutation(np.concatenate([np.repeat([7, 2, 9], repeats), [4, 4, 1], np.repeat(5, 30), once]))
    values = rng.standard_normal((len(ids), 3))
    found = ops.sum_rows(ids, values, np.zeros((40, 3)))
    assert sorted(found.ids.tolist()) == [1, 2, 4, 5, 7, 9, *once]
    for i, total in zip(found.ids, found.values, strict=True):
        np.testing.assert_allclose(total, sum(values[j] for j in range(len(ids)) if ids[j] == i), rtol=0, atol=1e-12)


@pytest.mark.host
def test_sum_rows_names_what_does_not_fit(rng):
    with pytest.raises(TypeError, match="sum_rows: ids has dtype float64, expected integers"):
        ops.sum_rows(np.zeros(3), rng.standard_normal((3, 2)), np.zeros((4, 2)))


@pytest.mark.host
def test_sum_rows_of_a_table_that_16_bits_cannot_number(rng):
    """Two ids that differ by 2¹⁶, in turns: they are not one id."""
    ids, values = np.array([5, 5 + (1 << 16)] * 3), rng.standard_normal((6, 2))
    found = ops.sum_rows(ids, values, np.zeros(((1 << 16) + 10, 2)))
    assert sorted(found.ids.tolist()) == [5, 5 + (1 << 16)]
    for i, total in zip(found.ids, found.values, strict=True):
        np.testing.assert_allclose(total, values[ids == i].sum(axis=0), rtol=0, atol=1e-15)


def test_gelu_of_many_numbers_is_that_of_a_few():
    """More than are worked off at once, and no whole number of times as many."""
    x = np.linspace(-4, 4, 150_000).reshape(3, 50_000)
    for approximate in (False, True):
        parts = [ops.gelu(x[:, begin : begin + 5000], approximate) for begin in range(0, 50_000, 5000)]
        np.testing.assert_array_equal(ops.gelu(x, approximate), np.concatenate(parts, axis=1))
        backward = [ops.gelu_backward(x[:1] ** 2, row[None], approximate) for row in x]
        found = ops.gelu_backward(np.repeat(x[:1] ** 2, 3, axis=0), x, approximate)
        np.testing.assert_array_equal(found, np.concatenate(backward))


def test_alpha_may_be_a_number_of_numpys():
    """In float64 it would widen a gradient in float32."""
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    assert ops.elu_backward(x, x, np.float64(2)).dtype == np.float32


def test_erf_is_good_to_the_last_bits():
    import math

    from tinyattn.ops.activations import erf

    x = np.linspace(-7, 7, 9001)
    np.testing.assert_allclose(erf(x), [math.erf(value) for value in x], rtol=0, atol=1e-15)


def test_in_float32_phi_is_as_good_as_the_dtype():
    """Its own approximation there: x Φ(x) / x, against erf in float64, and 0 or 1 far out."""
    import math

    x = np.linspace(-9, 9, 9000, dtype=np.float32)  # without 0
    expected = [0.5 * math.erfc(-value / math.sqrt(2)) for value in x.tolist()]
    np.testing.assert_allclose(ops.gelu(x) / x, expected, rtol=0, atol=2e-7)
    far = np.array([-3e38, -50, -20, 20, 50, 3e38], np.float32)
    np.testing.assert_array_equal(ops.gelu(far), [0, 0, 0, 20, 50, np.float32(3e38)])
