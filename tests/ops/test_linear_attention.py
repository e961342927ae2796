"""Linear attention: three equal forms at every length, the laws, and what is refused."""

import numpy as np
import pytest

from tinyattn import ops

FORMS = ["parallel", "recurrent", "chunked"]


def drawn(rng, lead, n, m, d=6, e=4):
    return [rng.standard_normal((*lead, rows, width)) for rows, width in ((n, d), (m, d), (m, e), (n, e))]


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "over all"])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 1), (5, 7), (64, 64), (65, 20), (96, 96), (100, 100)])
def test_all_forms_are_the_weights_times_the_values(n, m, causal, lead, rng):
    m = n if causal else m
    for keys in (None, rng.random((*lead, m)) < 0.7, np.zeros(m, bool)):
        q, k, v, dout = drawn(rng, lead, n, m)
        weights = ops.linear_weights(q, k, causal, keys)
        np.testing.assert_allclose(weights.sum(axis=-1), weights.any(axis=-1), rtol=0, atol=1e-12)
        first = None
        for form in FORMS:
            out, denominator = ops.linear_attention(q, k, v, causal, keys, form)
            np.testing.assert_allclose(out, weights @ v, rtol=0, atol=1e-12)
            found = ops.linear_attention_backward(dout, q, k, v, out, denominator, causal, keys, form)
            for g, like, theirs in zip(found, (q, k, v), first or found, strict=True):
                assert g.shape == like.shape
                np.testing.assert_allclose(g, theirs, rtol=0, atol=1e-12)
            first = first or found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [1, 5, 70, 100])
def test_a_causal_sum_by_pairs(n, form, rng):
    """In `linear_attention` a factor of all of y would cancel: numerator and denominator come from one sum."""
    a, b, c, _ = drawn(rng, (2,), n, n)
    exact = np.einsum("bid,bjd,ij,bje->bie", a, b, np.tri(n), c)
    np.testing.assert_allclose(ops.causal_sum(a, b, c, form), exact, rtol=0, atol=1e-11)
    if form == "chunked":
        np.testing.assert_array_equal(ops.causal_sum(a, b, c), ops.causal_sum(a, b, c, form))


@pytest.mark.parametrize("form", FORMS)
def test_no_later_token_moves_an_earlier_output(form, rng):
    """Bit for bit, across chunks and within them, and back: no gradient flows from there."""
    q, k, v, dout = drawn(rng, (2,), 100, 100)
    out, denominator = ops.linear_attention(q, k, v, form=form)
    for changed in (1, 31, 32, 64, 99):
        moved = [a.copy() for a in (q, k, v)]
        for a in moved:
            a[:, changed:] += 1.0
        np.testing.assert_array_equal(ops.linear_attention(*moved, form=form)[0][:, :changed], out[:, :changed])
        early = dout.copy()
        early[:, changed:] = 0
        for g in ops.linear_attention_backward(early, q, k, v, out, denominator, form=form):
            assert not g[:, changed:].any()
            assert g[:, 0].any() or g[:, 1].any()


def test_outputs_lie_between_values_and_constants_pass(rng):
    q, k, v, _ = drawn(rng, (2,), 50, 50)
    for keys in (k, 0.1 * k - 69.1):  # there exp is what φ has added to it: 1e-30
        out, _ = ops.linear_attention(q, keys, v)
        assert np.all(out <= np.maximum.accumulate(v, axis=-2) + 1e-12)
        assert np.all(out >= np.minimum.accumulate(v, axis=-2) - 1e-12)
    np.testing.assert_allclose(ops.linear_attention(q, k, np.ones_like(v))[0], 1, rtol=0, atol=1e-12)
    far = np.array([[-200.0, -50.0, 0.0, 200.0]])
    assert all(np.all(np.isfinite(a)) for a in ops.linear_attention(far, far, far))


def test_what_is_refused(rng):
    q, k, v, _ = drawn(rng, (), 5, 4)
    with pytest.raises(ValueError, match=r"k has shape \(4, 6\), expected .*n = 5"):
        ops.linear_attention(q, k, v)
    for causal in (True, False):
        with pytest.raises(ValueError, match="form is 'scan', expected one of parallel, recurrent, chunked"):
            ops.linear_attention(q, q, q, causal, form="scan")
    with pytest.raises(ValueError, match=r"keys has shape \(5,\), expected one that broadcasts to \(4,\)"):
        ops.linear_attention(q, k, v, False, np.ones(5, bool))
    with pytest.raises(ValueError, match=r"linear_weights: k has shape \(4, 6\), expected .*n = 5"):
        ops.linear_weights(q, k)
    with pytest.raises(TypeError, match="linear_weights: k is float32 where the others are float64"):
        ops.linear_weights(q, k.astype(np.float32), False)
    with pytest.raises(TypeError, match="linear_weights: keys has dtype float64, expected bool"):
        ops.linear_weights(q, k, False, np.ones(4))
    with pytest.raises(ValueError, match=r"causal_sum: c has shape \(4, 4\), expected .*n = 5"):
        ops.causal_sum(q, q, v)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("low", [-40.0, -50.0, -95.0, -1000.0])
def test_features_that_vanish_in_float32_are_no_nan(low, causal, rng):
    """Queries as low as they like change nothing; keys that have no feature left are taken alike."""
    q, k, v, dout = rng.standard_normal((4, 40, 6)).astype(np.float32)
    exact, _ = ops.linear_attention(*(a.astype(float) for a in (q - 4, k, v)), causal)
    shifted, denominator = ops.linear_attention(q + np.float32(low), k, v, causal)
    if low < -4:
        np.testing.assert_allclose(shifted, exact, rtol=0, atol=1e-4 * abs(low))  # q + low has fewer digits
    for keys in (k, k + np.float32(low)):
        out, denominator = ops.linear_attention(q + np.float32(low), keys, v, causal)
        gradients = ops.linear_attention_backward(dout, q + np.float32(low), keys, v, out, denominator, causal)
        assert all(np.all(np.isfinite(x)) for x in (out, *gradients))
        assert np.all(np.abs(out) <= np.abs(v).max() * 1.001)
        weights = ops.linear_weights(q + np.float32(low), keys, causal)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.host
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 3e38])
def test_no_entry_of_a_padded_key_shows(bad, rng):
    q, k, v = rng.standard_normal((3, 2, 6, 4)).astype("f")
    k[:, 4:], keys, W = bad, np.arange(6) < 4, rng.standard_normal((8, 4)).astype("f")
    with np.errstate(all="ignore"):
        linear, _ = ops.linear_attention(q, k, v, False, keys)
        performer, _ = ops.performer_attention(q, k, v, W, False, keys)
    k, v = k[:, :4], v[:, :4]
    np.testing.assert_allclose(linear, ops.linear_attention(q, k, v, False)[0], atol=1e-6)
    np.testing.assert_allclose(performer, ops.performer_attention(q, k, v, W, False)[0], atol=1e-6)
