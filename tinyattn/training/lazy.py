"""Adam for large tables whose rows are rarely read: a row's missed updates are applied when it is next read.

Adam updates every parameter at every step: without a gradient m and v decay, and the parameter keeps moving a little,
for about a hundred steps. With 57,000 items and a thousand in a batch, these updates take nearly all the time. Missed
updates include weight decay, and follow the schedule of the learning rate.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from ..backend import is_numpy
from ..tree import leaves, views
from .adam import Moments, adam
from .adamw import adamw
from .schedules import rate_at

LAZY_FROM = 10       # tables of more than this many times the rows that a step reads get LazyAdam
NODES = 8            # interpolation nodes among the missed steps
STOPPED = 1e-7       # missed steps that move a row by less than this fraction of the first are ignored


class LazyAdam:
    """Adam on a table (V, d), exact up to the interpolation in `catch_up`. Its state is `moments` and `last`.

    `last` (V,) is the step after which each row equals dense Adam's. Steps are counted from 1.
    Use: `catch_up(ids, step - 1)` before rows are read, `update(ids, g, step)` after.
    `factors` (T + 1,) multiply lr, one for each step; the last one holds for all later steps. None: always 1.
    `weight_decay` is AdamW's, of the whole table.
    Raises ValueError for beta2 not well above beta1²: a row without gradients would then move for too long.
    """

    def __init__(
        self, table: np.ndarray, moments: Moments, *, lr: float, beta1: float = 0.9, beta2: float = 0.98,
        eps: float = 1e-8, weight_decay: float = 0.0, factors: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.table, self.moments, self.last = table, moments, np.zeros(len(table), dtype=np.int64)
        self.lr, self.beta1, self.beta2, self.eps, self.weight_decay = lr, beta1, beta2, eps, weight_decay
        self.factors = np.ones(1) if factors is None else factors
        if not self.suits(beta2, beta1):
            raise ValueError(f"beta2 is {beta2}, expected well above beta1² = {beta1**2:.4g}")
        ratio = beta1 / math.sqrt(beta2)             # of two successive missed updates, if eps were 0
        reach = math.ceil(math.log(STOPPED) / math.log(ratio))
        self._j = np.arange(1, reach + 1)
        self._ratios = ratio**self._j
        corrected = math.ceil(math.log(1e-17) / math.log(beta2))       # from this step on bias correction is 1
        t = np.arange(1, max(corrected, len(self.factors) - 1) + 1)
        factors = self.factors[np.minimum(t, len(self.factors) - 1)]
        self._scale = np.concatenate([[0.0], np.sqrt(1 - beta2**t) / (1 - beta1**t) * factors])
        self._log_decay = np.concatenate([[0.0], np.log1p(-lr * weight_decay * factors)])            # of each step
        self._log_kept = np.cumsum(self._log_decay)                                                  # of steps up to it
        nodes = (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2                           # in 0..1
        self._at = 1 + (reach - 1) * nodes**2                                # steps; denser where rows move most
        self._basis = _lagrange(nodes, np.sqrt((self._j - 1) / (reach - 1)))                         # (reach, NODES)

    @staticmethod
    def suits(beta2: float, beta1: float = 0.9) -> bool:
        """Does a row without gradients stop moving within about a hundred steps?"""
        return beta1 < 0.93 * math.sqrt(beta2)

    def catch_up(self, ids: np.ndarray, step: int) -> None:
        """Make the rows of distinct `ids` what dense Adam would have made of them after `step`.

        With no gradient, missed step j after `last` moves a row by

            lr m β₁ʲ / (1 - β₁ᵗ) / (√(v β₂ʲ / (1 - β₂ᵗ)) + eps) = lr wⱼ m / (√v + eps eⱼ),    t = last + j,

        with eⱼ = β₂^(-j/2) √(1 - β₂ᵗ) and wⱼ = β₁ʲ eⱼ / (1 - β₁ᵗ). The weights wⱼ are the same for all rows with the
        same `last`. The factor m / (√v + eps eⱼ) is smooth in j, so it is computed at eight Chebyshev nodes and
        interpolated. The sum over j is then a sum of eight terms, whose weights are the sums of wⱼ times the
        Lagrange polynomials. A schedule multiplies wⱼ by its factor of step t. Weight decay multiplies the row by the
        product of 1 - lr λ over all missed steps, and wⱼ by that over the steps after j.

        The error is a millionth of the missed movement; two thousandths in the first hundred steps, where √v is at
        eps or below. In float32 that is less than dense Adam's rounding (tests/training/test_lazy.py).
        """
        behind = ids[self.last[ids] < step]
        if not len(behind):
            return
        last = self.last[behind]
        since, which = np.unique(last, return_inverse=True)              # rows with the same `last` share all but m, v
        missed = (step - since)[:, None]                                 # (U, 1)
        t = np.minimum(since[:, None] + self._j, len(self._scale) - 1)
        w = np.where(self._j <= missed, self._ratios * self._scale[t], 0.0)                          # (U, reach)
        if self.weight_decay:
            w *= self._kept(np.minimum(since[:, None] + self._j, step), step)
            self.table[behind] *= np.take(self._kept(since, step), which)[:, None].astype(self.table.dtype)
        weights = self.lr * (w @ self._basis)                            # (U, NODES)
        e = self.beta2 ** (-self._at / 2) * np.sqrt(1 - self.beta2 ** (since[:, None] + self._at))
        m, v = (np.take(moment, behind, axis=0) for moment in self.moments)
        root = np.ascontiguousarray(np.sqrt(v).T)                        # (d, rows): the long axis broadcasts faster
        moved = np.zeros_like(root)
        for weight, floor in zip(weights.T, (self.eps * e).T, strict=True):
            moved += np.take(weight, which).astype(m.dtype) / (root + np.take(floor, which).astype(m.dtype))
        self.table[behind] -= moved.T * m
        for moment, value, beta in ((self.moments.m, m, self.beta1), (self.moments.v, v, self.beta2)):
            moment[behind] = value * np.take(beta**missed, which)[:, None].astype(m.dtype)
        self.last[behind] = step

    def _kept(self, since: np.ndarray, step: int) -> np.ndarray:
        """The product of 1 - lr λ over the steps after `since`, up to `step`: the factor of weight decay."""
        known = len(self._log_kept) - 1
        beyond = np.maximum(step - known, 0) - np.maximum(since - known, 0)
        logs = self._log_kept[min(step, known)] - self._log_kept[np.minimum(since, known)]
        return np.exp(logs + beyond * self._log_decay[-1])

    def update(self, ids: np.ndarray, gradient: np.ndarray, step: int) -> None:
        """A step of Adam on the rows of distinct `ids`, which are up to date to `step - 1`; gradient (u, d)."""
        rows = np.take(self.table, ids, axis=0)
        moments = Moments(*(np.take(moment, ids, axis=0) for moment in self.moments))
        take_step = partial(adamw, weight_decay=self.weight_decay) if self.weight_decay else adam
        lr = rate_at(self.lr, self.factors, step)
        take_step(rows, gradient, moments, step, lr=lr, beta1=self.beta1, beta2=self.beta2, eps=self.eps)
        self.table[ids], self.moments.m[ids], self.moments.v[ids] = rows, *moments
        self.last[ids] = step


def lazy_tables(learner: Any, rows_read: dict[str, np.ndarray]) -> Any:
    """`Learner.lazy_tables` on the host: tables much larger than the rows that the first step reads."""
    if not is_numpy(learner.xp) or not LazyAdam.suits(learner.beta2):
        return NotImplemented
    m, v = (dict(leaves(views(moment, learner.p))) for moment in learner.moments)
    decays = {} if learner.decay is None else dict(leaves(views(learner.decay, learner.p)))
    lazy = {}
    for name, table in leaves(learner.p):
        large = name in rows_read and len(table) > LAZY_FROM * len(np.unique(rows_read[name]))
        if large and (name not in decays or np.ptp(decays[name]) == 0):           # LazyAdam has one decay for a table
            lazy[name] = learner.lazy_adam(name, table, Moments(m[name], v[name]))
    return lazy


def _lagrange(nodes: np.ndarray, x: Any) -> np.ndarray:
    """The Lagrange polynomials of `nodes`, evaluated at x: (len(x), len(nodes))."""
    basis = np.ones((len(x), len(nodes)))
    for i, node in enumerate(nodes):
        for other in np.delete(nodes, i):
            basis[:, i] *= (x - other) / (node - other)
    return basis
