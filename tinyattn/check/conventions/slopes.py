"""Gradients where a function has a kink, and those of a padding row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..subject import Subject
from ..switch import Case, Switch
from .convention import convention


@dataclass(frozen=True)
class OtherGradient(Switch):
    """A gradient that differs if any entry of `where(case)` is True; such calls are left out."""

    where: Callable[[Case], Any]

    def has_gradient(self, case: Case) -> bool:
        return bool(np.any(self.where(case)))


RELU_SLOPE = "the gradient of relu at 0 is {:g}, not 0"


@convention("kink", "the gradient of relu at 0 may be any from 0 to 1")
def _kink(op: Subject) -> Switch | None:
    x = np.array([-1.0, 0.0, 1.0])
    dx = op.gradients({"x": x}, np.ones(3))["x"]
    if dx.shape == (3,) and dx[0] == 0 and 0 < dx[1] <= 1 and dx[2] == 1:
        return OtherGradient(RELU_SLOPE.format(dx[1]), lambda case: case["x"] == 0)
    return None


@convention("inner kink", "the gradient of relu at 0 may be any from 0 to 1")
def _inner_kink(op: Subject) -> Switch | None:
    """The slope of relu in a feed-forward network, from one hidden unit that is exactly 0."""
    one = np.ones((1, 1))
    case = {"x": one, "W_1": one, "b_1": -np.ones(1), "W_2": one, "b_2": np.zeros(1)}
    slope = float(np.ravel(op.gradients(case, one)["x"])[0])
    if 0 < slope <= 1:
        return OtherGradient(RELU_SLOPE.format(slope), lambda case: case["x"] @ case["W_1"] + case["b_1"] == 0)
    return None


@convention("hinge", "the slope of the hinge at 0 may be any from 0 to 1")
def _hinge(op: Subject) -> Switch | None:
    """The slope of the hinge of `distance_bpr` where both distances are equal."""
    case = {"positive": np.array([1.0, 2.0, 0.0]), "negative": np.ones(3), "between": np.ones(3), "pvn_weight": 3.0}
    slopes = -np.asarray(op.gradients(case, 1.0)["between"])
    if slopes.shape == (3,) and 0 < slopes[0] <= 1 and np.allclose(slopes[1:], (1, 0)):
        says = f"the slope of the hinge at 0 is {slopes[0]:g}, not 0"
        return OtherGradient(says, lambda case: np.equal(case["positive"], case["between"]))
    return None


@convention("padding", "one row may be padding, and have no gradient")
def _padding_row(op: Subject) -> Switch | None:
    E = np.arange(12.0).reshape(4, 3) + 1
    dE = op.gradients({"ids": np.arange(4), "E": E}, np.ones((4, 3)))["E"]
    padding = [row for row in range(4) if not np.any(dE[row])]
    if len(padding) == 1 and np.all(np.delete(dE, padding, axis=0) == 1):
        says = f"row {padding[0]} is padding, and has no gradient"
        return OtherGradient(says, lambda case: np.asarray(case["ids"]) == padding[0])
    return None
