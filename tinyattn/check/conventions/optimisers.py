"""Optimisers: defaults, and the place of eps."""

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
    cases = [op.spec.case(CaseDrawer.seeded(seed)) | {"eps": 1e-3} for seed in range(12)]
    oracle = next(p for p in op.spec.properties if p.name == "oracle")

    def holds(case: Case) -> bool:
        with contextlib.suppress(Violation):
            oracle.holds(op, **copied(case))
            return True
        return False

    says = "eps is added to √v before the correction"
    hat = Rescaled(says, "eps", lambda given: math.sqrt(1 - given.get("beta2", 0.98) ** given["step"]))
    if all(map(holds, cases)):
        return None
    with trying(op, hat):
        return hat if all(map(holds, cases)) else None


CONVENTIONS = {
    "beta2": Convention("beta2 may be 0.999 by default", _beta2),
    "eps hat": Convention("eps may be added to √v before the correction, as in the last form of section 2", _eps_hat),
}
