"""Jamie-Stirling/RetNet: retention, of a whole sequence and of one token at a time."""

import torch
from checkout import checkout, importable

importable(checkout("Jamie-Stirling/RetNet") / "src")

from retention import MultiScaleRetention, SimpleRetention  # noqa: E402


class CachedModel:
    """One head on vectors of width 8."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.module = SimpleRetention(8, 0.9).double()

    @torch.no_grad()
    def forward(self, x):
        return self.module(torch.tensor(x, dtype=torch.float64)).numpy()

    @torch.no_grad()
    def step(self, x, cache):
        state, n = (torch.zeros(len(x), 8, 8, dtype=torch.float64), 0) if cache is None else cache
        y, state = self.module.forward_recurrent(torch.tensor(x, dtype=torch.float64)[:, None], state, n)
        return y[:, 0].numpy(), (state, n + 1)


class CachedHeads(CachedModel):
    """Four heads, with the group norm."""

    def __init__(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.module = MultiScaleRetention(8, 4).double()

    @torch.no_grad()
    def step(self, x, cache):
        states, n = ([torch.zeros(len(x), 2, 2, dtype=torch.float64)] * 4, 0) if cache is None else cache
        y, states = self.module.forward_recurrent(torch.tensor(x, dtype=torch.float64)[:, None], states, n)
        return y[:, 0].numpy(), (states, n + 1)


class CausalModel(CachedHeads):
    """The same heads, forward only."""
