"""The gated recurrent unit: what its spec does not draw, and what is refused."""

import numpy as np
import pytest

from tinyattn import ops


def drawn(rng, lead, n, i=3, H=4):
    """x, W, U, b, c, h0."""
    shapes = (*lead, n, i), (i, 3 * H), (H, 3 * H), (3 * H,), (3 * H,), (*lead, H)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("lead", [(), (2,), (0,)], ids=str)
@pytest.mark.parametrize("n", [0, 1])
def test_without_tokens_sequences_or_a_first_state(n, lead, rng):
    *given, h0 = drawn(rng, lead, n)
    for start in (None, h0):
        h, *saved = ops.gru(*given, start)
        found = ops.gru_backward(h, *given[:3], h, *saved, start)
        for g, a in zip(found, (*given, start), strict=True):
            assert (g is None) == (a is None)
            assert a is None or g.shape == a.shape
            assert a is None or h.size or not g.any()


def test_an_update_gate_that_is_shut_copies_the_state(rng):
    """z = 1 to the last bit; and gates far out stay finite, without a warning."""
    x, W, U, b, c, h0 = drawn(rng, (2,), 6)
    b[4:8] = 1e3
    h, *saved = ops.gru(x, W, U, b, c, h0)
    np.testing.assert_array_equal(h, np.repeat(h0[:, None], 6, axis=1))
    dh = rng.standard_normal(h.shape)
    *others, dh0 = ops.gru_backward(dh, x, W, U, h, *saved, h0)
    np.testing.assert_allclose(dh0, dh.sum(axis=1), rtol=0, atol=1e-13)
    assert not any(g.any() for g in others)
    b[4:8] = -1e3
    np.testing.assert_array_equal(ops.gru(x, W, U, b, c, h0)[1][..., 4:8], 0)


def test_what_is_refused(rng):
    x, W, U, b, c, h0 = drawn(rng, (2,), 3)
    with pytest.raises(ValueError, match=r"gru: U has shape \(3, 12\), expected \(H, 3 H\)"):
        ops.gru(x, W, U[:3], b, c)
    with pytest.raises(ValueError, match=r"gru: b has shape \(11,\), expected \(o\) with o = 12"):
        ops.gru(x, W, U, b[1:], c)
    with pytest.raises(ValueError, match=r"gru: h0 has shape \(4,\), expected"):
        ops.gru(x, W, U, b, c, h0[0])
    with pytest.raises(TypeError, match="gru: W is float32 where the others are float64"):
        ops.gru(x, W.astype("f"), U, b, c)
