"""hkproj/pytorch-transformer: the Transformer's parts as torch modules."""

import torch
from checkout import checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("hkproj/pytorch-transformer"))

import model  # noqa: E402

NAMES = ("w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight")


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(model.LayerNormalization(len(gamma), eps), {"alpha": gamma, "bias": beta}, x)


def feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"linear_1.weight": W_1.T, "linear_1.bias": b_1, "linear_2.weight": W_2.T, "linear_2.bias": b_2}
    return functional_call(model.FeedForwardBlock(*W_1.shape, 0.0), given, x)


def attention(q, k, v, mask=None):
    return model.MultiHeadAttentionBlock.attention(q, k, v, mask, None)


def cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
    q, k = (t.reshape(-1, *t.shape[-2:]) for t in (x, memory))
    mask = mask if mask is None else mask.expand(*x.shape[:-1], k.shape[-2]).reshape(-1, 1, *mask.shape[-2:])
    given = dict(zip(NAMES, (W_q.T, W_k.T, W_v.T, W_o.T), strict=True))
    return functional_call(model.MultiHeadAttentionBlock(len(W_q), heads, 0.0), given, (q, k, k, mask)).reshape(x.shape)


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    return cross_attention(x, x, W_q, W_k, W_v, W_o, heads, mask)


LayerNorm, FeedForward, Attention, CrossAttention, MultiHeadAttention = map(
    with_autograd, (layer_norm, feed_forward, attention, cross_attention, multi_head_attention)
)


class PaddedLayer:
    """A block of the encoder on vectors of width 8, with the padding mask of the source."""

    def __init__(self):
        torch.manual_seed(0)
        parts = model.MultiHeadAttentionBlock(8, 2, 0.0), model.FeedForwardBlock(8, 16, 0.0)
        self.module = model.EncoderBlock(8, *parts, 0.0).double()

    @torch.no_grad()
    def forward(self, x, mask):
        return self.module(torch.tensor(x, dtype=torch.float64), torch.tensor(mask)[:, None, None]).numpy()
