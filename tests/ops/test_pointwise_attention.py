"""Pointwise attention: what distinguishes it from softmax, and what it refuses."""

import numpy as np
import pytest

from tinyattn import ops

R = np.random.default_rng(3)
Q, K, V = (R.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 2)))


def test_a_burst_of_equal_keys_takes_softmax_over_and_leaves_pointwise_weights_alone():
    """Three more copies of a key: with softmax the others lose weight; here each pair's sum is as before."""
    burst = np.r_[np.arange(5), 4, 4, 4]
    before, after = (ops.pointwise_weights(ops.pointwise_attention(Q, k, v)[1]) for k, v in
                     ((K, V), (K[:, burst], V[:, burst])))  # fmt: skip
    np.testing.assert_allclose(after[..., :5] * 8, before * 5, rtol=1e-12)
    soft, softer = (ops.attention(Q, k, v)[1][..., :4] for k, v in ((K, V), (K[:, burst], V[:, burst])))
    assert np.all(softer < soft)


def test_weights_may_be_negative_and_do_not_sum_to_1():
    weights = ops.pointwise_weights(np.array([[-1.0, 3.0]]))
    np.testing.assert_allclose(weights, [[-0.5 / (1 + np.e), 1.5 / (1 + np.exp(-3))]])


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 1), (1,), (2, 1, 1), (2, 3, 5)])
def test_a_mask_of_any_shape_counts_the_keys_that_a_query_sees(shape):
    mask = np.ones(shape, bool)
    mask[..., -1:] = False
    full = np.broadcast_to(mask, (2, 3, 5))
    one, s = ops.pointwise_attention(Q, K, V, mask)
    np.testing.assert_array_equal(one, ops.pointwise_attention(Q, K, V, full)[0])
    np.testing.assert_allclose(ops.pointwise_weights(s, mask), ops.pointwise_weights(s, full))


def test_no_keys_and_no_queries():
    out, s = ops.pointwise_attention(Q, K[:, :0], V[:, :0])
    assert out.shape == (2, 3, 2)
    assert s.shape == (2, 3, 0)
    assert not out.any()
    assert ops.pointwise_attention(Q[:, :0], K, V)[0].shape == (2, 0, 2)


def test_refusals():
    with pytest.raises(TypeError, match=r"mask has dtype float64, expected bool"):
        ops.pointwise_attention(Q, K, V, np.ones((3, 5)))
    with pytest.raises(ValueError, match=r"bias has shape \(4, 5\), expected one that broadcasts to \(2, 3, 5\)"):
        ops.pointwise_attention(Q, K, V, bias=np.ones((4, 5)))
    with pytest.raises(TypeError, match="bias has dtype float32"):
        ops.pointwise_attention(Q, K, V, bias=np.ones((3, 5), np.float32))
    with pytest.raises(ValueError, match="mask has shape"):
        ops.pointwise_weights(Q[0, :, :3], np.ones((4, 3), bool))
