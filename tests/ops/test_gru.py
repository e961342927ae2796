"""The gated recurrent unit: plain loops, PyTorch where it is installed, the laws, and what is refused."""

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import gradcheck, oracles


def drawn(rng, lead, n, i=3, H=4):
    """x, W, U, b, c, h0."""
    shapes = (*lead, n, i), (i, 3 * H), (H, 3 * H), (3 * H,), (3 * H,), (*lead, H)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 6])
def test_plain_loops_and_differences(n, lead, rng):
    *given, h0 = drawn(rng, lead, n)
    for start in (None, h0):
        exact = oracles.gru(*given, start)
        for dtype, atol in ((np.float64, 1e-12), (np.float32, 2e-5)):
            x, W, U, b, c, first = (None if a is None else a.astype(dtype) for a in (*given, start))
            h, *saved = ops.gru(x, W, U, b, c, first)
            np.testing.assert_allclose(h, exact, rtol=0, atol=atol)
            gradients = ops.gru_backward(h, x, W, U, h, *saved, first)
            assert (gradients[-1] is None) == (start is None)
            for g, a in zip(gradients, (x, W, U, b, c, first), strict=True):
                assert a is None or (g.shape == a.shape and g.dtype == dtype)
            assert {a.dtype for a in (h, *saved)} == {np.dtype(dtype)}
        if n and 0 not in lead:
            assert gradcheck(ops.gru, ops.gru_backward, *given, start)


@pytest.mark.host
def test_it_is_pytorchs(rng):
    torch = pytest.importorskip("torch")
    x, W, U, b, c, h0 = drawn(rng, (5,), 7)
    module = torch.nn.GRU(3, 4, batch_first=True, dtype=torch.float64)
    theirs = dict(module.named_parameters())
    for name, a in (("weight_ih_l0", W.T), ("weight_hh_l0", U.T), ("bias_ih_l0", b), ("bias_hh_l0", c)):
        theirs[name].data = torch.tensor(np.ascontiguousarray(a))
    inputs = [torch.tensor(a, requires_grad=True) for a in (x, h0[None])]
    y, _ = module(*inputs)
    h, *saved = ops.gru(x, W, U, b, c, h0)
    np.testing.assert_allclose(h, y.detach().numpy(), rtol=0, atol=1e-13)
    y.backward(torch.tensor(np.cos(h)))
    dx, dW, dU, db, dc, dh0 = ops.gru_backward(np.cos(h), x, W, U, h, *saved, h0)
    for mine, tensor in zip((dx, dh0[None], dW.T, dU.T, db, dc), (*inputs, *theirs.values()), strict=True):
        np.testing.assert_allclose(mine, tensor.grad.numpy(), rtol=0, atol=1e-12)


def test_no_later_token_moves_an_earlier_state_and_a_state_can_be_handed_on(rng):
    x, *rest, h0 = drawn(rng, (2,), 9)
    h, *saved = ops.gru(x, *rest, h0)
    assert np.all(np.abs(ops.gru(x, *rest)[0]) < 1)
    moved = x.copy()
    moved[:, 5:] += 1
    np.testing.assert_array_equal(ops.gru(moved, *rest, h0)[0][:, :5], h[:, :5])
    np.testing.assert_allclose(ops.gru(x[:, 5:], *rest, h[:, 4])[0], h[:, 5:], rtol=0, atol=1e-14)
    early = np.cos(h)
    early[:, 5:] = 0
    assert not ops.gru_backward(early, x, *rest[:2], h, *saved, h0)[0][:, 5:].any()


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
