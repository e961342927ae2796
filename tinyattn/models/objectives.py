"""Losses of next-item networks: scores are dot products of states with the item table E.

An objective is `forward(h, E, batch, **its options) -> loss, saved` and `backward(dloss, h, E, batch, saved) -> dh,
scored`. The gradient of E is `scored.alone()`, or, where E is the input's table too, `scored.with_reading(ids, dx)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..backend import Array, get_xp
from ..data import Batch
from ..forms import replaceable
from ..layers.rows import table_gradient
from ..ops import (
    bce_with_logits,
    bce_with_logits_backward,
    bpr_max,
    bpr_max_backward,
    cross_entropy,
    cross_entropy_backward,
    embedding,
)
from ..ops.shapes import row_sum, rows
from ..options import option, part_options
from ..tree import add_to
from .cross_entropy import Smoothed, table_loss, table_loss_backward


class ScoredRows(NamedTuple):
    """The gradient of the item table where few items were scored: row i of `values` belongs to item ids[i]."""

    ids: Array      # (N,)
    values: Array   # (N, D)
    E: Array          # (items + 1, D)

    def alone(self) -> Any:
        """-> Rows, or on a device the table."""
        return table_gradient(self.ids, self.values, self.E)

    def with_reading(self, ids: Array, dx: Array) -> Any:
        """Both uses of the table, concatenated and summed once. -> Rows, or on a device the table."""
        xp = get_xp(self.values, dx)
        both = xp.concatenate([self.ids, ids.reshape(-1)])
        return table_gradient(both, xp.concatenate([self.values, rows(dx)]), self.E)


class ScoredTable(NamedTuple):
    """The gradient of the item table where every item was scored."""

    dE: Array         # (items + 1, D), written in place

    def alone(self) -> Array:
        return self.dE

    def with_reading(self, ids: Array, dx: Array) -> Any:
        add_to(self.dE, table_gradient(ids, dx, self.dE))
        return self.dE


@replaceable
def bce(h: Array, E: Array, batch: Batch) -> tuple[Any, Any]:
    """-log σ(h·E[target]) - log(1 - σ(h·E[negative])), mean over real positions (Kang & McAuley 2018, III-E)."""
    xp = get_xp(h)
    ids = xp.stack([batch.targets, batch.negatives])                     # (2, B, L)
    e = embedding(ids, E)                                                # (2, B, L, D)
    z = row_sum(h * e)[..., 0]
    targets = xp.zeros_like(z)
    targets[0] = 1
    weight = xp.broadcast_to(batch.weight, z.shape).astype(z.dtype)
    loss = 2 * bce_with_logits(z, targets, weight)                       # the sum of two means, over the same weights
    return loss, (ids, e, z, targets, weight)


def bce_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """z = h · e gives dh = dz e and de = dz h; the gradients of h by target and negative are added."""
    if hasattr(saved, "backward"):                                       # of the faster form
        return saved.backward(dloss, h, E, batch)
    ids, e, *inputs = saved
    dz = bce_with_logits_backward(2 * dloss, *inputs)[..., None]          # (2, B, L, 1)
    dh = dz[0] * e[0]
    dh += dz[1] * e[1]
    return dh, ScoredRows(ids.reshape(-1), rows(dz * h), E)


def bpr(h: Array, E: Array, batch: Batch) -> tuple[Any, Any]:
    """-log σ(h·E[target] - h·E[negative]), mean over real positions (Rendle et al. 2009, BPR-Opt)."""
    ids = get_xp(h).stack([batch.targets, batch.negatives])              # (2, B, L)
    e = embedding(ids, E)                                                # (2, B, L, D)
    difference = e[0] - e[1]
    z = row_sum(h * difference)[..., 0]
    weight = batch.weight.astype(z.dtype)
    saved = z, get_xp(h).ones_like(z), weight                            # event: the target wins
    return bce_with_logits(*saved), (ids, difference, *saved)


def bpr_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """z = h · (e⁺ - e⁻) gives dh = dz (e⁺ - e⁻), de⁺ = dz h and de⁻ = -dz h."""
    ids, difference, *inputs = saved
    dz = bce_with_logits_backward(dloss, *inputs)[..., None]              # (B, L, 1)
    de = rows(dz * h)
    return dz * difference, ScoredRows(ids.reshape(-1), get_xp(h).concatenate([de, -de]), E)


def ce(h: Array, E: Array, batch: Batch, *, label_smoothing: float = 0.0) -> tuple[Any, Any]:
    """-log softmax(h Eᵀ)[target] over the items 1.., mean over real positions (Klenitskiy & Vasilev 2023).

    With `label_smoothing` ε the target has probability 1 - ε, and ε is spread over all items.
    """
    targets = get_xp(h).maximum(batch.targets - 1, 0)                    # any id for padding, of weight 0
    weight = batch.weight.astype(h.dtype)
    return table_loss(h, E[1:], targets, weight, label_smoothing)


def ce_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredTable]:
    """The mirror of `ce`. Row 0, padding, gets 0."""
    dE = get_xp(h).empty_like(E)
    dE[0] = 0
    return table_loss_backward(dloss, h, E[1:], saved, dE[1:])[0], ScoredTable(dE)


def _sampled_scores(h: Array, E: Array, batch: Batch) -> tuple[Array, tuple[Array, Array]]:
    """z (B, L, 1 + k): h·E[target], then h·E[negative] for the row's k negatives; and the embeddings read.

    For each row it is a product of (L, D) and (D, k), without an array (B, L, k, D).
    """
    e, others = embedding(batch.targets, E), embedding(batch.shared[:, 0], E)            # (B, L, D), (B, k, D)
    z = get_xp(h).concatenate([row_sum(h * e), h @ others.swapaxes(1, 2)], axis=-1)
    return z, (e, others)


def _sampled_scores_backward(dz: Array, h: Array, E: Array, batch: Batch, read: Any) -> tuple[Array, ScoredRows]:
    """Each score is a dot product: dh = Σ dz e over candidates, de = Σ dz h over a candidate's positions."""
    e, others = read
    xp, dtarget, drest = get_xp(h), dz[..., :1], dz[..., 1:]
    dh = dtarget * e
    dh += drest @ others
    ids = xp.concatenate([batch.targets.reshape(-1), batch.shared.reshape(-1)])
    values = xp.concatenate([rows(dtarget * h), rows(drest.swapaxes(1, 2) @ h)])
    return dh, ScoredRows(ids, values, E)


