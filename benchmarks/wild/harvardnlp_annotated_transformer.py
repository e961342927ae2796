"""harvardnlp/annotated-transformer: the Transformer as torch modules, in the script of a notebook."""

import sys
from importlib.machinery import ModuleSpec
from unittest import mock

import torch
from checkout import checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("harvardnlp/annotated-transformer"))
for name in ("altair", "GPUtil", "pandas", "spacy", "torchtext", "torchtext.data", "torchtext.data.functional",
             "torchtext.datasets", "torchtext.vocab"):  # fmt: skip
    sys.modules[name] = mock.MagicMock(__spec__=ModuleSpec(name, None))  # its import draws figures

import the_annotated_transformer as theirs  # noqa: E402


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(theirs.LayerNorm(len(gamma), eps), {"a_2": gamma, "b_2": beta}, x)


def attention(q, k, v, mask=None):
    return theirs.attention(q, k, v, mask)


def feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"w_1.weight": W_1.T, "w_1.bias": b_1, "w_2.weight": W_2.T, "w_2.bias": b_2}
    return functional_call(theirs.PositionwiseFeedForward(*W_1.shape, 0.0), given, x)


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None):
    """One mask serves all heads."""
    batch = x.reshape(-1, *x.shape[-2:])
    mask = mask if mask is None else mask.expand(*x.shape[:-1], x.shape[-2]).reshape(-1, *mask.shape[-2:])
    given = {f"linears.{i}.weight": W.T for i, W in enumerate((W_q, W_k, W_v, W_o))}
    given |= {f"linears.{i}.bias": b for i, b in enumerate((b_q, b_k, b_v, b_o))}
    module = theirs.MultiHeadedAttention(heads, len(W_q), 0.0)
    return functional_call(module, given, (batch, batch, batch, mask)).reshape(x.shape)


LayerNorm, Attention, FeedForward, BiasedMultiHeadAttention = map(
    with_autograd, (layer_norm, attention, feed_forward, biased_multi_head_attention)
)


class CausalModel:
    """The decoder on vectors of width 8, always with the same encoded sequence."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        parts = (theirs.MultiHeadedAttention(2, 8, 0.0), theirs.MultiHeadedAttention(2, 8, 0.0))
        layer = theirs.DecoderLayer(8, *parts, theirs.PositionwiseFeedForward(8, 16, 0.0), 0.0)
        self.decoder, self.memory = theirs.Decoder(layer, 2).double(), torch.randn(1, 5, 8, dtype=torch.float64)

    @torch.no_grad()
    def forward(self, x):
        x, all_of_it = torch.tensor(x, dtype=torch.float64), torch.ones(1, 1, 5)
        memory = self.memory.expand(len(x), -1, -1)
        return self.decoder(x, memory, all_of_it, theirs.subsequent_mask(x.shape[1])).numpy()
