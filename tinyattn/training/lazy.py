"""Adam for a large table of which a step touches few rows: what a row misses is made up for when it is next read.

Adam moves every parameter at every step: without a gradient its m and v decay, and the row still glides a little, for
about a hundred steps. A table of 57,000 items, of which a batch reads a thousand, spends nearly all its time on that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .adam import Moments, adam

NODES = 8            # at so many of the missed steps a row is looked at
STOPPED = 1e-7       # a missed step that moves a row by less than this part of the first is left out


class LazyAdam:
    """Adam on a table (V, d), exact but for `catch_up`'s quadrature. Its state is `moments` and `last`.

    `last` (V,) is the step up to which each row is what dense Adam would have made of it. The step numbers
    are Adam's, counted from 1. Use: `catch_up(ids, step - 1)` before rows are read, `update(ids, g, step)` after.
    Raises ValueError for beta2 not well above beta1², where a row without gradients would never stop.
    """

    def __init__(
        self, table: np.ndarray, moments: Moments, *, lr: float, beta1: float = 0.9, beta2: float = 0.98,
        eps: float = 1e-8,
    ) -> None:  # fmt: skip
        self.table, self.moments, self.last = table, moments, np.zeros(len(table), dtype=np.int64)
        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps
        if not self.suits(beta2, beta1):
            raise ValueError(f"beta2 is {beta2}, expected well above beta1² = {beta1**2:.4g}")
        ratio = beta1 / math.sqrt(beta2)             # of the movements of two missed steps, but for eps
        reach = math.ceil(math.log(STOPPED) / math.log(ratio))
        self._j = np.arange(1, reach + 1)
        self._ratios = ratio**self._j
        settled = math.ceil(math.log(1e-17) / math.log(beta2))         # from this step on there is nothing to correct
        t = np.arange(1, settled + 1)
        self._correction = np.concatenate([[0.0], np.sqrt(1 - beta2**t) / (1 - beta1**t)])
        nodes = (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2                           # in 0..1
        self._at = 1 + (reach - 1) * nodes**2                                # steps; dense where most movement is
        self._basis = _lagrange(nodes, np.sqrt((self._j - 1) / (reach - 1)))                         # (reach, NODES)

    @staticmethod
    def suits(beta2: float, beta1: float = 0.9) -> bool:
        """Does a row without gradients stop soon enough, in about a hundred steps?"""
        return beta1 < 0.93 * math.sqrt(beta2)

    def catch_up(self, ids: np.ndarray, step: int) -> None:
        """Bring the rows of distinct `ids` to where dense Adam would have them after `step`.

        With no gradient, missed step j after `last` moves a row by

            lr m β₁ʲ / (1 - β₁ᵗ) / (√(v β₂ʲ / (1 - β₂ᵗ)) + eps) = lr wⱼ m / (√v + eps eⱼ),    t = last + j,

        with eⱼ = β₂^(-j/2) √(1 - β₂ᵗ) and wⱼ = β₁ʲ eⱼ / (1 - β₁ᵗ). The weights wⱼ are the same for all rows that were
        left at the same step; the rest is smooth in j, so its values at eight Chebyshev nodes give all of them by
        interpolation. The sum over j then is one of eight terms, whose weights are the sums of wⱼ times the
        Lagrange polynomials.

        What is left of the missed movement is a millionth; in the first hundred steps, where √v is at eps or below,
        two thousandths. In float32 that is less than dense Adam's own rounding (tests/training/test_lazy.py).
        """
        behind = ids[self.last[ids] < step]
        if not len(behind):
            return
        last = self.last[behind]
        since, which = np.unique(last, return_inverse=True)              # rows left at the same step share all but m, v
        missed = (step - since)[:, None]                                 # (U, 1)
        t = np.minimum(since[:, None] + self._j, len(self._correction) - 1)
        w = np.where(self._j <= missed, self._ratios * self._correction[t], 0.0)                     # (U, reach)
        weights = self.lr * (w @ self._basis)                            # (U, NODES)
        e = self.beta2 ** (-self._at / 2) * np.sqrt(1 - self.beta2 ** (since[:, None] + self._at))
        m, v = (np.take(moment, behind, axis=0) for moment in self.moments)
        root = np.ascontiguousarray(np.sqrt(v).T)                        # (d, rows): a row's numbers are the same for
        moved = np.zeros_like(root)                                      # all d, and the long axis runs fast
        for weight, floor in zip(weights.T, (self.eps * e).T, strict=True):
            moved += np.take(weight, which).astype(m.dtype) / (root + np.take(floor, which).astype(m.dtype))
        self.table[behind] -= moved.T * m
        for moment, found, beta in ((self.moments.m, m, self.beta1), (self.moments.v, v, self.beta2)):
            moment[behind] = found * np.take(beta**missed, which)[:, None].astype(m.dtype)
        self.last[behind] = step

    def update(self, ids: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """A step of Adam on the rows of distinct `ids`, which have been caught up to `step - 1`; gradient (u, d)."""
        rows = np.take(self.table, ids, axis=0)
        moments = Moments(*(np.take(moment, ids, axis=0) for moment in self.moments))
        adam(rows, gradient, moments, step, lr=self.lr, beta1=self.beta1, beta2=self.beta2, eps=self.eps)
        self.table[ids], self.moments.m[ids], self.moments.v[ids] = rows, *moments
        self.last[ids] = step


def _lagrange(nodes: np.ndarray, x: Any) -> np.ndarray:
    """The Lagrange polynomials of the nodes at x: (len(x), len(nodes))."""
    basis = np.ones((len(x), len(nodes)))
    for i, node in enumerate(nodes):
        for other in np.delete(nodes, i):
            basis[:, i] *= (x - other) / (node - other)
    return basis
