"""Optimisers: defaults, the place of eps, and a decay without the learning rate."""

from __future__ import annotations

import contextlib
import math

from ..cases import CaseDrawer, copied
from ..property import Violation
from ..subject import Subject
from ..switch import Case, OtherDefault, Rescaled, Switch
from .convention import Convention, trying


def _beta2(op: Subject) -> Switch | None:
    """β₂ = 0.999, as in the paper and in PyTorch, where SASRec has 0.98."""
    case, defaults = op.spec.case(CaseDrawer.seeded(0)), next(p for p in op.spec.properties if p.name == "defaults")
    with contextlib.suppress(Violation):
        defaults.holds(op, **copied(case))
        return None
    other = OtherDefault("beta2 is 0.999 by default", "beta2", 0.999)
    op.conventions.append(other)
    try:
        defaults.holds(op, **copied(case))
    finally:
        op.conventions.remove(other)
    return other


def _eps_hat(op: Subject) -> Switch | None:
    """√v + ε̂ before the correction (Kingma and Ba 2015, the end of section 2), where the library has √v̂ + eps."""
    says = "eps is added to √v before the correction"
    hat = Rescaled(says, "eps", lambda given: math.sqrt(1 - given.get("beta2", 0.98) ** given["step"]))
    return _where_it_agrees(op, hat, eps=1e-3)


def _decay_alone(op: Subject) -> Switch | None:
    """p - λ p, as Loshchilov and Hutter (2019) write it, where the library and torch have p - lr λ p."""
    says = "the decay is not multiplied by the learning rate"
    return _where_it_agrees(op, Rescaled(says, "weight_decay", lambda given: given.get("lr", 1e-3)), eps=1e-14)


def _where_it_agrees(op: Subject, switch: Switch, **arguments: float) -> Switch | None:
    """The switch if steps of the implementation are right with it, and wrong without; with these arguments."""
    cases = [op.spec.case(CaseDrawer.seeded(seed)) | arguments for seed in range(12)]
    cases = [case | ({"weight_decay": 0.1} if "weight_decay" in case else {}) for case in cases]
    oracle = next(p for p in op.spec.properties if p.name == "oracle")

    def holds(case: Case) -> bool:
        with contextlib.suppress(Violation):
            oracle.holds(op, **copied(case))
            return True
        return False

    if all(map(holds, cases)):
        return None
    with trying(op, switch):
        return switch if all(map(holds, cases)) else None


CONVENTIONS = {
    "beta2": Convention("beta2 may be 0.999 by default", _beta2),
    "decay alone": Convention("the decay may be λ p, not multiplied by the learning rate", _decay_alone),
    "eps hat": Convention("eps may be added to √v before the correction, as at the end of Adam's section 2", _eps_hat),
}
