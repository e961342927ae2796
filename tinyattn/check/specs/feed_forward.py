"""The position-wise feed-forward network with a ReLU."""

from typing import Any

import numpy as np

from ..families import tokens_apart
from ..property import close, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("feed_forward")
tokens_apart(states, name="positions_apart")


def case(draw: CaseDrawer) -> dict[str, Any]:
    D = draw.size()
    H = draw.size_like(D)
    x = draw.array(*draw.lead, D) if draw.choose((False, False, True)) else draw.array(*draw.lead, draw.size_like(D), D)
    W_1, W_2 = draw.array(D, H), draw.array(H, D)
    return {"x": x, "W_1": W_1, "b_1": off_the_kink(draw, x @ W_1), "W_2": W_2, "b_2": draw.array(D)}


def off_the_kink(draw: CaseDrawer, u: np.ndarray) -> np.ndarray:
    """A bias that keeps every entry of u + b at least 0.01 away from 0, where ReLU has no derivative."""
    flat = u.reshape(-1, u.shape[-1]).astype(float)
    tries = np.round(draw.rng.uniform(-2, 2, (200, u.shape[-1])), 3)
    gaps = np.min(np.abs(flat[None] + tries[:, None]), axis=1, initial=9)  # (200, H)
    return np.asarray(tries[np.argmax(np.minimum(gaps, 0.05), axis=0), np.arange(u.shape[-1])], draw.dtype)


@states("rounding", "doubling x, b_1 and b_2 doubles the output: ReLU bends at 0 and nowhere else",
        hint="Is there another activation, or an extra bias?")
def homogeneous(op: Subject, **case: Any) -> None:
    twice = {name: 2 * case[name] for name in ("x", "b_1", "b_2")}
    close(op(**case | twice), 2 * np.asarray(op(**case)), 2 * _tolerance(case), "y")


@states("rounding", "where every hidden unit is on, y is x W_1 W_2 + b_1 W_2 + b_2", hint="Where is b_1 added?")
def all_on(op: Subject, **case: Any) -> None:
    b_1 = np.full_like(case["b_1"], 2 * largest(case["x"] @ case["W_1"]) + 1)
    x, W_1, W_2, b_2 = (case[name].astype(float) for name in ("x", "W_1", "W_2", "b_2"))
    close(op(**case | {"b_1": b_1}), (x @ W_1 + b_1) @ W_2 + b_2, 4 * _tolerance(case), "y")


@states("rounding", "where every hidden unit is off, the output is b_2", hint="Is b_2 added, and after everything else?")
def all_off(op: Subject, **case: Any) -> None:
    b_1 = -np.full_like(case["b_1"], 2 * largest(case["x"] @ case["W_1"]) + 1)
    close(op(**case | {"b_1": b_1}), np.broadcast_to(case["b_2"], case["x"].shape), 0, "y")


def scale(case: dict[str, Any]) -> float:
    D, H = case["W_1"].shape
    return (largest(case["x"]) * largest(case["W_1"]) * D + largest(case["b_1"])) * largest(case["W_2"]) * H


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["x"].dtype, case["x"].size, scale(case))


SPEC = states.spec(
    "y = relu(x W_1 + b_1) W_2 + b_2",
    "feed_forward(x, W_1, b_1, W_2, b_2): x (..., D), W_1 (D, H), b_1 (H,), W_2 (H, D), b_2 (D,)",
    case=case,
    wrt=("x", "W_1", "b_1", "W_2", "b_2"),
    scale=scale,
    choices=("inner kink",),
)