def gbce(
    h: Array, E: Array, batch: Batch, *, n_negatives: int, calibration: float, base_rate: bool = True
) -> tuple[Any, Any]:
    """-β log σ(h·E[target] - b) - Σ log(1 - σ(h·E[negative] - b)) over the row's k negatives, mean over positions.

    β = α (t (1 - 1/α) + 1/α) = 1 - t (1 - α), with α = min(1, k / (items - 1)) the sampled share of negatives and
    t = `calibration`. At t = 0 and b = 0 it is `bce` with k negatives; t = 1 removes the upward shift of scores that
    sampling causes (Petrov & Macdonald 2023, gSASRec, who also divide by k + 1, a factor that Adam cancels).

    b = log k with `base_rate`, else 0, as published. Among k + 1 candidates the odds of a target are 1 to k, so at b =
    0 every score first has to fall by log k. A model without biases does that by turning all embeddings to one
    direction, and ranks like popularity meanwhile: on MovieLens 1M for some fifteen epochs. With b, scores begin at the
    base rate (the prior of Lin et al. 2017, section 3.3), and ranks are unchanged.

    The published code computes the logit of σ^β in float64; β log σ, which equals log σ^β, needs neither.
    """
    z, read = _sampled_scores(h, E, batch)
    if base_rate:
        z -= math.log(n_negatives)
    beta = 1 - calibration * (1 - min(1.0, n_negatives / max(len(E) - 2, 1)))
    loss, scored = first_is_target(z, batch.weight.astype(z.dtype), beta)
    return loss, (read, scored)


def gbce_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """The mirror of `gbce`: back through the weighted mean, then through the scores."""
    read, (backward, inputs) = saved
    return _sampled_scores_backward(backward(dloss, *inputs), h, E, batch, read)


@replaceable
def first_is_target(z: Array, weight: Array, beta: float) -> tuple[Array, Any]:
    """-β log σ(z_0) - Σⱼ log(1 - σ(z_j)) over j = 1 .. k, the mean by weight of rows; and (backward, its inputs).

    Shapes: z (..., 1 + k), weight (...) -> a scalar in nats.
    """
    xp, k = get_xp(z), z.shape[-1] - 1
    targets, share = xp.zeros_like(z), xp.ones(1 + k, dtype=z.dtype)
    targets[..., 0] = 1
    share[0] = beta
    weights = weight[..., None] * share                                  # (..., 1 + k)
    total = beta + k                                                     # a row's weights: sums, not means
    return total * bce_with_logits(z, targets, weights), (_first_is_target_backward, (total, z, targets, weights))


def _first_is_target_backward(dloss: float, total: float, *inputs: Array) -> Array:
    return bce_with_logits_backward(total * dloss, *inputs)


