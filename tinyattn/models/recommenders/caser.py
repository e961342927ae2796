"""Caser: convolution over the last items, seen as an image of L rows and d columns (Tang & Wang 2018).

    E_t                  the embeddings of the L items that end at t, (L, d); places before the first item are 0
    vertical filters     nv weighted sums over the L rows: (nv, d)
    horizontal filters   nh of each height 1 to L, as wide as E; ReLU, and the maximum over all places in the L rows:
                         (L nh,)
    z_t                  ReLU of a linear map of all of these: (d,)
    score of item i      [z_t; user] · w_i + b_i, from a second table of items

These are the paper's sections 3.2 and 3.3. Neighbouring windows share most of their rows, so each filter is applied to
the whole history once, and the maximum is over a window of its results. Every position is trained on up to T items that
follow it, by the mean of their losses; T is 3 in the paper, 1 by default. An unknown user is the zero vector.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...layers import dense, dense_backward, dense_init, dropped, glorot
from ...ops import (
    conv1d,
    conv1d_backward,
    dropout_backward,
    embedding,
    max_pool1d,
    max_pool1d_backward,
    relu,
    relu_backward,
)
from ...ops.shapes import column_sum
from ...options import option
from ..neural import NeuralRecommender
from ..next_item import SequenceOptions, last_position
from .factors import UserTable


@dataclass(kw_only=True)
class CaserOptions(SequenceOptions):
    """The paper's L is `window`, its T `targets`."""

    window: int = option(5, "L of the paper: last items that a state reads", at_least=1, at_most=100_000, items=True)
    nh: int = option(16, "horizontal filters of each height", at_least=1, at_most=100_000)
    nv: int = option(4, "vertical filters", at_least=1, at_most=100_000)
    targets: int = option(1, "T of the paper (3): next items a position is trained on", at_least=1, at_most=1000)


class HorizontalCache(NamedTuple):
    """The cache of the filters of one height."""

    responses: Array                # (B, L - 1 + places, nh), before the maximum
    winners: Array                  # (B, L, nh)
    u: Array                        # (B, L, nh), before the ReLU


class CaserCache(NamedTuple):
    batch: Batch
    x: Array                        # (B, window - 1 + L, d): embeddings, and zeros before the first
    horizontal: list[HorizontalCache]
    keep: Array | None              # (B, L, window nh + nv d): dropout on the filters' results
    fc: Any
    u: Array                        # (B, L, d), before the ReLU


