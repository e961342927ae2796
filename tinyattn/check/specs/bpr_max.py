"""BPR-max: the target against the negatives with the highest scores."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..property import close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("bpr_max")


def case(draw: CaseDrawer) -> dict[str, Any]:
    positions = (*draw.lead, draw.size())
    return {
        "positive": draw.array(*positions, size=2),
        "negatives": draw.array(*positions, draw.size_like(positions[-1]), size=2),
        "weights": draw.weights(positions),
        "regularisation": draw.choose((1.0, 0.0, 0.25)),
    }


def special_cases() -> list[dict[str, Any]]:
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


@states("rounding", "with one negative and no regularisation it is BPR, the cross-entropy of two", hint="s is then 1.")
def one_negative(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    two = np.stack([positive, negatives[..., 0]], axis=-1)
    expected = oracles.cross_entropy(two, np.zeros(positive.shape, int), weights)
    close(op(positive, negatives[..., :1], weights, 0.0), expected, _tolerance(positive, negatives, 1), "the loss")


@states("rounding", "without regularisation, adding a constant to all scores of a position changes nothing",
        hint="Only differences of scores are compared; softmax does not see a shift either.")
def shift(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    moved = op(positive + positive.dtype.type(4), negatives + negatives.dtype.type(4), weights, 0.0)
    close(moved, op(positive, negatives, weights, 0.0), _tolerance(positive, negatives), "the loss")


@states("rounding", "taking every negative twice changes nothing, and neither does their order",
        hint="softmax halves the weight of each of two equal ones: a weighted mean, not a sum.")
def twice(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    got = op(positive, np.concatenate([negatives, negatives[..., ::-1]], axis=-1), weights, regularisation)
    close(got, op(positive, negatives, weights, regularisation), _tolerance(positive, negatives), "the loss")


@states("rounding", "regularisation adds λ times the mean of the squared scores under their softmax",
        hint="The squares are weighted with s, as the terms σ(r⁺ - r) are.")
def regularised(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    s = oracles.softmax(negatives)
    w = np.ones(positive.shape) if weights is None else weights.astype(float)
    expected = 0.5 * np.sum(w * np.sum(s * negatives.astype(float) ** 2, axis=-1)) / np.sum(w)
    got = op(positive, negatives, weights, 0.5) - op(positive, negatives, weights, 0.0)
    close(got, expected, _tolerance(positive, negatives), "the difference")


@states("rounding", "multiplying all weights by a constant changes nothing, and positions of weight 0 do not count",
        hint="The loss is Σ w loss / Σ w: what do you divide by?")
def weights_are_shares(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    w = np.ones(positive.shape, positive.dtype) if weights is None else weights
    expected, limit = op(positive, negatives, w, regularisation), _tolerance(positive, negatives)
    for size in (4, 1 / 64):
        close(op(positive, negatives, (w * size).astype(w.dtype), regularisation), expected, limit, "the loss")
    pairs = ((positive, positive + 1), (negatives, negatives - 1), (w, np.zeros_like(w)))
    longer = op(*map(np.concatenate, pairs), regularisation)
    close(longer, expected, limit, "with positions of weight 0 added, the loss")


@states("rounding", "without regularisation a position's gradients sum to 0; positions of weight 0 have none", "gradients",
        hint="A shift of all scores changes nothing, so the gradient has no part along it.")
def gradients_sum_to_zero(
    op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0
) -> None:
    d = op.gradients({"positive": positive, "negatives": negatives, "weights": weights, "regularisation": 0.0}, 1.0)
    total = d["positive"] + np.sum(d["negatives"], axis=-1)
    close(total, np.zeros(positive.shape), 10 * _tolerance(positive, negatives), "the sum of a position's gradients")
    if weights is not None:
        demand(np.all(d["positive"][weights == 0] == 0), "a position of weight 0 has a gradient")
        demand(np.all(d["negatives"][weights == 0] == 0), "negatives of a position of weight 0 have a gradient")


@states("rounding", "scores near 800 and near -800 give the loss of scores near 0, for only differences count",
        "extremes", hint="exp(800) is infinite and exp(-800) is 0: which maximum does the softmax subtract first?")
def far_negatives(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
    limit = 800 * _tolerance(positive, negatives)
    expected = op(positive, negatives, weights, 0.0)
    for far in (-800, 800):
        moved = (x + x.dtype.type(far) for x in (positive, negatives))
        close(op(*moved, weights, 0.0), expected, limit, f"with all scores moved by {far}, the loss")


@states("rounding", "a target 4,000 behind costs 4,000, and one 4,000 ahead nothing; gradients are -1, 1 / k and 0",
        "extremes", hint="σ(-4000) is 0, and its logarithm is not -55: stay with logarithms.")
def far_behind(op: Subject, positive: Any, negatives: Any, weights: Any, regularisation: float = 1.0) -> None:
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


def _tolerance(positive: np.ndarray, negatives: np.ndarray, power: int = 2) -> float:
    return rounding(positive.dtype, negatives.size, 10 * largest(positive, negatives) ** power)


SPEC = states.spec(
    "loss = Σ w l / Σ w, with l = -log Σ s σ(r⁺ - r) + λ Σ s r² and s = softmax(r)",
    "bpr_max(positive, negatives, weights=None, regularisation=1.0): positive (...), negatives (..., k) with k of at "
    "least 1, weights (...) or None for all 1, not all 0",
    "the backward's upstream gradient is a number: bpr_max_backward(dloss, positive, negatives, weights=None, "
    "regularisation=1.0)",
    "scores of any size whose squares are finite",
    case=case,
    outputs=("loss",),
    wrt=("positive", "negatives"),
    scale=lambda case: 4 * largest(case["positive"], case["negatives"]) ** 2,
    special_cases=special_cases,
)
