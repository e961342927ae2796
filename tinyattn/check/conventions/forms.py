"""Functions with two usual forms: GELU, dropout, ranks among ties, recall, label smoothing, BPR, ALiBi, a schedule."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cases import CaseDrawer
from ..common import widened
from ..property import Violation
from ..specs.ranking import metrics_of, of_one_user
from ..subject import Subject
from ..switch import Case, FixedArgument, Rescaled, Switch
from .convention import convention, error, fitting, helps, oracle


@convention("tanh", "without `approximate` it may compute the tanh form")
def _tanh_form(op: Subject) -> Switch | None:
    if "approximate" not in op.lacks:
        return None
    cases = [widened(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) | {"approximate": False} for seed in range(4)]
    errors = [
        max(error(op.outputs(**case)[0], oracle(op, case | {"approximate": tanh})) for case in cases)
        for tanh in (False, True)
    ]
    if errors[1] < 3e-6 < errors[0]:
        return FixedArgument("it computes the tanh form", "approximate", True, False)
    return None


@convention("ties", "a target may rank before, after or by position among items of its score, not at their mean")
def _ties(op: Subject) -> Switch | None:
    """Three items share a score, and have the mean rank 3. A rank is the least k with a gain. A metric that ranks the
    smallest score first is wrong, but that is not judged here; of two metrics, one may be wrong."""
    scores = np.array([3.0, 2, 2, 2, 0])
    for _, gain in reversed(metrics_of(op)):
        with contextlib.suppress(Violation):
            first, *tied, last = (1 + sum(gain(scores.copy(), i, k) < 1e-6 for k in range(1, 5)) for i in range(5))
            if {first, last} == {1, 5} and set(tied) <= {2, 3, 4}:
                order = {(2, 2, 2): "before", (4, 4, 4): "after"}.get(tuple(tied), "by position among")
                return Switch(f"a target ranks {order} items of its score", topic="ties") if {*tied} != {3} else None
    return None


# (recall at 2 of one tied item, of the other) -> their ranks among items of their score
SHARES: dict[Any, str] = {(1, 1): "before", (0, 0): "after", (1, 0): "by position among", (0, 1): "by position among"}


@convention("ties of several", "a relevant item may rank before, after or by position among items of its score")
def _ties_of_several(op: Subject) -> Switch | None:
    """As `_ties`, from each tied item's recall at 2, or its NDCG at 2 over that of rank 2."""
    scores, metric = np.array([3.0, 2, 2, 1]), of_one_user(op)
    second = metric(np.array([3.0, 2, 1, 0]), np.arange(4) == 1, 2)
    shares = [round(float(metric(scores.copy(), target, 2) / second), 6) for target in np.eye(4, dtype=bool)]
    order = SHARES.get((shares[1], shares[2]))
    if shares[0] < 1 or shares[3] != 0 or order is None:
        return None
    return Switch(f"a relevant item ranks {order} items of its score", topic="ties")


@dataclass(frozen=True)
class SmallK(Switch):
    spare: int = 0  # k may be at most the number of items minus this

    def has(self, call: Case) -> bool:
        return bool(call["k"] + self.spare > np.shape(call["scores"])[-1])


@convention("small k", "k may have to be at most, or below, the number of items")
def _small_k(op: Subject) -> Switch | None:
    """Whether, for 3 items, it raises at k = 4, as topk does, or also at k = 3, as argpartition does."""

    def raises(k: int) -> bool:
        try:
            of_one_user(op)(np.array([3.0, 1, 2]), np.array([True, False, False]), k)
        except Violation as violation:
            return violation.sort == "raised"
        return False

    if raises(2) or not raises(4):
        return None
    return SmallK("k must be below the number of items", 1) if raises(3) else SmallK("k is at most the number of items")


@convention("recall", "recall may be divided by min(k, number of relevant items)")
def _recall(op: Subject) -> Switch | None:
    """Recall at 1 of three relevant items: 1 / 3, or 1 where it is divided by min(k, 3)."""
    if op.computes != "recall":
        return None
    share = of_one_user(op)(np.array([3.0, 2, 1]), np.ones(3, bool), 1)
    says = "recall@k is divided by k where more items are relevant"
    return Switch(says, topic="recall") if abs(share - 1) < 1e-6 else None


@convention("head slopes", "heads that are no power of 2 may have the slopes of the authors' code")
def _head_slopes(op: Subject) -> Switch | None:
    other = Switch("heads that are no power of 2 have the slopes of the authors' code", topic="slopes")
    return helps(op, other, "oracle", [{"heads": 12, "n": 3}])


@dataclass(frozen=True)
class Multiplied(Switch):
    """The result and its gradients are `factor(call)` times the library's."""

    factor: Callable[[Case], float]

    def result(self, call: Case, y: Any) -> Any:
        return y / self.factor(call)

    def gradients(self, case: Case, named: Case) -> Case:
        return {name: g / self.factor(case) for name, g in named.items()}


@convention("scale", "dropout may scale by 1 - rate in evaluation, not by 1 / (1 - rate) in training")
def _scaled_in_evaluation(op: Subject) -> Switch | None:
    x, keep = np.array([1.0, -2.0, 4.0]), np.array([True, False, True])
    if np.allclose(op(x, keep, 0.25), x * keep) and np.allclose(op(x, None, 0.25), 0.75 * x):
        says = "it scales by 1 - rate in evaluation, not by 1 / (1 - rate) in training"
        return Multiplied(says, lambda case: 1 - case["rate"])
    return None


@convention("smoothing", "ε may be spread over the V - 1 other classes, not over all V")
def _smoothing(op: Subject) -> Switch | None:
    """q = 1 - ε for the target and ε / (V - 1) for each other class: the library's q for ε V / (V - 1)."""
    return fitting(op, (
        Rescaled("ε is spread over the V - 1 other classes, not over all V", "smoothing",
                 lambda case: 1 - 1 / case["logits"].shape[-1], 0.1, lambda case: case["logits"].shape[-1] == 1),
    ))  # fmt: skip


def _count(case: Case) -> float:
    """The denominator of a mean over positions."""
    weights = case.get("weights")
    return float(max(case["positive"].size, 1) if weights is None else np.sum(weights))


@convention("sum", "it may be the sum over positions, not their mean")
def _summed(op: Subject) -> Switch | None:
    return fitting(op, (Multiplied("it is the sum over positions, not their mean", _count),))


@convention("end", "beyond the last step the rate may rise again, as the cosine of transformers does")
def _end(op: Subject) -> Switch | None:
    last, *later = (float(np.ravel(op(step, 10, 70))[0]) for step in (70, 100, 130))
    return Switch("beyond the last step the rate rises again", topic="end") if max(later) > last + 1e-6 else None
