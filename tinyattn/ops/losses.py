"""Losses: weighted means over positions, Σ wᵢ lossᵢ / Σ wᵢ.

A position of weight 0 does not count; if all weights are 0, so are loss and gradient. When a batch is computed in
slices, each gets its share of the batch's weight as `dloss`, so that the gradients of the slices add up to the batch's.
"""

from collections.abc import Iterator
from typing import Any

from ..backend import Array, get_xp, is_numpy
from .shapes import expect, row_sum, rows
from .sigmoid import sigmoid
from .softmax import softmax

TILE = 1 << 19       # logits of a tile: 2 MB in float32, about the cache of a core. On a device 64 times as many


def cross_entropy(logits: Array, targets: Array, weights: Array | None = None) -> Array:
    """The weighted mean of -log softmax(logits)[target], a scalar in nats. With all logits equal it is ln V.

    Shapes: logits (..., V), targets (...) integers in 0..V-1, weights (...) or None for all 1.
    Logits of ±1e4 are exact: the row's largest logit is subtracted before exp.
    Targets must be 0..V-1, even where the weight is 0. This is checked where batches are made, not here: NumPy refuses
    a target beyond the logits, but counts negative ones from their end.
    Raises ValueError for shapes that do not fit, IndexError for a target of V or more, TypeError for dtypes.
    """
    expect("...v #... ...", logits=logits, targets=targets, weights=weights)
    xp = get_xp(logits)
    log_sum = _log_sum_exp(xp, logits)
    chosen = xp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return _weighted_mean(xp, log_sum - chosen, weights)


def cross_entropy_backward(dloss: float, logits: Array, targets: Array, weights: Array | None = None) -> Array:
    """dlogits = dloss · w / Σw · (softmax(logits) - onehot(target)): predicted minus true probability.

    log Σ exp has the gradient softmax(logits); -logits[target] has -1 at the target.
    Shapes: dloss a number, the rest as in the forward -> dlogits (..., V).
    """
    expect("...v #... ...", logits=logits, targets=targets, weights=weights)
    xp = get_xp(logits)
    dlogits = softmax(rows(logits))                     # (N, V)
    dlogits[xp.arange(len(dlogits)), targets.reshape(-1)] -= 1
    dlogits *= _shares(dloss, targets, logits, weights).reshape(-1, 1)
    return dlogits.reshape(logits.shape)


def smoothed_cross_entropy(
    logits: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.1
) -> Array:
    """The weighted mean of -Σⱼ qⱼ log softmax(logits)ⱼ, with q = (1 - ε) onehot(target) + ε / V: label smoothing.

    A share ε = `smoothing` of the probability is spread over all V classes, the target included (Szegedy et al. 2016,
    section 7). It is computed as log Σ exp z - (1 - ε) z[target] - ε mean(z). Its least value is the entropy of q, not
    0. With ε = 0 it is `cross_entropy`.
    Shapes: logits (..., V), targets (...) integers in 0..V-1, weights (...) or None for all 1 -> a scalar in nats.
    Raises ValueError for shapes that do not fit and ε outside of 0..1, IndexError for a target of V or more, TypeError
    for dtypes.
    """
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing is {smoothing}, expected 0 to 1")
    expect("...v #... ...", logits=logits, targets=targets, weights=weights)
    xp, eps = get_xp(logits), float(smoothing)
    chosen = xp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    each = _log_sum_exp(xp, logits) - (1 - eps) * chosen
    if eps:                                             # a logit may be -∞, and 0 ∞ is NaN
        each -= eps * xp.mean(logits, axis=-1)
    return _weighted_mean(xp, each, weights)


def smoothed_cross_entropy_backward(
    dloss: float, logits: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.1
) -> Array:
    """dlogits = dloss · w / Σw · (softmax(logits) - q), with q = (1 - ε) onehot(target) + ε / V.

    log Σ exp has the gradient softmax(logits), logits[target] has the one-hot vector, and the mean of the logits 1 / V.
    Shapes: dloss a number, the rest as in the forward -> dlogits (..., V).
    """
    expect("...v #... ...", logits=logits, targets=targets, weights=weights)
    xp, eps = get_xp(logits), float(smoothing)
    dlogits = softmax(rows(logits))                     # (N, V)
    dlogits -= eps / logits.shape[-1]
    dlogits[xp.arange(len(dlogits)), targets.reshape(-1)] -= 1 - eps
    shares = _shares(dloss, targets, logits, weights)
    dlogits *= shares.reshape(-1, 1)
    return dlogits.reshape(logits.shape)


