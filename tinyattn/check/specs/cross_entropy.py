"""Cross-entropy on logits, without and with label smoothing."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..property import close, demand, largest, rounding
from .builder import Call, CaseDrawer, SpecBuilder, Subject
from .losses import silent

cross_entropy = SpecBuilder("cross_entropy")


def _hot(c: Call) -> np.ndarray:
    return np.arange(c.logits.shape[-1]) == c.targets[..., None]


def _led(c: Call, size: float) -> np.ndarray:
    """Logits of `size` for targets, and -`size` for the others."""
    return np.where(_hot(c), size, -size).astype(c.logits.dtype)
HINT_MEAN = "The loss is Σ w nll / Σ w: what do you divide by?"


def cross_entropy_case(draw: CaseDrawer) -> dict[str, Any]:
    size = 200 + draw.size() if draw.wide else draw.size()
    positions = (*draw.lead, draw.size_like(size))
    targets = draw.rng.integers(0, size, positions)
    targets = np.asarray(targets, draw.choose((np.int64, np.int32)))
    return {"logits": draw.array(*positions, size, size=3), "targets": targets, "weights": draw.weights(positions)}


def cross_entropy_special_cases() -> list[dict[str, Any]]:
    z = np.array([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])
    several = [(z, 1, None), (z, 1, [2.0, 0.0]), (z, 1, [0.5, 2.0]), (1000 * z, 1, None), (40 * z, 2, None),
               (z - 2000.0, 1, None), (12 * z, 2, None)]  # fmt: skip
    return [{"logits": logits, "targets": np.array([first, 0]), "weights": None if w is None else np.array(w)}
            for logits, first, w in several]  # fmt: skip


def _uniform(op: Subject, c: Call) -> Any:
    """The sides of a law: the loss of equal logits, and ln V."""
    limit = rounding(c.logits.dtype, c.logits.size, 10.0)
    return op(**c(logits=np.full_like(c.logits, 3.0))), math.log(c.logits.shape[-1]), limit, "the loss"


cross_entropy.law("uniform", "rounding", "with all logits equal the loss is ln V", _uniform,
        hint="How large is the loss of pure guessing?")
cross_entropy.law("shift", "rounding", "adding a constant to a row of logits changes nothing",
        lambda op, c: (op(**c(logits=c.logits + 4)), op(**c), tolerance_of(c.logits), "the loss"),
        hint="softmax does not see it.")


def _weighted(c: Call) -> Call:
    return c if c.weights is not None else c(weights=_ones(c.targets, c.logits))


@cross_entropy("exact", "a position of weight 0 does not move the loss", hint="Change a padding target.", gravity="leak")
def weight_zero(op: Subject, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    w = np.concatenate([_ones(targets, logits), np.zeros(targets.shape, logits.dtype)])
    last = np.full_like(targets, logits.shape[-1] - 1)
    first = op(np.concatenate([logits, logits]), np.concatenate([targets, targets]), w)
    second = op(np.concatenate([logits, np.full_like(logits, 7)]), np.concatenate([targets, last]), w)
    demand(first == second, f"the loss moved from {first} to {second}")


cross_entropy.law("ignored_positions", "rounding", "adding positions of weight 0 leaves the loss as it is",
        lambda op, c: (
            op(*(np.concatenate(pair) for pair in (
                (c.logits, c.logits + 1), (c.targets, c.targets), (c.weights, np.zeros_like(c.weights)),
            ))), op(**c), tolerance_of(c.logits), "the loss",
        ), of=_weighted, hint=HINT_MEAN)
cross_entropy.law("weights_are_shares", "rounding", "multiplying all weights by a constant changes nothing",
        lambda op, c: (
            (op(**c(weights=w)), op(**c(weights=other)), tolerance_of(c.logits), "the loss") for w, other in (
                (4 * c.weights, c.weights), (c.weights / 64, c.weights), (_ones(c.targets, c.logits), None),
            )
        ), of=_weighted, hint=HINT_MEAN)
cross_entropy.law("gradient_rows", "rounding",
        "each row of the gradient sums to 0, and positions of weight 0 have none", lambda op, c: [
            (np.sum(d := op.gradients(c, 1.0)["logits"], axis=-1), np.zeros(c.targets.shape),
             10 * tolerance_of(c.logits),
             "the sum of the gradient's row "),
            (silent(c, d), "a position of weight 0 has a gradient"),
        ], "gradients", hint="softmax minus one-hot: both sum to 1.")


@cross_entropy("rounding", "a batch has the gradients of its halves, each with its share of the weight as dloss", "gradients",
        hint="dloss multiplies the whole gradient, once.")
def shares(op: Subject, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    z = logits.reshape(-1, logits.shape[-1])
    z, t = np.concatenate([z, z + 1]), np.tile(targets.reshape(-1), 2)
    w = np.linspace(0.5, 2, len(t)).astype(logits.dtype)
    gradients = []
    for part in (slice(None, targets.size), slice(targets.size, None)):
        half = {"logits": z[part], "targets": t[part], "weights": w[part]}
        gradients.append(op.gradients(op.fit(half), float(np.sum(w[part]) / np.sum(w)))["logits"])
    whole = op.gradients({"logits": z, "targets": t, "weights": w}, 1.0)["logits"]
    close(np.concatenate(gradients), whole, 10 * tolerance_of(z), "the gradient")


cross_entropy.law("large_logits", "rounding",
        "logits of ±2,000 give the exact loss: 0 where the target leads, 4,000 + ln(V - 1) where it trails",
        lambda op, c: [] if c.logits.shape[-1] == 1 else [
            (op(_led(c, 2000.0), c.targets), 0.0, 1e-12, "the loss"),
            (op(_led(c, -2000.0), c.targets), 4000.0 + math.log(c.logits.shape[-1] - 1),
             rounding(c.logits.dtype, c.logits.size, 4000.0), "the loss"),
            (op(_led(c, 2000.0) - 5000, c.targets), 0.0, 1e-12, "with all logits below -3,000, the loss"),
        ], "extremes", hint="log(exp(-4000)) is the log of 0: subtract each row's largest logit first.")
cross_entropy.law("no_cap", "rounding", "a target 60 below the others costs 60 + ln(V - 1), not less", lambda op, c: (
            (op(np.where(_hot(c), -gap, 0.0).astype(c.logits.dtype), c.targets),
             gap + math.log(c.logits.shape[-1] - 1 + math.exp(-gap)), rounding(c.logits.dtype, c.logits.size, gap),
             "the loss")
            for gap in (20.0, 60.0)
        ), "extremes", hint="-log(p + 1e-12) can never exceed 27.6: how does that change the gradient?")
cross_entropy.law("large_logits_gradient", "rounding",
        "with logits of ±2,000 the gradient is still softmax minus one-hot",
        lambda op, c: [] if c.logits.shape[-1] == 1 else (
            op.gradients(c(logits=_led(c, -2000.0), weights=None), 1.0)["logits"],
            ((1 - _hot(c)) / (c.logits.shape[-1] - 1) - _hot(c)) / c.targets.size,
            rounding(c.logits.dtype, c.logits.size, 4000.0), "the gradient",
        ), "extremes",
        hint="The gradient needs no logarithm: softmax, with each row's largest subtracted first, minus one-hot.")


def _ones(targets: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.ones(targets.shape, like.dtype)


def tolerance_of(logits: np.ndarray) -> float:
    return rounding(logits.dtype, logits.size, 10 * largest(logits))


CROSS_ENTROPY = cross_entropy.spec(
    "loss = Σ w nll / Σ w, with nll = -log softmax(logits)[target]",
    "cross_entropy(logits, targets, weights=None): logits (..., V), targets (...) integers, weights (...) or None for "
    "all 1, not all 0",
    "the backward's upstream gradient is a number: cross_entropy_backward(dloss, logits, targets, weights=None)",
    "logits of any finite size",
    case=cross_entropy_case, outputs=("loss",), wrt=("logits",), scale=lambda case: 4 * largest(case["logits"]),
    special_cases=cross_entropy_special_cases,
)


smoothed_cross_entropy = SpecBuilder("smoothed_cross_entropy")
smoothed_cross_entropy.law("no_smoothing", "rounding", "without smoothing it is cross-entropy",
        lambda op, c: (
            op(**c(smoothing=0.0)), oracles.cross_entropy(**c.without("smoothing")), tolerance_of(c.logits), "the loss",
        ), hint="At ε = 0 the target has probability 1.")
smoothed_cross_entropy.law("uniform", "rounding", "with all logits equal the loss is ln V, whatever ε is", _uniform,
        hint="The probabilities of q sum to 1.")
smoothed_cross_entropy.law("all_smoothing", "rounding", "with ε = 1 the target does not matter",
        lambda op, c: (
            op(**c(targets=(c.targets + 1) % c.logits.shape[-1])), op(**c), tolerance_of(c.logits),
            "the loss of other targets",
        ), of=lambda c: c(smoothing=1.0), hint="ε is spread over all classes, also the target.")


@smoothed_cross_entropy("rounding", "where the softmax is q, the gradient is 0 and the loss is the entropy of q", "gradients",
        hint="softmax minus q: which logits have the softmax q?")
def least(op: Subject, smoothing: float = 0.1, **case: Any) -> None:
    V, dtype = case["logits"].shape[-1], case["logits"].dtype
    q = np.full(case["logits"].shape, 0.3 / V)
    np.put_along_axis(q, case["targets"][..., None], 0.7 + 0.3 / V, axis=-1)
    case |= {"logits": np.log(q).astype(dtype), "smoothing": 0.3, "weights": None}
    atol = 10 * tolerance_of(case["logits"])
    close(op(**case), -float(np.mean(np.sum(q * np.log(q), axis=-1))), atol, "the loss")
    close(op.gradients(case, 1.0)["logits"], np.zeros(q.shape), atol, "the gradient")


SMOOTHED_CROSS_ENTROPY = smoothed_cross_entropy.spec(
    "loss = Σ w nll / Σ w, with nll = -Σⱼ qⱼ log softmax(logits)ⱼ and q = (1 - ε) onehot(target) + ε / V",
    "smoothed_cross_entropy(logits, targets, weights=None, smoothing=0.1): logits (..., V), targets (...) integers, "
    "weights (...) or None for all 1, not all 0; ε = smoothing in 0..1 is spread over all V classes",
    "the backward's upstream gradient is a number: smoothed_cross_entropy_backward(dloss, logits, targets, "
    "weights=None, smoothing=0.1)",
    "logits of any finite size",
    case=lambda draw: cross_entropy_case(draw) | {"smoothing": draw.choose((0.1, 0.5, 0.0, 1.0))}, outputs=("loss",),
    wrt=("logits",),
    scale=lambda case: 4 * largest(case["logits"]), special_cases=lambda: [
        case | {"smoothing": smoothing}
        for case, smoothing in zip(cross_entropy_special_cases(), (0.1, 0.2, 0.5, 0.1, 0.3, 0.9, 0.1), strict=True)
    ],
    choices=("smoothing",),
)


tiled_cross_entropy = SpecBuilder("tiled_cross_entropy")
TILES = (None, 1, 2, 5)


def tiled_cross_entropy_case(draw: CaseDrawer) -> dict[str, Any]:
    case = cross_entropy_case(draw)
    logits, d = case.pop("logits"), draw.size()
    x, E = draw.array(*logits.shape[:-1], d, size=2), draw.array(logits.shape[-1], d)
    return {"x": x, "E": E, **case, "smoothing": draw.choose((0.0, 0.1, 1.0)), "tile": draw.choose(TILES)}


def tiled_cross_entropy_special_cases() -> list[dict[str, Any]]:
    """Rows of logits that rise, fall, and lead in the middle tile; targets in the first tile, and in the last one."""
    E = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.5], [3.0, -1.0], [4.0, 2.0]])
    x, targets = np.array([[1.0, 0.5], [-1.0, 0.25], [0.0, 2.0]]), np.array([0, 4, 1])
    several = [(x, None, 0.0, 2), (x, [2.0, 0.0, 1.0], 0.1, 2), (300 * x, [1.0, 1.0, 3.0], 0.0, 1), (x, None, 0.5, 3)]
    return [{"x": states, "E": E, "targets": targets, "weights": None if w is None else np.array(w),
             "smoothing": smoothing, "tile": tile} for states, w, smoothing, tile in several]  # fmt: skip


@tiled_cross_entropy("rounding", "with every tile the loss is that of all logits at once, and so are the gradients",
        hint="Where a tile has a larger logit, what happens to the sum so far? Which rows of E does a tile's part of dE belong to?")
def every_tile(op: Subject, **case: Any) -> None:
    logits = case["x"] @ case["E"].T
    expected = oracles.smoothed_cross_entropy(logits, case["targets"], case["weights"], case["smoothing"])
    atol = 10 * tolerance_of(logits)
    dx, dE = None, None
    for tile in (1, 2, 3, len(case["E"]), 10**6):
        tiled = case | {"tile": tile}
        close(op(**tiled), expected, atol, f"with tiles of {tile} the loss")
        if op.has_backward:
            gradients = op.gradients(tiled, 1.0)
            dx, dE = (gradients["x"], gradients["E"]) if dx is None else (dx, dE)
            close(gradients["x"], dx, atol * largest(case["E"]), f"with tiles of {tile} dx")
            close(gradients["E"], dE, atol * largest(case["x"]), f"with tiles of {tile} dE")


tiled_cross_entropy.law("large_logits", "rounding", "logits of ±2,000 in any order of tiles give the exact loss",
        lambda op, c: (
            (op(**op.fit(c(E=np.array(E)[:, None], tile=tile))), 4000.0, 1e-9, f"with tiles of {tile} the loss")
            for E in ([-1.0, 1.0, 0.5, -0.5, -1.0], [-1.0, -0.5, 0.5, 1.0, -1.0]) for tile in (1, 2, 5)
        ), "extremes", of=lambda c: c(x=np.array([[2000.0]]), targets=np.array([0]), weights=None, smoothing=0.0),
        hint="exp leaves its range: is every sum taken around the largest logit so far?")

TILED_CROSS_ENTROPY = tiled_cross_entropy.spec(
    "loss = Σ w nll / Σ w, with nll = -Σⱼ qⱼ log softmax(x Eᵀ)ⱼ and q = (1 - ε) onehot(target) + ε / V, in tiles of "
    "classes, with memory that grows with N + V",
    "tiled_cross_entropy(x, E, targets, weights=None, smoothing=0.0, tile=None) -> loss first: x (..., D), E (V, D), "
    "targets (...) integers, weights (...) or None for all 1, not all 0; ε = smoothing in 0..1; tile is the number of "
    "classes whose logits are made at once, None the library's choice",
    "the backward's upstream gradient is a number",
    "logits of any finite size",
    case=tiled_cross_entropy_case, outputs=("loss",), wrt=("x", "E"),
    scale=lambda case: 4 * largest(case["x"]) * max(1.0, largest(case["E"])) * case["x"].shape[-1],
    special_cases=tiled_cross_entropy_special_cases, choices=("smoothing",),
)