@dataclass(kw_only=True)
class CaserNetwork(CaserOptions, UserTable):
    """The pure network: embedding, filters, dropout, a linear map, [z; user; 1]."""

    scored, biased = "outputs", True

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. A row of "outputs" is w_i, of 2 d numbers, and b_i."""
        outputs = np.pad(self.init_items(rng, 2 * self.dim), ((0, 0), (0, 1)))
        filters = [self.window * self.nh, self.nv * self.dim]
        return {
            "items": self.init_items(rng, self.dim),
            "users": self.init_users(self.dim),
            "outputs": outputs,
            "horizontal": [_filters(rng, height, self.dim, self.nh) for height in range(1, self.window + 1)],
            "vertical": glorot(rng, self.window, self.nv)[:, None, :],
            "fc": dense_init(rng, sum(filters), self.dim),
        }

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, CaserCache]:
        """h (B, L, 2 d + 1), and the cache. A window ends at its position, before any padding."""
        x = embedding(batch.ids, p["items"])
        xp, (B, n, d) = get_xp(x), x.shape
        x = xp.concatenate([xp.zeros((B, self.window - 1, d), dtype=x.dtype), x], axis=1)
        filtered, caches = [], []
        for height, weights in enumerate(p["horizontal"], start=1):
            y, cache = _strongest(weights, x, self.window - height + 1)
            filtered.append(y)
            caches.append(cache)
        vertical = conv1d(x.swapaxes(1, 2)[..., None], p["vertical"], padding="valid")     # (B, d, L, nv)
        filtered.append(vertical.swapaxes(1, 2).reshape(B, n, d * self.nv))
        y, keep = dropped(xp.concatenate(filtered, axis=-1), self.dropout, rng)
        u, fc = dense(p["fc"], y)
        h = xp.concatenate([relu(u), self.user_rows(p, batch, n), xp.ones((B, n, 1), dtype=x.dtype)], axis=-1)
        return h, CaserCache(batch, x, caches, keep, fc, u)

    def align_with_targets(self, h: Array, batch: Batch) -> tuple[Array, Batch]:
        """Each state is compared with the `targets` items that follow it: (B, T L, ..)."""
        return get_xp(h).concatenate([h] * self.targets, axis=1), _of_each_target(batch, self.targets)

    def align_with_targets_backward(self, dh: Array) -> Array:
        """The gradients of all targets of a state are added."""
        B, n, width = dh.shape
        return get_xp(dh).sum(dh.reshape(B, self.targets, n // self.targets, width), axis=1)

    def backward(self, p: Any, dh: Array, cache: CaserCache) -> tuple[Array, dict[str, Any]]:
        """The mirror of `forward`: -> dx (B, L, d) and grads, which lack "items" and "outputs"."""
        xp, x, (B, n, _) = get_xp(dh), cache.x, dh.shape
        d, grads = self.dim, dict[str, Any]()
        grads["users"] = self.user_rows_backward(p, dh[..., d : 2 * d], cache.batch)
        du = relu_backward(xp.ascontiguousarray(dh[..., :d]), cache.u)
        dy, grads["fc"] = dense_backward(p["fc"], du, cache.fc)
        dy = dropout_backward(dy, cache.keep, self.dropout)
        dvertical = dy[..., self.window * self.nh :].reshape(B, n, d, self.nv)
        dx, grads["vertical"] = conv1d_backward(
            dvertical.swapaxes(1, 2), x.swapaxes(1, 2)[..., None], p["vertical"], padding="valid"
        )
        dx, grads["horizontal"] = xp.ascontiguousarray(dx[..., 0].swapaxes(1, 2)), []
        for i, (weights, remembered) in enumerate(zip(p["horizontal"], cache.horizontal, strict=True)):
            part = xp.ascontiguousarray(dy[..., i * self.nh : (i + 1) * self.nh])
            dpart, g = _strongest_backward(weights, part, x, remembered, self.window - i)
            dx += dpart
            grads["horizontal"].append(g)
        return dx[:, self.window - 1 :], grads

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, 2 d + 1): what `forward` gives for the last position of each history, computed from its last items."""
        xp = get_xp(batch.ids)
        at = last_position(batch)[:, None] + xp.arange(1 - self.window, 1)   # (B, window), below 0 before the first
        ids = xp.where(at < 0, 0, xp.take_along_axis(batch.ids, xp.maximum(at, 0), axis=1))
        return self.forward(p, batch._replace(ids=ids))[0][:, -1]


def _of_each_target(batch: Batch, T: int) -> Batch:
    """Every position's first target, then every position's second, ..: (B, T L). Targets share a position's weight.

    Where the objective has negatives, all targets of a position share them.
    """
    xp, (B, n) = get_xp(batch.targets), batch.targets.shape
    after = xp.concatenate([batch.targets, xp.zeros((B, T - 1), dtype=batch.targets.dtype)], axis=1)
    targets = xp.concatenate([after[:, j : j + n] for j in range(T)], axis=1)
    present = (targets != 0).reshape(B, T, n)
    weight = batch.weight[:, None] * present / xp.maximum(xp.sum(present, axis=1, keepdims=True), 1)
    negatives = None if batch.negatives is None else xp.concatenate([batch.negatives] * T, axis=1)
    return batch._replace(targets=targets, negatives=negatives, weight=weight.reshape(B, T * n))


def _filters(rng: np.random.Generator, height: int, width: int, number: int) -> dict[str, Any]:
    """W (height, width, number) glorot, with height * width inputs; b (number,) zeros."""
    W = glorot(rng, height * width, number).reshape(height, width, number)
    return {"W": W, "b": np.zeros(number)}


def _strongest(p: Any, x: Array, places: int) -> tuple[Array, HorizontalCache]:
    """The largest response of each filter in a window of `places`. Shapes: x (B, m, d) -> (B, L, nh), cache.

    Bias and ReLU keep the order of numbers, so the maximum is taken first, which leaves fewer numbers.
    """
    responses = conv1d(x, p["W"], padding="valid")
    u, winners = max_pool1d(responses, places)
    u += p["b"]
    return relu(u), HorizontalCache(responses, winners, u)


def _strongest_backward(p: Any, dy: Array, x: Array, cache: HorizontalCache, places: int) -> tuple[Array, Any]:
    """-> dx (B, m, d), grads shaped like p."""
    du = relu_backward(dy, cache.u)
    dresponses = max_pool1d_backward(du, cache.responses, cache.winners, places)
    dx, dW = conv1d_backward(dresponses, x, p["W"], padding="valid")
    return dx, {"W": dW, "b": column_sum(du)}


@dataclass(eq=False, kw_only=True)
class Caser(CaserOptions, NeuralRecommender):
    """A convolutional network over a user's last items, and an embedding of the user.

        model = Caser(window=5).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)
    """

    name = "caser"
    Network = CaserNetwork
