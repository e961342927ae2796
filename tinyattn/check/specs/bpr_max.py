"""BPR-max: the target against those negatives that are near winning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import oracles
from ..cases import CaseDrawer
from ..property import close, demand, largest, rounding
from ..subject import Subject
from .builder import SpecBuilder

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
    return [
        {"positive": r, "negatives": others, "weights": None},
        {"positive": r, "negatives": others, "weights": np.array([2.0, 0.0]), "regularisation": 0.5},
        {"positive": r, "negatives": others, "weights": np.array([0.5, 2.0]), "regularisation": 0.0},
        {"positive": r, "negatives": 100 * others, "weights": None, "regularisation": 0.0},
        {"positive": 100 * r, "negatives": others, "weights": None, "regularisation": 2.0},
        {"positive": -50 * r, "negatives": others[:, :1], "weights": None},
    ]


@states("rounding", "with one negative and no regularisation it is BPR, the cross-entropy of two", hint="s is then 1.")
def one_negative(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    two = np.stack([positive, negatives[..., 0]], axis=-1)
    expected = oracles.cross_entropy(two, np.zeros(positive.shape, int), weights)
    close(op(positive, negatives[..., :1], weights, 0.0), expected, _tolerance(positive, negatives, 1), "the loss")


@states("rounding", "without regularisation, adding one number to all scores of a position changes nothing",
        hint="Only differences of scores are compared; softmax does not see a shift either.")
def shift(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    moved = op(positive + positive.dtype.type(4), negatives + negatives.dtype.type(4), weights, 0.0)
    close(moved, op(positive, negatives, weights, 0.0), _tolerance(positive, negatives), "the loss")


@states("rounding", "taking every negative twice changes nothing, and neither does their order",
        hint="softmax halves the weight of each of two equal ones: a weighted mean, not a sum.")
def twice(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    both = np.concatenate([negatives, negatives[..., ::-1]], axis=-1)
    got, expected = op(positive, both, weights, regularisation), op(positive, negatives, weights, regularisation)
    close(got, expected, _tolerance(positive, negatives), "the loss")


@states("rounding", "regularisation adds λ times the mean of the squared scores under their softmax",
        hint="The squares are weighted with s, as the wins are.")
def regularised(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    s = oracles.softmax(negatives)
    w = np.ones(positive.shape) if weights is None else weights.astype(float)
    expected = 0.5 * np.sum(w * np.sum(s * negatives.astype(float) ** 2, axis=-1)) / np.sum(w)
    got = op(positive, negatives, weights, 0.5) - op(positive, negatives, weights, 0.0)
    close(got, expected, _tolerance(positive, negatives), "the difference")


@states("rounding", "multiplying all weights by one number changes nothing, and positions of weight 0 do not count",
        hint="The loss is Σ w loss / Σ w: what do you divide by?")
def weights_are_shares(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    w = np.ones(positive.shape, positive.dtype) if weights is None else weights
    expected, limit = op(positive, negatives, w, regularisation), _tolerance(positive, negatives)
    for size in (4, 1 / 64):
        close(op(positive, negatives, (w * size).astype(w.dtype), regularisation), expected, limit, "the loss")
    pairs = ((positive, positive + 1), (negatives, negatives - 1), (w, np.zeros_like(w)))
    more = [np.concatenate(pair) for pair in pairs]
    close(op(*more, regularisation), expected, limit, "with positions of weight 0 added, the loss")


@states("rounding", "without regularisation a position's gradients sum to 0; positions of weight 0 have none", "gradients",
        hint="A shift of all scores changes nothing, so the gradient has no part along it.")
def gradients_sum_to_zero(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    given = {"positive": positive, "negatives": negatives, "weights": weights, "regularisation": 0.0}
    d = op.gradients(given, 1.0)
    total = d["positive"] + np.sum(d["negatives"], axis=-1)
    close(total, np.zeros(positive.shape), 10 * _tolerance(positive, negatives), "the sum of a position's gradients")
    if weights is not None:
        demand(np.all(d["positive"][weights == 0] == 0), "a position of weight 0 has a gradient")
        demand(np.all(d["negatives"][weights == 0] == 0), "negatives of a position of weight 0 have a gradient")


@states("rounding", "a target 4,000 behind costs 4,000, and one 4,000 ahead nothing; gradients are -1, 1 / k and 0",
        "extremes", hint="σ(-4000) is 0, and its logarithm is not -55: stay with logarithms.")
def far_behind(
    op: Subject, positive: np.ndarray, negatives: np.ndarray, weights: np.ndarray | None, regularisation: float = 1.0
) -> None:
    k, at = negatives.shape[-1], np.full_like(positive, 2000)
    limit = rounding(positive.dtype, negatives.size, 4000.0)
    level = np.full_like(negatives, 2000)
    for place, cost in ((-at, 4000.0), (at, math.log(2))):
        close(op(place, level, None, 0.0), cost, limit, "the loss")
    close(op(at, -level, None, 0.0), 0.0, 1e-12, "the loss of a target that leads")
    n = max(positive.size, 1)
    behind = op.gradients({"positive": -at, "negatives": level, "weights": None, "regularisation": 0.0}, 1.0)
    close(behind["positive"], np.full(positive.shape, -1 / n), limit, "dpositive")
    close(behind["negatives"], np.full(negatives.shape, 1 / (n * k)), limit, "dnegatives")
    ahead = op.gradients({"positive": at, "negatives": -level, "weights": None, "regularisation": 0.0}, 1.0)
    close(ahead["positive"], np.zeros(positive.shape), 1e-12, "dpositive of a target that leads")


def _tolerance(positive: np.ndarray, negatives: np.ndarray, power: int = 2) -> float:
    size = max(1.0, largest(positive), largest(negatives))
    return rounding(positive.dtype, negatives.size, 10 * size**power)


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
    scale=lambda case: 4 * max(1.0, largest(case["positive"]), largest(case["negatives"])) ** 2,
    special_cases=special_cases,
)
