"""PeaBrane/mamba-tiny: Mamba's scan by cumulative sums of logarithms, (batch, length, channels)."""

from checkout import checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("PeaBrane/mamba-tiny"))

import model  # noqa: E402
import scans  # noqa: E402


def scan(x, delta, A, B, C, D, mode):
    x, delta, B, C = (t.reshape(-1, *t.shape[-2:]) for t in (x, delta, B, C))
    return scans.selective_scan(x, delta, A.T, B, C, D, mode)


def selective_scan(x, delta, A, B, C, D):
    return scan(x, delta, A, B, C, D, "logcumsumexp").reshape(x.shape)


def by_cumsum(x, delta, A, B, C, D):
    return scan(x, delta, A, B, C, D, "cumsum").reshape(x.shape)


by_cumsum.__name__ = "selective_scan"


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(model.RMSNorm(len(gamma), eps), {"weight": gamma}, x)


SelectiveScan, SelectiveScanByCumsum, RmsNorm = map(with_autograd, (selective_scan, by_cumsum, rms_norm))
