"""labmlai/annotated_deep_learning_paper_implementations: a website's torch modules; attention takes (n, batch, d)."""

from functools import partial

import torch
from checkout import bare_package, checkout, importable, stand_in, stepped, with_autograd
from torch.func import functional_call

FOLDER = checkout("labmlai/annotated_deep_learning_paper_implementations")
importable(FOLDER)
bare_package("labml_nn.transformers", FOLDER / "labml_nn" / "transformers")
stand_in("labml", tracker=type("Tracker", (), {"debug": staticmethod(lambda name, value: None)}))
stand_in("labml.logger", inspect=None)

from labml_nn import lstm as recurrent  # noqa: E402
from labml_nn.normalization import batch_norm as batches  # noqa: E402
from labml_nn.normalization import layer_norm as layers  # noqa: E402
from labml_nn.optimizers import WeightDecay, adam  # noqa: E402
from labml_nn.transformers import feed_forward as networks  # noqa: E402
from labml_nn.transformers import mha, rope  # noqa: E402


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(layers.LayerNorm(len(gamma), eps=eps), {"gain": gamma, "bias": beta}, x)


def batch_norm(x, gamma, beta, eps=1e-5):
    module = batches.BatchNorm(len(gamma), eps=eps, track_running_stats=False)
    return functional_call(module, {"scale": gamma, "shift": beta}, x.reshape(-1, len(gamma))).reshape(x.shape)


def lstm(x, W, U, b):
    """One layer. The repository orders the gates' columns i, f, g, o."""
    i, f, o, g = (torch.cat(part) for part in zip(*(p.tensor_split(4, dim=-1) for p in (W, U, b[None])), strict=True))
    rows = torch.cat([i, f, g, o], dim=1).split([len(W), len(U), 1])
    given = {"cells.0.input_lin.weight": rows[0].T, "cells.0.hidden_lin.weight": rows[1].T}
    given |= {"cells.0.hidden_lin.bias": rows[2][0]}
    h, _ = functional_call(recurrent.LSTM(len(W), len(U), 1), given, x.reshape(-1, *x.shape[-2:]).transpose(0, 1))
    return h.transpose(0, 1).reshape(*x.shape[:-1], len(U))


def feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"layer1.weight": W_1.T, "layer1.bias": b_1, "layer2.weight": W_2.T, "layer2.bias": b_2}
    return functional_call(networks.FeedForward(*W_1.shape, 0.0), given, x)


def swiglu(x, W_1, V, W_2):
    module = networks.FeedForward(*W_1.shape, 0.0, torch.nn.SiLU(), True, False, False, False)
    return functional_call(module, {"layer1.weight": W_1.T, "linear_v.weight": V.T, "layer2.weight": W_2.T}, x)


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None):
    """The repository's mask is (n, n, batch)."""
    batch = x.reshape(-1, *x.shape[-2:])
    mask = mask if mask is None else mask.expand(*x.shape[:-1], x.shape[-2]).reshape(-1, *mask.shape[-2:]).movedim(0, 2)
    parts = {"query": (W_q, b_q), "key": (W_k, b_k), "value": (W_v, b_v)}
    given = {f"{name}.linear.weight": W.T for name, (W, _) in parts.items()} | {"output.weight": W_o.T}
    given |= {f"{name}.linear.bias": b for name, (_, b) in parts.items()} | {"output.bias": b_o}
    tokens = dict.fromkeys(("query", "key", "value"), batch.transpose(0, 1))
    module = mha.MultiHeadAttention(heads, len(W_q), 0.0)
    return functional_call(module, given, (), tokens | {"mask": mask}).transpose(0, 1).reshape(x.shape)


def rotary(x, cos, sin):
    """The module's own tables are replaced by `cos` and `sin`."""
    module = rope.RotaryPositionalEmbeddings(x.shape[-1])
    module.cos_cached, module.sin_cached = (torch.cat([table, table], dim=1)[:, None, None] for table in (cos, sin))
    four = x.reshape(-1, x.shape[-2], 1, x.shape[-1]).transpose(0, 1)
    return module(four).transpose(0, 1).reshape(x.shape)


LayerNorm, BatchNorm, Lstm, FeedForward, Swiglu, BiasedMultiHeadAttention = map(
    with_autograd, (layer_norm, batch_norm, lstm, feed_forward, swiglu, biased_multi_head_attention)
)
Rotary = with_autograd(rotary, constant=("cos", "sin"))


class Adam:
    """As in the paper's algorithm, eps is added after the bias correction of v."""

    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        make = partial(adam.Adam, lr=lr, betas=(beta1, beta2), eps=eps, optimized_update=False)
        stepped(make, vector, gradient, moments, step)


class AdamW:
    """By default the repository adds eps before the bias correction of v."""

    def adamw(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01):
        make = partial(adam.Adam, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=WeightDecay(weight_decay))
        stepped(make, vector, gradient, moments, step)