def tiled_cross_entropy(
    x: Array, E: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.0, tile: int | None = None
) -> tuple[Array, Array]:
    """loss = Σ w (L - (1 - ε) s_t - ε / V Σ_c s_c) / Σ w, with s = x Eᵀ and L = log Σ_c exp(s_c).

    This is `smoothed_cross_entropy` of the logits s, which are computed for a tile of classes at a time, and never
    stored. All N V logits of N positions and V classes would take 0.8 MB a position for 200,000 classes. Here memory
    grows with N + V (Wijmans et al. 2024, Cut Cross-Entropy). Two of the three ideas are those of `flash_attention`:

        online sum       log Σ exp needs a row's largest logit m. m and l = Σ e^(s - m) are kept for the classes so far.
                         When a tile raises m to m', l becomes e^(m - m') l + Σ e^(s - m')
        the rest         the target's logit is a product with one row of E, and the mean of all logits is the product
                         with the mean row of E: neither needs a tile
        recomputation    L = m + log l is kept for each position. The backward computes each tile of logits again, and
                         its probabilities as e^(s - L)

    Shapes: x (..., D), E (V, D), targets (...) integers in 0..V-1, weights (...) or None for all 1, `tile` classes at
    once (None: as many as give TILE logits) -> a scalar in nats, and L (..., 1), the logarithm of Σ exp(x Eᵀ).
    Raises ValueError for shapes that do not fit, ε outside of 0..1 and a tile below 1, IndexError for a target of V or
    more, TypeError for dtypes.
    """
    expect("...d vd #... ...", x=x, E=E, targets=targets, weights=weights)
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing is {smoothing}, expected 0 to 1")
    xp, flat, eps = get_xp(x), rows(x), float(smoothing)
    l = xp.zeros((len(flat), 1), dtype=x.dtype)
    m = xp.full(l.shape, -xp.inf, dtype=x.dtype)                         # nothing seen yet
    for classes in _tiles(flat, len(E), tile):
        s = flat @ E[classes].T                                            # (N, D) @ (D, tile)
        new = xp.maximum(m, xp.max(s, axis=1, keepdims=True))           # m'
        s -= new
        l *= xp.exp(m - new)
        l += row_sum(xp.exp(s, out=s))                                  # e^(s - m')
        m = new
    L = m + xp.log(l)
    each = L - (1 - eps) * row_sum(flat * E[targets.reshape(-1)])
    if eps:
        each -= eps * (flat @ xp.mean(E, axis=0))[:, None]
    return _weighted_mean(xp, each.reshape(targets.shape), weights), L.reshape(*targets.shape, 1)