def sampled_softmax(h: Array, E: Array, batch: Batch, **_: Any) -> tuple[Any, Any]:
    """-log softmax([h·E[target], h·E[negative] ...])[0] over the k negatives of the row, mean over real positions.

    Cross-entropy over the target and a sample (Jean et al. 2015; Klenitskiy & Vasilev 2023 for SASRec). Negatives are
    items that the user never had, so none is a target of its row. The correction -log q is left out: for uniform
    negatives softmax cancels it; for negatives by popularity or from the batch, as in GRU4Rec, scores then measure how
    much likelier an item is here than by popularity.
    """
    z, read = _sampled_scores(h, E, batch)
    targets = get_xp(h).zeros(z.shape[:-1], dtype=batch.targets.dtype)
    weight = batch.weight.astype(z.dtype)
    return cross_entropy(z, targets, weight), (read, z, targets, weight)


def sampled_softmax_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """The mirror of `sampled_softmax`: back through cross-entropy, then through the scores."""
    read, *inputs = saved
    return _sampled_scores_backward(cross_entropy_backward(dloss, *inputs), h, E, batch, read)


def bpr_max_of_sample(h: Array, E: Array, batch: Batch, *, regularisation: float, **_: Any) -> tuple[Any, Any]:
    """-log Σⱼ sⱼ σ(r⁺ - rⱼ) + λ Σⱼ sⱼ rⱼ² over the k negatives of the row, mean over real positions; see `bpr_max`.

    Scores are dot products; the published code adds an item bias and applies an ELU.
    """
    z, read = _sampled_scores(h, E, batch)
    inputs = z[..., 0], z[..., 1:], batch.weight.astype(z.dtype), regularisation
    return bpr_max(*inputs), (read, *inputs)


def bpr_max_of_sample_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """The mirror of `bpr_max_of_sample`: back through the loss, then through the scores."""
    read, *inputs = saved
    dpositive, dnegatives = bpr_max_backward(dloss, *inputs)
    dz = get_xp(h).concatenate([dpositive[..., None], dnegatives], axis=-1)
    return _sampled_scores_backward(dz, h, E, batch, read)


@dataclass(kw_only=True)
class Plain:
    """An objective without options."""


@dataclass(kw_only=True)
class Sampled:
    """Options of objectives on a row's shared negatives."""

    n_negatives: int = option(
        256, "negatives that are drawn for a user in each step, for all of the user's positions", at_least=1,
        at_most=1_000_000, group="training",
    )  # fmt: skip


@dataclass(kw_only=True)
class Calibrated(Sampled):
    """Options of `gbce`."""

    calibration: float = option(
        0.75, "t: 0 is bce with more negatives, 1 undoes what sampling does to probabilities", at_least=0, at_most=1,
        group="training",
    )  # fmt: skip
    base_rate: bool = option(
        True, "subtract log n_negatives, the log odds of a negative, from every score; without it, as published, the "
        "first epochs of training mostly lower all scores", group="training",
    )  # fmt: skip


@dataclass(kw_only=True)
class Drawn(Sampled):
    """Options of losses whose negatives may also come from the batch, or by popularity."""

    in_batch: float = option(
        0.0, "share of the negatives that are next items of others in the batch, 0 to 1; the rest come from the "
        "catalogue", at_least=0, at_most=1, group="training",
    )  # fmt: skip
    popularity_power: float = option(
        0.0, "items of the catalogue are drawn in proportion to popularity to this power, 0 to 1: 0 is uniform",
        at_least=0, at_most=1, group="training",         # a much larger power would draw the first item alone
    )  # fmt: skip


@dataclass(kw_only=True)
class Regularised(Drawn):
    """Options of `bpr_max_of_sample`."""

    regularisation: float = option(1.0, "λ: weight of the negatives' squared scores", at_least=0, group="training")


class Objective(NamedTuple):
    """A loss for next items: two functions and a line in OBJECTIVES."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    negatives: bool          # does it need sampled negatives?
    options: type = Plain    # a dataclass of `forward`'s keywords; with `n_negatives`, a row shares its negatives


OBJECTIVES = {
    "bce": Objective(bce, bce_backward, negatives=True),
    "bpr": Objective(bpr, bpr_backward, negatives=True),
    "ce": Objective(ce, ce_backward, negatives=False, options=Smoothed),
    "gbce": Objective(gbce, gbce_backward, negatives=True, options=Calibrated),
    "sampled-softmax": Objective(sampled_softmax, sampled_softmax_backward, negatives=True, options=Drawn),
    "bpr-max": Objective(bpr_max_of_sample, bpr_max_of_sample_backward, negatives=True, options=Regularised),
}
LOSS_OPTIONS = {name: objective.options for name, objective in OBJECTIVES.items()}
LossOptions: Any = part_options(loss=LOSS_OPTIONS)      # options of all objectives, for models to inherit
