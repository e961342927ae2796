"""Losses of a score: binary cross-entropy on logits, and three forms of BPR."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..families import Case, weighted_mean
from ..property import close, demand, largest, rounding
from .builder import Call, CaseDrawer, SpecBuilder, Subject

bce = SpecBuilder("bce")


def far(c: Call) -> Call:
    """Logits of ±10,000, on the right side and on the wrong one."""
    return Call(z=np.array([1e4, -1e4, 1e4, -1e4], c.z.dtype), targets=np.array([1, 0, 0, 1], c.z.dtype))


def silent(c: Call, d: np.ndarray) -> bool:
    """Whether positions of weight 0 have no gradient."""
    return c.weights is None or bool(np.all(d[c.weights == 0] == 0))


def bce_case(draw: CaseDrawer) -> dict[str, Any]:
    shape = (*draw.lead, draw.size())
    targets = draw.rng.choice([0.0, 1.0, 0.25], shape).astype(draw.dtype)
    return {"z": draw.array(*shape, size=3), "targets": targets, "weights": draw.weights(shape)}


def bce_special_cases() -> list[dict[str, Any]]:
    z, t = np.array([0.5, -2.0, 3.0]), np.array([1.0, 0.0, 0.25])
    weighted = {"z": z, "targets": t, "weights": np.array([2.0, 0.0, 0.5])}
    far = ((1000 * z, t), (50 * z, 1 - t), (-1000 * z, t))
    plain, *others = [{"z": z, "targets": t, "weights": None} for z, t in ((z, t), *far)]
    return [plain, weighted, *others]


bce.law("symmetry", "rounding", "swapping the labels equals negating the logits",
        lambda op, c: (op(**c(z=-c.z, targets=1 - c.targets)), op(**c)), times=2.5, what="the loss",
        hint="σ(-z) = 1 - σ(z).")
bce.law("difference", "rounding", "label 1 instead of 0 lowers the loss by the mean logit",
        lambda op, c: (
            op(**c(targets=np.ones_like(c.z))) - op(**c(targets=np.zeros_like(c.z))),
            -np.average(c.z.astype(float), weights=c.weights),
        ), times=2.5, what="the difference", hint="log σ(z) - log σ(-z) = z.")
weighted_mean(bce, "z", "targets")
bce.law("large_logits", "rounding", "logits of ±10,000 cost 0 on the right side, and 10,000 on the wrong one",
        lambda op, c: [
            (op(**c), 5000.0, rounding(c.z.dtype, 4, 1e4), "the loss"),
            (op(c.z[:2], c.targets[:2]), 0.0, 1e-12, "the loss on the right side"),
        ], "extremes", of=far, hint="log σ(z) underflows; max(z, 0) - z t + log(1 + exp(-|z|)) does not.")
bce.law("no_cap", "rounding", "a logit of -60 under label 1 costs 60, and one of 20 under label 0 costs 20",
        lambda op, c: (
            (op(*np.array([[gap - 2 * gap * t], [t]], c.z.dtype)), gap + np.log1p(np.exp(-gap)),
             rounding(c.z.dtype, 1, gap))
            for gap in (20.0, 60.0) for t in (1, 0)
        ), "extremes", what="the loss", hint="Is there an eps inside a logarithm?")
bce.law("large_logits_gradient", "rounding", "far out the gradient is 0 on the right side and ±1 on the wrong one",
        lambda op, c: (op.gradients(c, 1.0)["z"], np.array([0, 0, 1, -1]) / 4, rounding(c.z.dtype, 4, 10.0), "dz"),
        "extremes", of=far, hint="σ(z) - t: compute σ so that neither end overflows.")


@bce("rounding", "the gradient is the share of the weight times σ(z) - t, 0 where the weight is 0", "gradients",
        hint="Predicted minus true probability: the sigmoid's derivative has cancelled.")
def gradient_form(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    w = np.ones(z.shape) if weights is None else weights.astype(float)
    dz = op.gradients({"z": z, "targets": targets, "weights": weights}, 3.0)["z"]
    expected = 3 * w / np.sum(w) * (1 / (1 + np.exp(-z.astype(float))) - targets)
    close(dz, expected, 10 * rounding(z.dtype, z.size, 3.0), "dz")
    if weights is not None:
        demand(np.all(dz[weights == 0] == 0), "a position of weight 0 has a gradient")


BCE = bce.spec(
    "loss = Σ w l / Σ w, with l = -t log σ(z) - (1 - t) log(1 - σ(z))",
    "bce_with_logits(z, targets, weights=None): z and targets (...), targets in 0..1, weights (...) or None for all 1, "
    "not all 0",
    "the backward's upstream gradient is a number: bce_with_logits_backward(dloss, z, targets, weights=None)",
    "logits of any finite size",
    function="bce_with_logits", case=bce_case, outputs=("loss",), wrt=("z",),
    scale=lambda case: 4 * largest(case["z"]), special_cases=bce_special_cases,
)


bpr = SpecBuilder("bpr")


def bpr_case(draw: CaseDrawer) -> dict[str, Any]:
    positions = (*draw.lead, draw.size())
    positive, negative = (draw.array(*positions, size=2) for _ in range(2))
    return {"positive": positive, "negative": negative, "weights": draw.weights(positions)}


def bpr_special_cases() -> list[dict[str, Any]]:
    up, down = np.array([0.5, -2.0, 3.0]), np.array([1.0, 2.0, -1.0])
    return [
        {"positive": up, "negative": down, "weights": None},
        {"positive": up, "negative": down, "weights": np.array([2.0, 0.0, 0.5])},
        {"positive": 100 * up, "negative": down, "weights": None},
        {"positive": up, "negative": up, "weights": None},
    ]


bpr.law("equal_scores", "rounding", "equal scores cost ln 2, whatever they are", lambda op, c: (op(**c), math.log(2)),
        of=lambda c: c(negative=c.positive), times=2.5, what="the loss", hint="σ(0) is one half: is anything added?")
bpr.law("exchanged", "rounding", "exchanging positive and negative adds the weighted mean of positive - negative",
        lambda op, c: (
            float(op(**c(positive=c.negative, negative=c.positive))) - float(op(**c)),
            np.average(c.positive.astype(float) - c.negative, weights=c.weights),
        ), times=5, what="the difference of losses",
        hint="log σ(z) - log σ(-z) = z: is z the difference of the two scores, and the sum divided by Σ w?")
weighted_mean(bpr, "positive", "negative")
bpr.law("opposite_gradients", "rounding", "dnegative is -dpositive; positions of weight 0 have no gradient",
        lambda op, c: [
            ((d := op.gradients(c, 1.0))["negative"], -np.asarray(d["positive"]), None, "dnegative"),
            (silent(c, d["positive"]), "a position of weight 0 has a gradient"),
        ], "gradients", times=25,
        hint="The loss depends on the difference alone: the score that goes up is matched by one that goes down.")


@bpr("rounding", "a target 4,000 behind costs 4,000, and one 4,000 ahead nothing; N dpositive is -1 and 0", "extremes",
        hint="σ(-4000) is 0, and its logarithm -inf, or that of a small constant added: compute log σ directly.")
def bpr_far_behind(op: Subject, positive: Any, negative: Any, weights: Any) -> None:
    high = np.full_like(positive, 2000)
    limit = rounding(positive.dtype, positive.size, 4000.0)
    for ahead, cost, slope in ((-high, 4000.0, -1.0), (high, 0.0, 0.0)):
        close(op(ahead, -ahead, None), cost, limit if cost else 1e-12, "the loss")
        if op.has_backward:
            dpositive = op.gradients({"positive": ahead, "negative": -ahead, "weights": None}, 1.0)["positive"]
            close(dpositive * positive.size, np.full(positive.shape, slope), limit if cost else 1e-12, "N dpositive")


BPR = bpr.spec(
    "loss = Σ w l / Σ w, with l = -log σ(positive - negative)",
    "bpr(positive, negative, weights=None): the scores of targets and of a negative each, positive and negative (...), "
    "weights (...) or None for all 1, not all 0",
    "the backward's upstream gradient is a number: bpr_backward(dloss, positive, negative, weights=None)",
    "scores of any finite size; nothing is added to σ",
    case=bpr_case, outputs=("loss",), wrt=("positive", "negative"),
    scale=lambda case: 4 * largest(case["positive"], case["negative"]), special_cases=bpr_special_cases,
    choices=("sum",),
)


bpr_max = SpecBuilder("bpr_max")


def _unregularised(c: Call) -> Call:
    return c(regularisation=0.0)


def bpr_max_case(draw: CaseDrawer) -> dict[str, Any]:
    positions = (*draw.lead, draw.size())
    return {
        "positive": draw.array(*positions, size=2),
        "negatives": draw.array(*positions, draw.size_like(positions[-1]), size=2),
        "weights": draw.weights(positions),
        "regularisation": draw.choose((1.0, 0.0, 0.25)),
    }


def bpr_max_special_cases() -> list[dict[str, Any]]:
    r, others = np.array([0.5, -2.0]), np.array([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])
    several: list[dict[str, Any]] = [
        {},
        {"weights": np.array([2.0, 0.0]), "regularisation": 0.5},
        {"weights": np.array([0.5, 2.0]), "regularisation": 0.0},
        {"negatives": 100 * others, "regularisation": 0.0},
        {"positive": 100 * r, "regularisation": 2.0},
        {"positive": -50 * r, "negatives": others[:, :1]},
    ]
    return [{"positive": r, "negatives": others, "weights": None} | arguments for arguments in several]


bpr_max.law("one_negative", "rounding", "with one negative and no regularisation it is BPR, the cross-entropy of two",
        lambda op, c: (op(**c(negatives=c.negatives[..., :1], regularisation=0.0)), oracles.cross_entropy(
            np.stack([c.positive, c.negatives[..., 0]], axis=-1), np.zeros(c.positive.shape, int), c.weights
        ), _bpr_max_tolerance(c, 1), "the loss"), hint="s is then 1.")
bpr_max.law("shift", "rounding",
        "without regularisation, adding a constant to all scores of a position changes nothing",
        lambda op, c: (
            op(**c(positive=c.positive + 4, negatives=c.negatives + 4)), op(**c), _bpr_max_tolerance(c), "the loss",
        ), of=_unregularised, hint="Only differences of scores are compared; softmax does not see a shift either.")
bpr_max.law("twice", "rounding", "taking every negative twice changes nothing, and neither does their order",
        lambda op, c: (
            op(**c(negatives=np.concatenate([c.negatives, c.negatives[..., ::-1]], axis=-1))), op(**c),
            _bpr_max_tolerance(c), "the loss",
        ), hint="softmax halves the weight of each of two equal ones: a weighted mean, not a sum.")
bpr_max.law("regularised", "rounding", "regularisation adds λ times the mean of the squared scores under their softmax",
        lambda op, c: (
            op(**c(regularisation=0.5)) - op(**c(regularisation=0.0)),
            np.average(np.sum(oracles.softmax(c.negatives) / 2 * c.negatives.astype(float) ** 2, -1), weights=c.weights),
            _bpr_max_tolerance(c), "the difference",
        ), hint="The squares are weighted with s, as the terms σ(r⁺ - r) are.")
weighted_mean(bpr_max, "positive", "negatives")
bpr_max.law("gradients_sum_to_zero", "rounding",
        "without regularisation a position's gradients sum to 0; positions of weight 0 have none", lambda op, c: [
            ((d := op.gradients(c, 1.0))["positive"] + np.sum(d["negatives"], axis=-1), np.zeros(c.positive.shape),
             10 * _bpr_max_tolerance(c), "the sum of a position's gradients"),
            (silent(c, d["positive"]), "a position of weight 0 has a gradient"),
            (silent(c, d["negatives"]), "negatives of a position of weight 0 have a gradient"),
        ], "gradients", of=_unregularised,
        hint="A shift of all scores changes nothing, so the gradient has no part along it.")
bpr_max.law("far_negatives", "rounding",
        "scores near 800 and near -800 give the loss of scores near 0, for only differences count", lambda op, c: (
            (op(**c(positive=c.positive + far, negatives=c.negatives + far)), op(**c), 800 * _bpr_max_tolerance(c),
             f"with all scores moved by {far}, the loss") for far in (-800, 800)
        ), "extremes", of=_unregularised,
        hint="exp(800) is infinite and exp(-800) is 0: which maximum does the softmax subtract first?")


@bpr_max("rounding", "a target 4,000 behind costs 4,000, and one 4,000 ahead nothing; gradients are -1, 1 / k and 0",
        "extremes", hint="σ(-4000) is 0; with 1e-24 added its logarithm is -55, not -4000: compute log σ directly.")
def bpr_max_far_behind(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    at, level = np.full_like(positive, 2000), np.full_like(negatives, 2000)
    limit = rounding(positive.dtype, negatives.size, 4000.0)
    for place, cost in ((-at, 4000.0), (at, math.log(2))):
        close(op(place, level, None, 0.0), cost, limit, "the loss")
    close(op(at, -level, None, 0.0), 0.0, 1e-12, "the loss of a target that leads")
    behind = op.gradients({"positive": -at, "negatives": level, "weights": None, "regularisation": 0.0}, 1.0)
    close(behind["positive"], np.full(positive.shape, -1 / max(positive.size, 1)), limit, "dpositive")
    close(behind["negatives"], np.full(negatives.shape, 1 / max(negatives.size, 1)), limit, "dnegatives")
    ahead = op.gradients({"positive": at, "negatives": -level, "weights": None, "regularisation": 0.0}, 1.0)
    close(ahead["positive"], np.zeros(positive.shape), 1e-12, "dpositive of a target that leads")


def _bpr_max_tolerance(c: Call, power: int = 2) -> float:
    return rounding(c.positive.dtype, c.negatives.size, 10 * largest(c.positive, c.negatives) ** power)


BPR_MAX = bpr_max.spec(
    "loss = Σ w l / Σ w, with l = -log Σ s σ(r⁺ - r) + λ Σ s r² and s = softmax(r)",
    "bpr_max(positive, negatives, weights=None, regularisation=1.0): positive (...), negatives (..., k) with k of at "
    "least 1, weights (...) or None for all 1, not all 0",
    "the backward's upstream gradient is a number: bpr_max_backward(dloss, positive, negatives, weights=None, "
    "regularisation=1.0)",
    "scores of any size whose squares are finite",
    case=bpr_max_case, outputs=("loss",), wrt=("positive", "negatives"),
    scale=lambda case: 4 * largest(case["positive"], case["negatives"]) ** 2, special_cases=bpr_max_special_cases,
)


distance_bpr = SpecBuilder("distance_bpr")


def distance_bpr_case(draw: CaseDrawer) -> Case:
    """d⁺ and d differ by 0.1 at least: the hinge has no derivative at its kink."""
    shape = (*draw.lead, draw.size())
    positive, negative, off = (np.abs(draw.array(*shape, size=2)) for _ in range(3))
    between = (positive + (off + 0.1) * draw.rng.choice([-1, 1], shape)).astype(draw.dtype)
    return {"positive": positive, "negative": negative, "between": between, "weights": draw.weights(shape),
            "pvn_weight": draw.choose((0.0, 0.5, 2.0))}  # fmt: skip


distance_bpr.law("of_two", "rounding",
        "without the hinge it is the cross-entropy of two logits, the negative distances",
        lambda op, c: (
            op(**c(pvn_weight=0.0)),
            oracles.cross_entropy(-np.stack([c.positive, c.negative], -1), np.zeros(c.positive.shape, int), c.weights),
        ), what="the loss", hint="A small distance is good: -log σ(d⁻ - d⁺).")
distance_bpr.law("hinge", "rounding", "the hinge adds λ times the mean of max(d⁺ - d, 0)",
        lambda op, c: (
            op(**c(pvn_weight=3.0)) - op(**c(pvn_weight=0.0)),
            3 * np.average(np.maximum(c.positive.astype(float) - c.between, 0), weights=c.weights),
        ), times=4, what="the difference", hint="Which of the two should be larger?")
weighted_mean(distance_bpr, "positive", "negative", "between")
distance_bpr.law("gradients_sum_to_zero", "rounding",
        "a position's gradients sum to 0; dd is never positive, and is 0 with λ = 0", lambda op, c: [
            ((d := op.gradients(c, 1.0))["positive"] + d["negative"] + d["between"], np.zeros(c.positive.shape)),
            (np.all(d["between"] <= 0), "dd is positive"),
            (not np.any(op.gradients(c(pvn_weight=0.0), 1.0)["between"]), "without the hinge d has a gradient"),
        ], "gradients", times=10, what="the sum of a position's gradients",
        hint="Adding a constant to all three distances changes nothing.")
distance_bpr.law("far_behind", "rounding", "a target 4,000 farther costs 4,000, and one 4,000 nearer nothing",
        lambda op, c: (
            (op(**c(positive=c.between + positive, negative=c.between + negative)), cost, 1e-4 * max(cost, 1e-3),
             "the loss")
            for positive, negative, cost in ((4000, 0, 4000.0), (0, 4000, 0.0), (4000, 4000, math.log(2)))
        ), "extremes", of=lambda c: c(weights=None, between=np.zeros_like(c.positive), pvn_weight=0.0),
        hint="σ(-4000) is 0; with 1e-24 added its logarithm is -55, not -4000: compute log σ directly.")


@distance_bpr("exact", "at the kink, d⁺ = d, the gradient of the hinge is 0", "extremes", hint="d⁺ > d, or d⁺ >= d?")
def at_the_kink(op: Subject, **case: Any) -> None:
    if op.has_backward:
        d = op.gradients(case | {"between": case["positive"].copy(), "pvn_weight": 2.0}, 1.0)
        close(d["between"], np.zeros(case["positive"].shape), 0, "dbetween")


def distance_bpr_special_cases() -> list[Case]:
    """The hinge positive, 0, and left out; targets nearer than the negative, and much farther."""
    distances = {"positive": [0.5, 9.0, 700.0], "negative": [2.0, 1.0, 3.0], "between": [0.1, 30.0, 2.0]}
    plain: Case = {name: np.array(d) for name, d in distances.items()} | {"weights": None}
    return [plain, plain | {"weights": np.array([2.0, 0.0, 0.5]), "pvn_weight": 0.25}]


DISTANCE_BPR = distance_bpr.spec(
    "loss = Σ w l / Σ w, with l = -log σ(d⁻ - d⁺) + λ max(d⁺ - d, 0)",
    "distance_bpr(positive, negative, between, weights=None, pvn_weight=0.0): all (...); λ is pvn_weight",
    "the backward's upstream gradient is a number: distance_bpr_backward(dloss, positive, negative, between, "
    "weights=None, pvn_weight=0.0)",
    case=distance_bpr_case, outputs=("loss",), wrt=("positive", "negative", "between"),
    special_cases=distance_bpr_special_cases, choices=("hinge",),
)