def tiled_cross_entropy_backward(
    dloss: float, x: Array, E: Array, L: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.0,
    tile: int | None = None, into: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """dx = ds E, dE = dsᵀ x, with ds = dloss · w / Σ w · (exp(s - L) - q).

    exp(s - L) is the softmax, computed again for a tile of classes at a time. ds is the gradient of
    `smoothed_cross_entropy` by its logits s = x Eᵀ. Each tile adds to dx, and gives the rows of dE of its classes.
    Shapes: dloss a number, the rest as in the forward, L (..., 1) -> dx (..., D), dE (V, D). If `into` is given, dE is
    written into it.
    """
    expect("...d vd ...z #... ... vd", x=x, E=E, L=L, targets=targets, weights=weights, into=into)
    xp, flat, t, eps = get_xp(x), rows(x), targets.reshape(-1), float(smoothing)
    shares = _shares(dloss, targets, x, weights).reshape(-1, 1)
    dx, shared_x, each = xp.zeros_like(flat), shares * flat, xp.arange(len(flat))
    dE = xp.empty_like(E) if into is None else into
    for classes in _tiles(flat, len(E), tile):
        s = flat @ E[classes].T
        s -= rows(L)
        ds = xp.exp(s, out=s)                                           # softmax
        if eps:
            ds -= eps / len(E)
        here = (t >= classes.start) & (t < classes.stop)                      # is the target in this tile?
        ds[each, xp.where(here, t - classes.start, 0)] -= (1 - eps) * here
        dx += ds @ E[classes]                                              # (N, tile) @ (tile, D)
        dE[classes] = ds.T @ shared_x                                      # (tile, N) @ (N, D)
    dx *= shares
    return dx.reshape(x.shape), dE


def bce_with_logits(z: Array, targets: Array, weights: Array | None = None) -> Array:
    """The weighted mean of -t log σ(z) - (1 - t) log(1 - σ(z)), a scalar in nats.

    Computed as max(z, 0) - z t + log(1 + exp(-|z|)), which neither overflows nor takes the log of 0.
    Shapes: z (...), targets (...) in 0..1 of z's dtype, weights (...) or None for all 1.
    Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect("... ... ...", z=z, targets=targets, weights=weights)
    xp = get_xp(z)
    each = xp.maximum(z, 0) - z * targets + xp.log1p(xp.exp(-xp.abs(z)))
    return _weighted_mean(xp, each, weights)


def bce_with_logits_backward(dloss: float, z: Array, targets: Array, weights: Array | None = None) -> Array:
    """dz = dloss · w / Σw · (σ(z) - t): predicted minus true probability, as in cross-entropy.

    Shapes: dloss a number, the rest as in the forward -> dz (...).
    """
    expect("... ... ...", z=z, targets=targets, weights=weights)
    return (sigmoid(z) - targets) * _shares(dloss, targets, z, weights)


def bpr_max(
    positive: Array, negatives: Array, weights: Array | None = None, regularisation: float = 1.0
) -> Array:
    """The weighted mean of -log Σⱼ sⱼ σ(r⁺ - rⱼ) + λ Σⱼ sⱼ rⱼ², with s = softmax(r).

    r⁺ is the target's score, r are the negatives' scores, and s gives most weight to the negatives with high scores:
    the target has to beat these, and λ = `regularisation` keeps their scores near 0 (Hidasi & Karatzoglou 2018).
    log Σ sσ is computed as log Σ exp a - log Σ exp r, with a = r + log σ(r⁺ - r). So no product of small numbers
    becomes 0, and the logarithm needs no eps. With one negative and λ = 0 it is BPR.
    Shapes: positive (...), negatives (..., k), weights (...) or None for all 1 -> a scalar in nats.
    Raises ValueError for shapes that do not fit and for k = 0, TypeError for dtypes.
    """
    expect("... ...k ...", positive=positive, negatives=negatives, weights=weights)
    if not negatives.shape[-1]:
        raise ValueError(f"bpr_max: negatives is {negatives.shape}, expected at least one negative")
    xp = get_xp(positive)
    each = _log_sum_exp(xp, negatives) - _log_sum_exp(xp, _joint(xp, positive, negatives))
    each += float(regularisation) * xp.sum(softmax(negatives) * negatives * negatives, axis=-1)
    return _weighted_mean(xp, each, weights)


def bpr_max_backward(
    dloss: float, positive: Array, negatives: Array, weights: Array | None = None, regularisation: float = 1.0
) -> tuple[Array, Array]:
    """dr⁺ = -Σⱼ qⱼ (1 - σⱼ) and drⱼ = sⱼ - qⱼ σⱼ + λ sⱼ (rⱼ² + 2 rⱼ - Σᵢ sᵢ rᵢ²), times dloss · w / Σw.

    Here σⱼ = σ(r⁺ - rⱼ), and q = softmax(a) has each negative's share of Σ sσ. The gradient of log Σ exp r is s, and
    that of log Σ exp a is q; ∂aⱼ/∂rⱼ = σⱼ and ∂aⱼ/∂r⁺ = 1 - σⱼ. Σ s r² has the gradient 2 sⱼ rⱼ, and through the
    softmax sⱼ (rⱼ² - Σ s r²).
    Shapes: dloss a number, the rest as in the forward -> dpositive (...), dnegatives (..., k).
    """
    expect("... ...k ...", positive=positive, negatives=negatives, weights=weights)
    xp = get_xp(positive)
    s, q = softmax(negatives), softmax(_joint(xp, positive, negatives))
    wins, squares = sigmoid(positive[..., None] - negatives), negatives * negatives
    dnegatives = s - q * wins
    dnegatives += float(regularisation) * s * (squares + 2 * negatives - xp.sum(s * squares, axis=-1, keepdims=True))
    shares = _shares(dloss, positive, positive, weights)
    return -shares * xp.sum(q * (1 - wins), axis=-1), shares[..., None] * dnegatives


def distance_bpr(
    positive: Array, negative: Array, between: Array, weights: Array | None = None, pvn_weight: float = 0.0
) -> Array:
    """The weighted mean of -log σ(d⁻ - d⁺) + λ max(d⁺ - d, 0), a scalar in nats.

    d⁺ and d⁻ are the distances from the prediction to target and negative, d = `between` is the distance from target to
    negative, and λ = `pvn_weight`. BPR only penalises d⁺ > d⁻. The hinge also penalises d⁺ > d, so that target and
    negative do not come near each other while both are far from the prediction (Fan et al. 2022, STOSA).
    Shapes: positive, negative, between (...), weights (...) or None for all 1.
    Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect("... ... ... ...", positive=positive, negative=negative, between=between, weights=weights)
    xp, z = get_xp(positive), negative - positive
    each = xp.maximum(-z, 0) + xp.log1p(xp.exp(-xp.abs(z)))
    each += pvn_weight * xp.maximum(positive - between, 0)
    return _weighted_mean(xp, each, weights)


def distance_bpr_backward(
    dloss: float, positive: Array, negative: Array, between: Array, weights: Array | None = None,
    pvn_weight: float = 0.0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """dd⁺ = σ(d⁺ - d⁻) + λ [d⁺ > d], dd⁻ = -σ(d⁺ - d⁻), and dd = -λ [d⁺ > d], times dloss · w / Σw.

    Shapes: dloss a number, the rest as in the forward -> dpositive, dnegative, dbetween (...).
    """
    expect("... ... ... ...", positive=positive, negative=negative, between=between, weights=weights)
    shares = _shares(dloss, positive, positive, weights)
    wrong = shares * sigmoid(positive - negative)
    hinge = shares * (positive > between)
    hinge *= pvn_weight
    return wrong + hinge, -wrong, -hinge


def _joint(xp: Any, positive: Array, negatives: Array) -> Array:
    """a = r + log σ(r⁺ - r). Shapes: (...), (..., k) -> (..., k)."""
    behind = negatives - positive[..., None]
    return negatives - xp.maximum(behind, 0) - xp.log1p(xp.exp(-xp.abs(behind)))


def _log_sum_exp(xp: Any, x: Array) -> Array:
    """log Σ exp x over the last axis, without overflow. Shapes: (..., k) -> (...)."""
    top = xp.max(x, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axis=-1)) + top[..., 0]


def _weighted_mean(xp: Any, each: Array, weights: Array | None) -> Array:
    if weights is None:
        return xp.sum(each) / max(each.size, 1)
    counted = xp.where(weights == 0, 0, each)           # a loss of weight 0 may be infinite, and 0 ∞ is NaN
    return xp.sum(counted * weights) / _total(weights)


def _shares(dloss: float, targets: Array, like: Array, weights: Array | None) -> Array:
    """dloss times each position's share of the mean, w / Σw, in the dtype of `like`."""
    if weights is None:
        shares = get_xp(like).full(targets.shape, 1 / max(targets.size, 1), dtype=like.dtype)
    else:
        shares = weights / _total(weights)
    shares *= float(dloss)                              # a NumPy scalar would widen float32
    return shares


def _total(weights: Array) -> Array:
    """Σ w, to divide by."""
    xp = get_xp(weights)
    total = xp.sum(weights)
    return xp.where(total == 0, 1.0, total)             # all weights 0: the mean of nothing is 0


def _tiles(flat: Array, classes: int, tile: int | None) -> Iterator[slice]:
    room = TILE if is_numpy(get_xp(flat)) else 64 * TILE
    size = max(1, room // max(1, len(flat))) if tile is None else tile
    if size < 1:
        raise ValueError(f"tile is {tile}, expected at least 1 class")
    return (slice(first, min(first + size, classes)) for first in range(0, classes, size))
