"""meta-llama/llama: the norm of LLaMA 2, and its rotary positions as complex numbers."""

import torch
from checkout import bare_package, checkout, stand_in, with_autograd
from torch.func import functional_call

bare_package("llama", checkout("meta-llama/llama") / "llama")
for name in ("fairscale", "fairscale.nn", "fairscale.nn.model_parallel", "fairscale.nn.model_parallel.initialize"):
    stand_in(name)
names = ("ColumnParallelLinear", "ParallelEmbedding", "RowParallelLinear")
stand_in("fairscale.nn.model_parallel.layers", **dict.fromkeys(names))

from llama import model  # noqa: E402


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(model.RMSNorm(len(gamma), eps), {"weight": gamma}, x)


def rotary(x, cos, sin):
    four = x.reshape(-1, x.shape[-2], 1, x.shape[-1])
    return model.apply_rotary_emb(four, four, torch.complex(cos, sin))[0].reshape(x.shape)


RmsNorm = with_autograd(rms_norm)
Rotary = with_autograd(rotary, constant=("cos", "sin"))
