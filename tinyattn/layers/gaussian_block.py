"""A block of tokens that are distributions: a mean and a standard deviation for each feature (Fan et al. 2022, STOSA).

    q, k, v          of means: linear maps of the means; of covariances: ELU(linear) + 1 of the covariances
    A                minus squared distances of queries and keys over √d, or with `root` minus distances over √d:
                     `wasserstein_scores`; a refinement may change A
    out              softmax(A) averages means, and its squares average covariances: `gaussian_attention`
    u = LN(x + dropout(out W)), y = LN(u + dropout(ffn(u)))      of means and of covariances, with separate weights

The covariance is ELU(y) + 1. A block returns its root, the standard deviation, which distances need.
The released code uses one LayerNorm for both streams after attention; here each stream has one.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, get_xp
from ..ops import (
    Mask,
    dropout,
    dropout_backward,
    gaussian_attention,
    gaussian_attention_backward,
    root_elu,
    root_elu_backward,
    wasserstein_scores,
    wasserstein_scores_backward,
)
from .dense import dense, dense_backward
from .dropout_mask import dropout_mask
from .feed_forward import FeedForward
from .mixers import multi_head_init
from .mixers.multi_head import merge, split
from .norm import LayerNorm
from .refinements import NoRefinement, Refinement, pairs_allowed
from .rows import gather_rows

NORM = LayerNorm()
Both = tuple[Array, Array]          # means and standard deviations, (..., n, D) each


class AfterCache(NamedTuple):
    """What one stream saves of the layers after attention."""

    output: Any
    keep_1: Array | None            # (..., n, D)
    norm_1: Any
    feed_forward: Any
    keep_2: Array | None            # (..., n, D)
    norm_2: Any


class GaussianCache(NamedTuple):
    dev: Array                      # (..., n, D), of the input
    projected: tuple[Any, Any]      # of means, of covariances
    q: tuple[Array, Array]          # (..., h, n, d): mean, deviation
    k: tuple[Array, Array]          # (..., h, m, d) twice
    v: tuple[Array, Array]
    s: Array                        # (..., h, n, m): A, before the mask
    refined: Any                    # of A, the refinement's cache
    weights: Array                  # (..., h, n, m): of attention
    after: tuple[AfterCache, AfterCache]
    out: Array                      # (..., n, D): the deviation of the output


@dataclass(frozen=True)
class GaussianBlock:
    """Means and covariances: Wasserstein self-attention, then a feed-forward network with ELU, four times as wide.

        block = GaussianBlock(heads=4)
        p = block.init(rng, 64)
        (mean, dev), cache = block.forward(p, (mean, dev), mask=Mask(causal=True))
        (dmean, ddev), grads = block.backward(p, (dmean, ddev), cache)

    `rate` is the dropout rate, used when `forward` is given an `rng`. With `root`, scores are minus distances, else
    minus their squares. With `mean_passthrough` the output's mean is the input's, a defect of the released code: the
    parameters that would compute the mean then have a gradient of 0.
    """

    heads: int = 1
    rate: float = 0.0
    root: bool = False
    mean_passthrough: bool = False
    refinement: Refinement = field(default=NoRefinement())
    longest: int = 0                # tokens of the longest sequence: the size of a refinement's maps

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters of width `dim`: mean and cov, each of query, key, value, output, norm_1, feed_forward, norm_2."""
        maps = {} if self.refinement.identity else {"refinement": self.refinement.init(rng, self.heads, self.longest)}
        return {stream: self._init_stream(rng, dim) for stream in ("mean", "cov")} | maps

    def _init_stream(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        parts = {"norm_1": NORM.init(dim), "feed_forward": feed_forward(dim).init(rng, dim), "norm_2": NORM.init(dim)}
        return multi_head_init(rng, dim) | parts

    def forward(
        self, p: Any, x: Both, *, mask: Mask, rng: Any = None, at: Array | None = None
    ) -> tuple[Both, GaussianCache]:
        """-> (mean, dev), (..., n, D) each like those of x, and the cache.

        With `at` (B,), for inference: row `at` of each sequence, (B, 1, D).
        """
        if at is not None and not self.refinement.identity:                      # a refined row reads all rows
            (mean, dev), cache = self.forward(p, x, mask=mask, rng=rng)
            return (gather_rows(mean, at), gather_rows(dev, at)), cache
        mean, dev = x
        m, cov = mean.shape[-2], dev * dev
        (q_mean, k_mean, v_mean), of_means = _project(p["mean"], mean, self.heads, at)
        z, of_covs = _project(p["cov"], cov, self.heads, at)
        q_dev, k_dev, v_dev = (root_elu(x) for x in z)
        s = wasserstein_scores(q_mean, q_dev, k_mean, k_dev, self.root)          # A: logits
        allowed = pairs_allowed(mask, m, like=s) if at is None else mask.row(at, m, like=s)
        d = v_mean.shape[-1]
        B, refined = self.refinement.forward(p.get("refinement"), s, allowed, d, mask.lengths)
        out, weights = gaussian_attention(B, v_mean, v_dev * v_dev, allowed)
        mean, cov = gather_rows(mean, at), gather_rows(cov, at)
        y, after_mean = self._after(p["mean"], mean, merge(out[..., :d]), rng)
        z_out, after_cov = self._after(p["cov"], cov, merge(out[..., d:]), rng)
        y, new = (mean if self.mean_passthrough else y), root_elu(z_out)
        q, k, v = (q_mean, q_dev), (k_mean, k_dev), (v_mean, v_dev)
        after = after_mean, after_cov
        return (y, new), GaussianCache(dev, (of_means, of_covs), q, k, v, s, refined, weights, after, new)

    def backward(self, p: Any, dy: Both, cache: GaussianCache) -> tuple[Both, dict[str, Any]]:
        """-> (dmean, ddev), of (..., n, D) each, and grads shaped like p."""
        dmean, ddev = dy
        xp, grads, (v_mean, v_dev) = get_xp(dmean), {}, cache.v
        dnew = xp.zeros_like(dmean) if self.mean_passthrough else dmean
        dx_mean, dmean_out, mean_grads = self._after_backward(p["mean"], dnew, cache.after[0])
        if self.mean_passthrough:
            dx_mean = dmean
        dz = root_elu_backward(ddev, cache.out)
        dx_cov, dcov_out, cov_grads = self._after_backward(p["cov"], dz, cache.after[1])
        dout = xp.concatenate([split(dmean_out, self.heads), split(dcov_out, self.heads)], axis=-1)
        dB, dv_mean, dv_cov = gaussian_attention_backward(dout, v_mean, v_dev * v_dev, cache.weights)
        ds, maps = self.refinement.backward(p.get("refinement"), dB, cache.refined)
        if maps:
            grads["refinement"] = maps
        dq_mean, dq_dev, dk_mean, dk_dev = wasserstein_scores_backward(
            ds, *cache.q, *cache.k, cache.s, self.root
        )
        d_devs = zip((dq_dev, dk_dev, 2 * v_dev * dv_cov), (cache.q[1], cache.k[1], v_dev), strict=True)
        dmeans, made = _project_backward(p["mean"], (dq_mean, dk_mean, dv_mean), cache.projected[0])
        grads["mean"] = mean_grads | made
        dcovs, made = _project_backward(p["cov"], [root_elu_backward(*pair) for pair in d_devs], cache.projected[1])
        grads["cov"] = cov_grads | made
        dcovs += dx_cov
        dcovs *= 2 * cache.dev                                                   # cov = dev²
        return (dmeans + dx_mean, dcovs), grads

    def _after(self, p: Any, x: Array, a: Array, rng: Any) -> tuple[Array, AfterCache]:
        """u = LN(x + dropout(a W)), y = LN(u + dropout(ffn(u))). Shapes: x, a (..., n, D) -> y (..., n, D), cache."""
        a, output = dense(p["output"], a)
        keep_1 = dropout_mask(a, a.shape, self.rate, rng)
        u, norm_1 = NORM.forward(p["norm_1"], x + dropout(a, keep_1, self.rate))
        f, ffn = feed_forward(u.shape[-1]).forward(p["feed_forward"], u)
        keep_2 = dropout_mask(f, f.shape, self.rate, rng)
        y, norm_2 = NORM.forward(p["norm_2"], u + dropout(f, keep_2, self.rate))
        return y, AfterCache(output, keep_1, norm_1, ffn, keep_2, norm_2)

    def _after_backward(self, p: Any, dy: Array, cache: AfterCache) -> tuple[Array, Array, dict[str, Any]]:
        """The mirror of `_after`. -> dx, da (..., n, D), grads."""
        du, norm_2 = NORM.backward(p["norm_2"], dy, cache.norm_2)
        df = dropout_backward(du, cache.keep_2, self.rate)
        more, ffn = feed_forward(dy.shape[-1]).backward(p["feed_forward"], df, cache.feed_forward)
        dx, norm_1 = NORM.backward(p["norm_1"], du + more, cache.norm_1)
        da, output = dense_backward(p["output"], dropout_backward(dx, cache.keep_1, self.rate), cache.output)
        return dx, da, {"output": output, "norm_1": norm_1, "feed_forward": ffn, "norm_2": norm_2}


def feed_forward(dim: int) -> FeedForward:
    """Four times as wide as the tokens, with ELU."""
    return FeedForward(4 * dim, "elu")


def _project(p: Any, x: Array, heads: int, at: Array | None) -> tuple[list[Array], list[Any]]:
    """-> queries of the rows `at`, keys, values; caches. Shapes: x (..., m, D) -> (..., h, n or m, d) each."""
    made = [dense(p[name], rows) for name, rows in (("query", gather_rows(x, at)), ("key", x), ("value", x))]
    return [split(y, heads) for y, _ in made], [cache for _, cache in made]


def _project_backward(p: Any, dheads: Any, caches: list[Any]) -> tuple[Array, dict[str, Any]]:
    """-> dx (..., m, D), the sum of three, and grads of query, key and value."""
    names = ("query", "key", "value")
    made = [dense_backward(p[name], merge(d), cache) for name, d, cache in zip(names, dheads, caches, strict=True)]
    dx = made[0][0] + made[1][0]
    dx += made[2][0]
    return dx, {name: g for name, (_, g) in zip(names, made, strict=True)}
