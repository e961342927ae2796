"""alxndrTL/mamba.py: Mamba, whose parallel scan has a hand-written backward; (batch, length, channels, state)."""

import torch
from checkout import array, bare_package, checkout, with_autograd
from torch.func import functional_call

bare_package("mambapy", checkout("alxndrTL/mamba.py") / "mambapy")

from mambapy import mamba, pscan  # noqa: E402


def associative_scan(a, b):
    one = (x.reshape(-1, x.shape[-2], 1, x.shape[-1]) for x in (a, b))
    return pscan.pscan(*one).reshape(a.shape)


def selective_scan(x, delta, A, B, C, D):
    rows = [t.reshape(-1, *t.shape[-2:]) for t in (x, delta, B, C)]
    return mamba.MambaBlock.selective_scan(None, *rows[:2], A.T, *rows[2:], D).reshape(x.shape)


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(mamba.RMSNorm(len(gamma), eps), {"weight": gamma}, x)


AssociativeScan, SelectiveScan, RmsNorm = map(with_autograd, (associative_scan, selective_scan, rms_norm))


class CachedModel:
    """Two layers on vectors of width 8."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.config = mamba.MambaConfig(d_model=8, n_layers=2, d_state=4)
        self.model = mamba.Mamba(self.config)

    @torch.no_grad()
    def forward(self, x):
        return array(self.model(torch.tensor(x, dtype=torch.float32)))

    @torch.no_grad()
    def step(self, x, cache):
        if cache is None:
            inputs = torch.zeros(len(x), self.config.d_inner, self.config.d_conv - 1)
            cache = [(None, inputs)] * self.config.n_layers
        y, cache = self.model.step(torch.tensor(x, dtype=torch.float32), list(cache))
        return array(y), cache


class CausalModel(CachedModel):
    """The same layers, forward only."""
