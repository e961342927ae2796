"""BPR on distances, with a hinge between the target and the negative."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import Case
from ..property import close, demand
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("distance_bpr")


def case(draw: CaseDrawer) -> Case:
    """d⁺ and d differ by 0.1 at least: the hinge has no derivative at its kink."""
    shape = (*draw.lead, draw.size())
    positive, negative, off = (np.abs(draw.array(*shape, size=2)) for _ in range(3))
    between = (positive + (off + 0.1) * draw.rng.choice([-1, 1], shape)).astype(draw.dtype)
    return {"positive": positive, "negative": negative, "between": between, "weights": draw.weights(shape),
            "pvn_weight": draw.choose((0.0, 0.5, 2.0))}  # fmt: skip


@states("rounding", "without the hinge it is the cross-entropy of two logits, the negative distances",
        hint="A small distance is good: -log σ(d⁻ - d⁺).")  # fmt: skip
def of_two(op: Subject, **case: Any) -> None:
    logits = -np.stack([case["positive"], case["negative"]], axis=-1)
    expected = oracles.cross_entropy(logits, np.zeros(logits.shape[:-1], int), case["weights"])
    close(op(**case | {"pvn_weight": 0.0}), expected, tolerance(op.spec, case), "the loss")


@states("rounding", "the hinge adds λ times the mean of max(d⁺ - d, 0)", hint="Which of the two should be larger?")
def hinge(op: Subject, **case: Any) -> None:
    w = np.ones(case["positive"].shape) if case["weights"] is None else case["weights"].astype(float)
    over = np.maximum(case["positive"].astype(float) - case["between"], 0)
    added = op(**case | {"pvn_weight": 3.0}) - op(**case | {"pvn_weight": 0.0})
    close(added, 3 * np.sum(w * over) / np.sum(w), 4 * tolerance(op.spec, case), "the difference")


@states("rounding", "multiplying all weights by a constant changes nothing, and positions of weight 0 do not count",
        hint="The loss is Σ w l / Σ w: what do you divide by?")  # fmt: skip
def weights_are_shares(op: Subject, **case: Any) -> None:
    w = np.ones_like(case["positive"]) if case["weights"] is None else case["weights"]
    expected, limit = op(**case | {"weights": w}), tolerance(op.spec, case)
    close(op(**case | {"weights": (w / 64).astype(w.dtype)}), expected, limit, "the loss")
    more = {name: np.concatenate([case[name], 7 * case[name] + 1]) for name in ("positive", "negative", "between")}
    close(op(**case | more | {"weights": np.concatenate([w, 0 * w])}), expected, limit, "with positions of weight 0, the loss")


@states("rounding", "a position's gradients sum to 0; dd is never positive, and is 0 with λ = 0", "gradients",
        hint="Adding a constant to all three distances changes nothing.")  # fmt: skip
def gradients_sum_to_zero(op: Subject, **case: Any) -> None:
    d = op.gradients(case, 1.0)
    total = d["positive"] + d["negative"] + d["between"]
    close(total, np.zeros(total.shape), 10 * tolerance(op.spec, case), "the sum of a position's gradients")
    demand(np.all(d["between"] <= 0), "dd is positive")
    demand(not np.any(op.gradients(case | {"pvn_weight": 0.0}, 1.0)["between"]), "without the hinge d has a gradient")


@states("rounding", "a target 4,000 farther costs 4,000, and one 4,000 nearer nothing", "extremes",
        hint="σ(-4000) is 0, and its logarithm is not -55: stay with logarithms.")  # fmt: skip
def far_behind(op: Subject, **case: Any) -> None:
    zero = np.zeros_like(case["positive"])
    far, case = zero + 4000, case | {"weights": None, "between": zero, "pvn_weight": 0.0}
    for positive, negative, cost in ((far, zero, 4000.0), (zero, far, 0.0), (far, far, math.log(2))):
        close(op(**case | {"positive": positive, "negative": negative}), cost, 1e-4 * max(cost, 1e-3), "the loss")


@states("exact", "at the kink, d⁺ = d, the gradient of the hinge is 0", "extremes", hint="d⁺ > d, or d⁺ >= d?")
def at_the_kink(op: Subject, **case: Any) -> None:
    if "distance_bpr_backward" not in op.lacks:
        d = op.gradients(case | {"between": case["positive"].copy(), "pvn_weight": 2.0}, 1.0)
        close(d["between"], np.zeros(case["positive"].shape), 0, "dbetween")


def special_cases() -> list[Case]:
    """The hinge positive, 0, and left out; targets nearer than the negative, and much farther."""
    distances = {"positive": [0.5, 9.0, 700.0], "negative": [2.0, 1.0, 3.0], "between": [0.1, 30.0, 2.0]}
    plain: Case = {name: np.array(d) for name, d in distances.items()} | {"weights": None}
    return [plain, plain | {"weights": np.array([2.0, 0.0, 0.5]), "pvn_weight": 0.25}]


SPEC = states.spec(
    "loss = Σ w l / Σ w, with l = -log σ(d⁻ - d⁺) + λ max(d⁺ - d, 0)",
    "distance_bpr(positive, negative, between, weights=None, pvn_weight=0.0): all (...); λ is pvn_weight",
    "the backward's upstream gradient is a number: distance_bpr_backward(dloss, positive, negative, between, "
    "weights=None, pvn_weight=0.0)",
    case=case,
    outputs=("loss",),
    wrt=("positive", "negative", "between"),
    special_cases=special_cases,
    choices=("hinge",),
)
