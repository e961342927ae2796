"""Optimisers: defaults, the place of eps, and a decay without the learning rate."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..cases import CaseDrawer
from ..specs.optimisers import Moments, after_step, by_loops
from ..subject import Subject
from ..switch import Case, FixedArgument, OtherDefault, Rescaled, Switch
from .convention import convention, fixed_eps, helps, number, relative_error


@convention("beta2", "beta2 may be 0.999 by default")
def _beta2(op: Subject) -> Switch | None:
    """β₂ = 0.999, as in the paper and in PyTorch, where SASRec has 0.98."""
    other = OtherDefault("beta2 is 0.999 by default", "beta2", 0.999)
    return helps(op, other, "defaults", [op.spec.case(CaseDrawer.seeded(0))])


def _correction(call: Case) -> float:
    return math.sqrt(1 - call.get("beta2", 0.98) ** call["step"])


@convention(
    "eps hat", "eps may be added to √v before the correction, as at the end of Adam's section 2; without `eps` "
    "it may be any from 1e-12 to 1e-3",
)  # fmt: skip
def _eps(op: Subject) -> Switch | None:
    """Detects √v + ε̂ before the correction (Kingma and Ba 2015, the end of section 2), where the library has √v̂ + eps,
    and the value of an eps that is no argument."""
    before = "eps is added to √v before the correction"
    if "eps" not in op.lacks:
        return _where_it_agrees(op, Rescaled(before, "eps", _correction), lambda case: case | {"eps": 1e-3})
    default, cases = op.signature.parameters["eps"].default, [op.fit(_tiny(step)) for step in (1, 3, 40)]
    stepped = [after_step(op, case)["vector"] for case in cases]
    for says, factor in (("eps", lambda call: 1.0), (f"{before}, and", _correction)):

        def error(eps: float, factor: Any = factor) -> float:
            right = (by_loops(op.spec.loops[0], case | {"eps": eps / factor(case)})[0] for case in cases)
            return max(map(relative_error, stepped, right))

        eps = fixed_eps(error, default)
        if eps is not None:
            if eps == default and says == "eps":
                return None
            library = partial(_over, eps, factor)
            return FixedArgument(f"{says} is fixed at {number(eps)}", "eps", library, default)
    return None


def _over(eps: float, factor: Callable[[Case], float], call: Case) -> float:
    return eps / factor(call)


def _tiny(step: int) -> Case:
    """A step from parameters that are 0, with gradients so small that every eps matters."""
    g = np.array([1e-3, -1e-5, 1e-7, 1e-9])
    old = 0.0 if step == 1 else 0.3
    return {"vector": np.zeros(4), "gradient": g, "moments": Moments(old * g, old * g * g), "step": step, "lr": 1e-3,
            "beta1": 0.9, "beta2": 0.999}  # fmt: skip


@convention("decay alone", "the decay may be λ p, not multiplied by the learning rate")
def _decay_alone(op: Subject) -> Switch | None:
    """p - λ p, as Loshchilov and Hutter (2019) write it, where the library and torch have p - lr λ p."""
    says = "the decay is not multiplied by the learning rate"
    return _where_it_agrees(op, Rescaled(says, "weight_decay", lambda call: call.get("lr", 1e-3)), _huge)


def _huge(case: Case) -> Case:
    """The case with gradients so large that no eps matters."""
    m, v = case["moments"]
    return case | {"gradient": 1e10 * case["gradient"], "moments": Moments(1e10 * m, 1e20 * v)}


def _where_it_agrees(op: Subject, switch: Switch, change: Callable[[Case], Case]) -> Switch | None:
    """The switch, if the implementation is right with it and wrong without it, on cases altered by `change`."""
    decay = {"weight_decay": 0.1} if "weight_decay" in op.signature.parameters else {}
    cases = (change(op.spec.case(CaseDrawer.seeded(seed))) for seed in range(12))
    return helps(op, switch, "oracle", (op.fit(case | decay) for case in cases))
