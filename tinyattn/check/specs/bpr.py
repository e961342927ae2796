"""BPR: the target against one negative."""

import math
from typing import Any

import numpy as np

from ..property import close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("bpr")


def case(draw: CaseDrawer) -> dict[str, Any]:
    positions = (*draw.lead, draw.size())
    positive, negative = (draw.array(*positions, size=2) for _ in range(2))
    return {"positive": positive, "negative": negative, "weights": draw.weights(positions)}


def special_cases() -> list[dict[str, Any]]:
    up, down = np.array([0.5, -2.0, 3.0]), np.array([1.0, 2.0, -1.0])
    return [
        {"positive": up, "negative": down, "weights": None},
        {"positive": up, "negative": down, "weights": np.array([2.0, 0.0, 0.5])},
        {"positive": 100 * up, "negative": down, "weights": None},
        {"positive": up, "negative": up, "weights": None},
    ]


@states("rounding", "equal scores cost ln 2, whatever they are", hint="σ(0) is one half: is anything added?")
def equal_scores(op: Subject, positive: Any, negative: Any, weights: Any) -> None:
    close(op(positive, positive, weights), math.log(2), _tolerance(positive), "the loss")


@states("rounding", "exchanging positive and negative adds the weighted mean of positive - negative",
        hint="log σ(z) - log σ(-z) = z: is z the difference of the two scores, and the sum divided by Σ w?")
def exchanged(op: Subject, positive: Any, negative: Any, weights: Any) -> None:
    w = np.ones(positive.shape) if weights is None else weights.astype(float)
    expected = np.sum(w * (positive.astype(float) - negative)) / np.sum(w)
    got = float(op(negative, positive, weights)) - float(op(positive, negative, weights))
    close(got, expected, 2 * _tolerance(positive, negative), "the difference of losses")


@states("rounding", "multiplying all weights by a constant changes nothing, and positions of weight 0 do not count",
        hint="The loss is Σ w loss / Σ w: what do you divide by?")
def weights_are_shares(op: Subject, positive: Any, negative: Any, weights: Any) -> None:
    w = np.ones(positive.shape, positive.dtype) if weights is None else weights
    expected, limit = op(positive, negative, w), _tolerance(positive, negative)
    for size in (4, 1 / 64):
        close(op(positive, negative, (w * size).astype(w.dtype)), expected, limit, "the loss")
    longer = (np.concatenate(pair) for pair in ((positive, positive + 1), (negative, negative - 1), (w, 0 * w)))
    close(op(*longer), expected, limit, "with positions of weight 0 added, the loss")


@states("rounding", "dnegative is -dpositive; positions of weight 0 have no gradient", "gradients",
        hint="The loss depends on the difference alone: the score that goes up is matched by one that goes down.")
def opposite_gradients(op: Subject, **case: Any) -> None:
    d = op.gradients(case, 1.0)
    close(d["negative"], -np.asarray(d["positive"]), 10 * _tolerance(case["positive"], case["negative"]), "dnegative")
    if case["weights"] is not None:
        demand(np.all(d["positive"][case["weights"] == 0] == 0), "a position of weight 0 has a gradient")


@states("rounding", "a target 4,000 behind costs 4,000, and one 4,000 ahead nothing; N dpositive is -1 and 0", "extremes",
        hint="σ(-4000) is 0, and its logarithm is -inf, or what a small constant makes of it: stay with logarithms.")
def far_behind(op: Subject, positive: Any, negative: Any, weights: Any) -> None:
    high = np.full_like(positive, 2000)
    limit = rounding(positive.dtype, positive.size, 4000.0)
    for ahead, cost, slope in ((-high, 4000.0, -1.0), (high, 0.0, 0.0)):
        close(op(ahead, -ahead, None), cost, limit if cost else 1e-12, "the loss")
        if "bpr_backward" not in op.lacks:
            dpositive = op.gradients({"positive": ahead, "negative": -ahead, "weights": None}, 1.0)["positive"]
            close(dpositive * positive.size, np.full(positive.shape, slope), limit if cost else 1e-12, "N dpositive")


def _tolerance(*scores: np.ndarray) -> float:
    return rounding(scores[0].dtype, scores[0].size, 10 * largest(*scores))


SPEC = states.spec(
    "loss = Σ w l / Σ w, with l = -log σ(positive - negative)",
    "bpr(positive, negative, weights=None): the scores of targets and of a negative each, positive and negative (...), "
    "weights (...) or None for all 1, not all 0",
    "the backward's upstream gradient is a number: bpr_backward(dloss, positive, negative, weights=None)",
    "scores of any finite size; nothing is added to σ",
    case=case,
    outputs=("loss",),
    wrt=("positive", "negative"),
    scale=lambda case: 4 * largest(case["positive"], case["negative"]),
    special_cases=special_cases,
    choices=("sum",),
)
