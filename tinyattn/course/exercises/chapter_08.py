"""Exercises of chapter 08, the block."""

from typing import Any

import numpy as np

from ... import ops
from ...check import adapters
from ..graders import Function, Number, Property
from ..plain import Changes
from ..prose import Prose


def _stream_std(blocks: int) -> float:
    """The standard deviation of the sum of a standard normal stream and two more for each block."""
    x = np.random.default_rng(0).standard_normal((1 + 2 * blocks, 20_000))
    return float(np.std(np.sum(x, axis=0)))


# wrong answers beside the zoo's
def _layer_norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    """-> y, x_hat, rstd."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean(centred ** 2, axis=-1, keepdims=True) + x.dtype.type(eps))
    x_hat = centred * rstd
    return x_hat * gamma + beta, x_hat, rstd


def _rstd_for_x_hat(dy: Any, x_hat: Any, rstd: Any, gamma: Any) -> Any:
    dx, dgamma, dbeta = ops.layer_norm_backward(dy, x_hat, rstd, gamma)
    return dx * rstd, dgamma, dbeta


def _only_normalised(
    x: Any, gamma_1: Any, beta_1: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, gamma_2: Any, beta_2: Any,
    W_1: Any, b_1: Any, W_2: Any, b_2: Any, heads: int, mask: Any = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Attention's output goes into the second branch, but is never added to x."""
    h = ops.layer_norm(x, gamma_1, beta_1, eps)[0]
    a = adapters.multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)
    h = ops.layer_norm(a, gamma_2, beta_2, eps)[0]
    return x + adapters.feed_forward(h, W_1, b_1, W_2, b_2)


EXERCISES = Prose(8).exercises(
    my_layer_norm=Function("layer_norm", takes=("eps",), conventions=False, tempting=Changes(_layer_norm)),
    my_layer_norm_backward=Function("layer_norm", part="backward", tempting=dict(rstd_for_x_hat=_rstd_for_x_hat)),
    each_token_alone=Property("layer_norm", "axis", gives=("layer_norm",), others=("all_axes",)),
    repaired_block=Function("block", tempting=dict(only_normalised=_only_normalised)),
    stream_std=Number(_stream_std, tolerance=0.01, computed="A simulation gives {}."),
)
