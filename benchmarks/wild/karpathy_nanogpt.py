"""karpathy/nanoGPT: GPT in PyTorch."""

import torch
from checkout import Gpt, array, checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("karpathy/nanoGPT"))

import model  # noqa: E402


class CausalModel(Gpt):
    def __init__(self):
        torch.manual_seed(0)
        self.model = model.GPT(model.GPTConfig(self.maxlen, self.vocabulary, n_layer=2, n_head=2, n_embd=16))


def layer_norm(x, gamma, beta):
    return functional_call(model.LayerNorm(len(gamma), bias=True), {"weight": gamma, "bias": beta}, x)


def gelu_feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"c_fc.weight": W_1.T, "c_fc.bias": b_1, "c_proj.weight": W_2.T, "c_proj.bias": b_2}
    return functional_call(model.MLP(model.GPTConfig(n_embd=len(W_1))), given, x)


LayerNorm = with_autograd(layer_norm)
GeluFeedForward = with_autograd(gelu_feed_forward)


class CausalAttention:
    """Attention alone, on vectors."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        self.module = model.CausalSelfAttention(model.GPTConfig(self.maxlen, n_head=2, n_embd=8)).double()

    def forward(self, x):
        return array(self.module(torch.tensor(x, dtype=torch.float64)))


class CausalBlock(CausalAttention):
    """A block, on vectors."""

    def __init__(self):
        torch.manual_seed(0)
        self.module = model.Block(model.GPTConfig(self.maxlen, n_head=2, n_embd=8)).double()
