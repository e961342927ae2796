"""tunz/transformer-pytorch: the Transformer's parts as torch modules. Attention has no biases; True in a mask hides."""

import torch
from checkout import bare_package, checkout, stand_in, with_autograd
from torch.func import functional_call

bare_package("tunz", checkout("tunz/transformer-pytorch") / "model")
stand_in("utils", utils=None)

from tunz import transformer  # noqa: E402

NAMES = ("linear_q.weight", "linear_k.weight", "linear_v.weight", "output_layer.weight")


def feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"layer1.weight": W_1.T, "layer1.bias": b_1, "layer2.weight": W_2.T, "layer2.bias": b_2}
    return functional_call(transformer.FeedForwardNetwork(*W_1.shape, 0.0), given, x)


def cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
    q, k = (t.reshape(-1, *t.shape[-2:]) for t in (x, memory))
    allowed = torch.ones(1, dtype=torch.bool) if mask is None else mask
    hidden = ~allowed.expand(*x.shape[:-1], memory.shape[-2]).reshape(-1, x.shape[-2], memory.shape[-2])
    given = dict(zip(NAMES, (W_q.T, W_k.T, W_v.T, W_o.T), strict=True))
    module = transformer.MultiHeadAttention(len(W_q), 0.0, heads)
    return functional_call(module, given, (q, k, k, hidden)).reshape(x.shape)


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    return cross_attention(x, x, W_q, W_k, W_v, W_o, heads, mask)


FeedForward, CrossAttention, MultiHeadAttention = map(
    with_autograd, (feed_forward, cross_attention, multi_head_attention)
)
