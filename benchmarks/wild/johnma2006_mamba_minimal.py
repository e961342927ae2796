"""johnma2006/mamba-minimal: Mamba in one file of torch, (batch, length, channels)."""

import torch
from checkout import Gpt, array, checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("johnma2006/mamba-minimal"))

import model  # noqa: E402


def selective_scan(x, delta, A, B, C, D):
    given = (t.reshape(-1, *t.shape[-2:]) for t in (x, delta))
    rows = (t.reshape(-1, *t.shape[-2:]) for t in (B, C))
    return model.MambaBlock.selective_scan(None, *given, A.T, *rows, D).reshape(x.shape)


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(model.RMSNorm(len(gamma), eps), {"weight": gamma}, x)


SelectiveScan, RmsNorm = map(with_autograd, (selective_scan, rms_norm))


class CausalModel(Gpt):
    def __init__(self):
        torch.manual_seed(0)
        self.model = model.Mamba(model.ModelArgs(16, 2, self.vocabulary))

    def called(self, ids, targets):
        logits = self.model(torch.tensor(ids))
        return logits, torch.nn.functional.cross_entropy(logits.transpose(1, 2), torch.tensor(targets))


class CausalBlock:
    """A block on vectors of width 8."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        self.module = model.ResidualBlock(model.ModelArgs(8, 1, 8))

    @torch.no_grad()
    def forward(self, x):
        return array(self.module(torch.tensor(x, dtype=torch.float32)))
