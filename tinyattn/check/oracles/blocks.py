"""Compositions of other ops: feed-forward networks and whole blocks."""

from ...backend import Array
from .attention import multi_head_attention
from .basics import gelu, layer_norm, linear, relu, silu


def feed_forward(x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> Array:
    return linear(relu(linear(x, W_1, b_1)), W_2, b_2)


def gelu_feed_forward(x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, approximate: bool = False) -> Array:
    return linear(gelu(linear(x, W_1, b_1), approximate), W_2, b_2)


def swiglu(x: Array, W_1: Array, V: Array, W_2: Array) -> Array:
    return linear(silu(linear(x, W_1)) * linear(x, V), W_2)


def block(
    x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_2: Array,
    beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int, mask: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    x = x + multi_head_attention(layer_norm(x, gamma_1, beta_1, eps)[0], W_q, W_k, W_v, W_o, heads, mask)
    return x + feed_forward(layer_norm(x, gamma_2, beta_2, eps)[0], W_1, b_1, W_2, b_2)


def post_ln_block(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_1: Array, beta_1: Array, W_1: Array, b_1: Array,
    W_2: Array, b_2: Array, gamma_2: Array, beta_2: Array, heads: int, mask: Array | None = None, eps: float = 1e-5,
) -> Array:  # fmt: skip
    x = layer_norm(x + multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask), gamma_1, beta_1, eps)[0]
    return layer_norm(x + feed_forward(x, W_1, b_1, W_2, b_2), gamma_2, beta_2, eps)[0]
