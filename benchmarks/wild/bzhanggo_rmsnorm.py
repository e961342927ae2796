"""bzhangGo/rmsnorm: RMSNorm in torch, by the author of its paper."""

from checkout import checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("bzhangGo/rmsnorm"))

from rmsnorm_torch import RMSNorm  # noqa: E402


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(RMSNorm(len(gamma), eps=eps), {"scale": gamma}, x)


RmsNorm = with_autograd(rms_norm)
