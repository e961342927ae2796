"""karpathy/nanoGPT: GPT in PyTorch."""

import torch
from checkout import array, checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("karpathy/nanoGPT"))

import model  # noqa: E402


class CausalModel:
    """Two blocks of width 16; all positions are asked for, as in training, with tokens in a tensor of their own."""

    vocabulary, maxlen = 8, 40

    def __init__(self):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = model.GPT(model.GPTConfig(self.maxlen, self.vocabulary, n_layer=2, n_head=2, n_embd=16))

    def forward(self, ids):
        return array(self.model(torch.tensor(ids), torch.tensor(ids))[0])

    def fit(self, ids):
        optimizer = self.model.configure_optimizers(0.0, 3e-3, (0.9, 0.95), "cpu")
        for _ in range(150):
            loss = self.model(torch.tensor(ids[:, :-1]), torch.tensor(ids[:, 1:]))[1]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def log_probs(self, ids):
        return array(torch.log_softmax(self.model(torch.tensor(ids), torch.tensor(ids))[0], dim=-1))


def layer_norm(x, gamma, beta):
    return functional_call(model.LayerNorm(len(gamma), bias=True), {"weight": gamma, "bias": beta}, x)


LayerNorm = with_autograd(layer_norm)


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
