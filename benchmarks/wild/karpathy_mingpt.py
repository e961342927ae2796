"""karpathy/minGPT: GPT and its parts as torch modules."""

import torch
from checkout import Gpt, array, checkout, importable, with_autograd

importable(checkout("karpathy/minGPT"))

from mingpt import model  # noqa: E402


def configuration(vocabulary=8, length=40, width=16):
    config = model.GPT.get_default_config()
    config.model_type, config.n_layer, config.n_head, config.n_embd = None, 2, 2, width
    config.vocab_size, config.block_size = vocabulary, length
    config.embd_pdrop = config.resid_pdrop = config.attn_pdrop = 0.0
    return config


def gelu(x):
    return model.NewGELU()(x)


Gelu = with_autograd(gelu)


class CausalModel(Gpt):
    def __init__(self):
        torch.manual_seed(0)
        self.model = model.GPT(configuration())


class CausalAttention:
    """Attention alone, on vectors."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        self.module = model.CausalSelfAttention(configuration(width=8)).double()

    def forward(self, x):
        return array(self.module(torch.tensor(x, dtype=torch.float64)))


class CausalBlock(CausalAttention):
    """A block, on vectors."""

    def __init__(self):
        torch.manual_seed(0)
        self.module = model.Block(configuration(width=8)).double()
