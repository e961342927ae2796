"""STOSA: items and histories are normal distributions, and near items come next (Fan et al. 2022).

    item i               mean m_i, covariance diag(ELU(z_i) + 1), the item's uncertainty
    history              a mean μ and a covariance at each position, by blocks of Wasserstein self-attention
    score of item i      -W²(history, item) = -(|μ - m_i|² + |σ - √(ELU(z_i) + 1)|²)
    loss                 BPR on distances, and a hinge that keeps the negative away from the target

Rows of p["items"] are [m_i, z_i], as are those of p["positions"]. A state is [μ, σ], and W² the squared distance
between two points [mean, deviation].

In the released code a misspelt name discards the mean that a layer computes, so that the prediction reads the mean of
the last item's embedding; the published numbers come from this code. `mean_passthrough` reproduces it. Other
differences: each stream has separate LayerNorms; positions count from the end, and padding is on the right. Attention
weights are not dropped, as in the authors' setting. Weights and embeddings are drawn as in the code, normal around
MEAN: distances are then small, and attention begins uniform. (With Glorot's initial weights, refined attention would
begin with all weight on one item.)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import Batch
from ...layers import POSITIONS, REFINEMENTS, LayerNorm, dropped
from ...layers.gaussian_block import GaussianBlock, GaussianCache
from ...ops import (
    Mask,
    distance_bpr,
    distance_bpr_backward,
    dropout_backward,
    elu,
    elu_backward,
    embedding,
    root_elu,
    root_elu_backward,
)
from ...ops.shapes import row_sum, rows
from ...options import make_parts, option, part_options, with_default
from ...tree import leaves
from ..mixing import OneBlock
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions, last_position
from ..objectives import OBJECTIVES, Objective, ScoredRows
from .sasrec import SASRecOptions

LEARNED, NORM = POSITIONS["learned"](), LayerNorm()
MEAN, SPREAD = 0.01, 0.02          # of fresh weights, in the released code
RefineOptions: Any = part_options(refine=REFINEMENTS)      # options of all refinements


@dataclass(kw_only=True)
class STOSAOptions(RefineOptions, SequenceOptions):
    """The released code's settings for Beauty are the default."""

    maxlen: int = with_default(100, SequenceOptions, "maxlen")
    dim: int = option(64, "width of means, and of covariances", at_least=1, at_most=100_000)
    dropout: float = option(0.3, "dropout rate", at_least=0, below=1)
    blocks: int = option(1, "number of blocks", at_least=1, at_most=1000)
    heads: int = option(4, "attention heads per block; must divide dim", at_least=1)
    root: bool = option(False, "attend by the distance, as the paper prints it, not by its square")
    mean_passthrough: bool = option(False, "as in the released code, means pass through each block unchanged")
    refine: str = with_default("none", SASRecOptions, "refine")
    pvn_weight: float = option(
        0.005, "λ: how strongly the target's distance is kept below the one from target to negative", at_least=0,
        group="training",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        make_parts(self, refine=REFINEMENTS)     # sets their options, which config.json keeps


def distances(h: Array, E: Array, batch: Batch, *, pvn_weight: float) -> tuple[Any, Any]:
    """-log σ(d⁻ - d⁺) + λ max(d⁺ - d, 0), mean over real positions.

    d⁺ and d⁻ are W² from the state to target and negative, and d is W² between these two items.
    Shapes: h (B, L, 2 D) points, E (n_items + 1, 2 D) rows [m, z].
    """
    xp = get_xp(h)
    ids = xp.stack([batch.targets, batch.negatives])                     # (2, B, L)
    e = points(embedding(ids, E))                                        # (2, B, L, 2 D)
    apart, between = h - e, e[0] - e[1]
    d = row_sum(apart * apart)[..., 0]
    inputs = d[0], d[1], row_sum(between * between)[..., 0], batch.weight.astype(d.dtype), pvn_weight
    return distance_bpr(*inputs), (ids, e, apart, between, inputs)


def distances_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """d = |h - e|² gives dh = 2 dd (h - e) and de = -dh; gradients of deviations go back through √(ELU + 1) to z."""
    ids, e, apart, between, inputs = saved
    xp = get_xp(h)
    dpositive, dnegative, dbetween = distance_bpr_backward(dloss, *inputs)
    de = apart * (-2 * xp.stack([dpositive, dnegative]))[..., None]
    dh = -xp.sum(de, axis=0)
    dtwo = between * (2 * dbetween)[..., None]
    de[0] += dtwo
    de[1] -= dtwo
    return dh, ScoredRows(ids.reshape(-1), rows(points_backward(de, e)), E)


def points(x: Array) -> Array:
    """[m, z] -> [m, √(ELU(z) + 1)]. Shapes: (..., 2 D) -> (..., 2 D)."""
    d = x.shape[-1] // 2
    return get_xp(x).concatenate([x[..., :d], root_elu(x[..., d:])], axis=-1)


def points_backward(dy: Array, y: Array) -> Array:
    """The mirror of `points`, by its output y. Shapes: dy, y (..., 2 D) -> (..., 2 D)."""
    d = dy.shape[-1] // 2
    return get_xp(dy).concatenate([dy[..., :d], root_elu_backward(dy[..., d:], y[..., d:])], axis=-1)


def fresh(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Initial numbers as in the released code."""
    return MEAN + SPREAD * rng.standard_normal(shape)


class STOSACache(NamedTuple):
    batch: Batch
    norms: tuple[Any, Any]                      # of means, of covariances
    keeps: tuple[Array | None, Array | None]    # (B, L, D): dropout on the input
    u: Array                                    # (B, L, D): means before the ELU
    dev: Array                                  # (B, L, D): deviations that go into the first block
    blocks: list[GaussianCache]


@dataclass(kw_only=True)
class STOSANetwork(STOSAOptions, OneBlock, NextItemNetwork):
    """The pure network: embeddings [m, z], LayerNorm, dropout, ELU, blocks; a state is a point [μ, σ]."""

    objective: str = "bpr"
    objectives: ClassVar[dict[str, Objective]] = {
        "bpr": OBJECTIVES["bpr"]._replace(forward=distances, backward=distances_backward)
    }
    attends = True

    def __post_init__(self) -> None:
        if self.objective in OBJECTIVES and self.objective not in self.objectives:
            raise ValueError(
                f"loss is {self.objective!r}, expected bpr: stosa learns from the distances of a history to its target "
                "and to one negative, and by its hinge from the distance between these two items"
            )
        super().__post_init__()
        self.loss_options = {"pvn_weight": self.pvn_weight}
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not divisible by heads {self.heads}")

    @cached_property
    def block(self) -> GaussianBlock:
        (refinement,) = make_parts(self, refine=REFINEMENTS)
        return GaussianBlock(self.heads, self.dropout, self.root, self.mean_passthrough, refinement, self.maxlen)

    @property
    def causal(self) -> bool:  # type: ignore[override]
        """False where a refinement reads all rows of scores."""
        return not self.block.refinement.reads_all

    def _mask(self, batch: Batch) -> Mask:
        """Causal, which also hides the padding after a history; with lengths if scores are refined."""
        with_lengths = not self.block.refinement.identity
        return Mask(causal=True, lengths=last_position(batch) + 1 if with_lengths else None)

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: normal weights and embeddings, biases 0; covariances begin near 1."""
        p: dict[str, Any] = {
            "items": fresh(rng, (self.n_items + 1, 2 * self.dim)),
            "positions": fresh(rng, (self.maxlen, 2 * self.dim)),
            "norms": {"mean": NORM.init(self.dim), "cov": NORM.init(self.dim)},
            "blocks": self.stack.init(rng, self.dim),
        }
        for name, W in leaves(p["blocks"]):
            if name.endswith(".W"):                                       # of a dense map, and not of a refinement
                W[...] = fresh(rng, W.shape)
        p["items"][0] = 0
        return p

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, STOSACache]:
        """h (B, L, 2 D), points, and the cache. Padding stands on the right, where no real position sees it."""
        x, cache = self._read(p, batch, rng)
        (mean, dev), blocks = self.stack.forward(p["blocks"], x, mask=self._mask(batch), rng=rng)
        return get_xp(mean).concatenate([mean, dev], axis=-1), cache._replace(blocks=blocks)

    def _read(self, p: Any, batch: Batch, rng: Any = None) -> tuple[tuple[Array, Array], STOSACache]:
        """ELU(dropout(LN(m + position))), and √(ELU(dropout(LN(z + position))) + 1): (B, L, D) each, and the cache."""
        x = LEARNED.add(p["positions"], embedding(batch.ids, p["items"]), batch.slots)
        u, of_means = NORM.forward(p["norms"]["mean"], x[..., : self.dim])
        z, of_covs = NORM.forward(p["norms"]["cov"], x[..., self.dim :])
        (u, keep_u), (z, keep_z) = (dropped(y, self.dropout, rng) for y in (u, z))
        dev = root_elu(z)
        return (elu(u), dev), STOSACache(batch, (of_means, of_covs), (keep_u, keep_z), u, dev, [])

    def backward(self, p: Any, dh: Array, cache: STOSACache) -> tuple[Array, dict[str, Any]]:
        """-> dx (B, L, 2 D) and grads, which lack "items"."""
        grads: dict[str, Any] = {}
        dy = dh[..., : self.dim], dh[..., self.dim :]
        (dmean, ddev), grads["blocks"] = self.stack.backward(p["blocks"], dy, cache.blocks)
        du = dropout_backward(elu_backward(dmean, cache.u), cache.keeps[0], self.dropout)
        dz = dropout_backward(root_elu_backward(ddev, cache.dev), cache.keeps[1], self.dropout)
        du, of_means = NORM.backward(p["norms"]["mean"], du, cache.norms[0])
        dz, of_covs = NORM.backward(p["norms"]["cov"], dz, cache.norms[1])
        dx = get_xp(dh).concatenate([du, dz], axis=-1)
        grads["norms"] = {"mean": of_means, "cov": of_covs}
        grads["positions"] = LEARNED.add_backward(p["positions"], dx, cache.batch.slots)
        return dx, grads

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, 2 D): the state at the last position of each history."""
        x, _ = self._read(p, batch)
        mean, dev = self.stack.at(p["blocks"], x, last_position(batch), mask=self._mask(batch))
        return get_xp(mean).concatenate([mean, dev], axis=-1)[:, 0]

    def item_vectors(self, p: Any) -> Array:
        """(n_items + 1, 2 D): each item as a point."""
        return points(p["items"])

    def as_products(self, p: Any, h: Array) -> tuple[Array, Array]:
        """-|h - e|² = [2 h, -1, -|h|²] · [e, |e|², 1]."""
        xp, e = get_xp(h), self.item_vectors(p)
        one = xp.ones((len(h) + len(e), 1), dtype=h.dtype)
        states = xp.concatenate([2 * h, -one[: len(h)], -row_sum(h * h)], axis=-1)
        return states, xp.concatenate([e, row_sum(e * e), one[len(h) :]], axis=-1)

    def score_gradient(self, p: Any, h: Array, item: int) -> Array:
        """-|h - e|² has the gradient 2 (e - h)."""
        return 2 * (points(p["items"][item]) - h)

    def attention(self, cache: STOSACache) -> list[Array]:
        """The weights of each block, (B, h, L, L): row i is what position i looks at."""
        return [block.weights for block in cache.blocks]


@dataclass(eq=False, kw_only=True)
class STOSA(STOSAOptions, NeuralRecommender):
    """Self-attention over normal distributions, which are compared by distance.

        model = STOSA(maxlen=50).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)

    A score is a negative squared distance.
    """

    loss: str = option("bpr", "only bpr, on distances and with a hinge", choices=OBJECTIVES, group="training")

    name = "stosa"
    Network = STOSANetwork

    def item_scores(self, item: int) -> np.ndarray:
        """(n_items + 1,): minus the squared distance of every item to this one."""
        h = self.network.item_vectors(self.parameters)[item : item + 1]
        return backend.to_numpy(self.network.score_items(self.parameters, h))[0].astype(np.float64)
