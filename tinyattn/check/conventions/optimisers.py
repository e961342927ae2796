"""Optimisers: defaults, the place of eps, and a decay without the learning rate."""

from __future__ import annotations

import math

from ..cases import CaseDrawer
from ..subject import Subject
from ..switch import OtherDefault, Rescaled, Switch
from .convention import Convention, helps


def _beta2(op: Subject) -> Switch | None:
    """β₂ = 0.999, as in the paper and in PyTorch, where SASRec has 0.98."""
    other = OtherDefault("beta2 is 0.999 by default", "beta2", 0.999)
    return helps(op, other, "defaults", [op.spec.case(CaseDrawer.seeded(0))])


def _eps_hat(op: Subject) -> Switch | None:
    """√v + ε̂ before the correction (Kingma and Ba 2015, the end of section 2), where the library has √v̂ + eps."""
    says = "eps is added to √v before the correction"
    hat = Rescaled(says, "eps", lambda call: math.sqrt(1 - call.get("beta2", 0.98) ** call["step"]))
    return _where_it_agrees(op, hat, eps=1e-3)


def _decay_alone(op: Subject) -> Switch | None:
    """p - λ p, as Loshchilov and Hutter (2019) write it, where the library and torch have p - lr λ p."""
    says = "the decay is not multiplied by the learning rate"
    return _where_it_agrees(op, Rescaled(says, "weight_decay", lambda call: call.get("lr", 1e-3)), eps=1e-14)


def _where_it_agrees(op: Subject, switch: Switch, **arguments: float) -> Switch | None:
    """The switch if steps of the implementation are right with it, and wrong without; with these arguments."""
    cases = [op.spec.case(CaseDrawer.seeded(seed)) | arguments for seed in range(12)]
    decay = {"weight_decay": 0.1}
    return helps(op, switch, "oracle", (case | decay if decay.keys() <= case.keys() else case for case in cases))


CONVENTIONS = {
    "beta2": Convention("beta2 may be 0.999 by default", _beta2),
    "decay alone": Convention("the decay may be λ p, not multiplied by the learning rate", _decay_alone),
    "eps hat": Convention("eps may be added to √v before the correction, as at the end of Adam's section 2", _eps_hat),
}
