"""hkproj/pytorch-llama: LLaMA with a cache, one token at a time. Rotary positions are complex numbers."""

import torch
from checkout import checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("hkproj/pytorch-llama"))

import model  # noqa: E402


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(model.RMSNorm(len(gamma), eps), {"weight": gamma}, x)


def rotary(x, cos, sin):
    four = x.reshape(-1, x.shape[-2], 1, x.shape[-1])
    return model.apply_rotary_embeddings(four, torch.complex(cos, sin), "cpu").reshape(x.shape)


def swiglu(x, W_1, V, W_2):
    """The repository rounds the hidden width to a multiple of 256; here the parameters decide it."""
    network = model.FeedForward(model.ModelArgs(dim=len(W_1)))
    return functional_call(network, {"w1.weight": W_1.T, "w3.weight": V.T, "w2.weight": W_2.T}, x)


RmsNorm, Swiglu = map(with_autograd, (rms_norm, swiglu))
Rotary = with_autograd(rotary, constant=("cos", "sin"))
