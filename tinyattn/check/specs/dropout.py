"""Dropout with a fixed mask, and the drawing of masks."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..families import random
from ..observing import observe_call
from ..property import Violation, close, demand, rounding
from ..spec import Spec
from ..subject import MissingError, Subject
from .builder import Call, CaseDrawer, SpecBuilder

states = SpecBuilder("dropout")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, m = draw.size(), draw.size()
    rate = draw.choose((0.5, 0.25, 0.1, 0.8, 0.0))
    keep = draw.rng.random(draw.choose(((*draw.lead, n, m), (n, m), (m,), (n, 1)))) >= max(rate, 0.1)
    return {"x": draw.array(*draw.lead, n, m), "keep": keep, "rate": rate}


states.law("evaluation", "exact", "with keep None, in evaluation, y is x, whatever the rate",
        lambda op, c: (op(**c(keep=None)), c.x),
        hint="Predict twice: inverted dropout has done its scaling in training.")
states.law("evaluation_gradient", "exact", "with keep None the gradient passes unchanged",
        lambda op, c: (op.gradients(c(keep=None), np.cos(c.x))["x"], np.cos(c.x)), "gradients", what="dx",
        hint="y = x: differentiate it.")
states.law("scale_and_support", "rounding", "kept entries are x / (1 - rate), dropped ones 0", lambda op, c: [  # the rate only sets the divisor
            *_scaled(op(**c), c, "y"), *_scaled(op(**c(rate=0.0)), c(rate=0.0), "at rate 0, y"),
        ], hint="Average over many masks: do you get x?")
states.law("gradient_scale_and_support", "rounding",
        "the gradient passes through the mask of the forward, divided by 1 - rate",
        lambda op, c: _scaled(op.gradients(c, np.cos(c.x))["x"], c(x=np.cos(c.x)), "dx"), "gradients",
        hint="Gradient flows through the entries that this forward kept: y = x · keep / (1 - rate).")


@states("statistical", "over many masks the mean of y is x", hint="What fraction survives, times which factor?")
def mean_kept(op: Subject, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    n = 20_000
    mask = np.random.default_rng(7).random(n) >= rate
    close(np.mean(op(np.ones(n), mask, rate)), 1.0, 5 * np.sqrt(rate / (1 - rate) / n) + 1e-12, "the mean of ones")


@states("statistical", "keep_mask is boolean and drops a fraction of `rate`", hint="What fraction is False?")
def rate_of_mask(op: Subject, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    n = 20_000
    mask = np.asarray(op.other("keep_mask")(np.random.default_rng(7), (n,), rate))
    demand(mask.dtype == bool and mask.shape == (n,), f"the mask is {mask.dtype} {mask.shape}, expected bool {(n,)}")
    close(1 - np.mean(mask), rate, 5 * np.sqrt(rate * (1 - rate) / n) + 1e-12, "the fraction dropped")


random(states, lambda op, rng, shape, rate: op.other("keep_mask")(rng, shape, rate or 0.5))


@states("statistical", "entries of a mask are drawn independently", hint="One draw for each entry, none of them shared.")
def independent(op: Subject, x: np.ndarray, keep: np.ndarray, rate: float) -> None:
    rng, rate = np.random.default_rng(11), rate or 0.5
    mask = np.asarray(op.other("keep_mask")(rng, (150, 150), rate)).astype(float)
    for axis in (0, 1):
        ahead, behind = np.delete(mask, 0, axis), np.delete(mask, -1, axis)
        correlation = np.mean((ahead - 1 + rate) * (behind - 1 + rate)) / (rate * (1 - rate))
        close(correlation, 0.0, 5 / 150, "the correlation of neighbours")
    variance = np.var(np.sum(mask, axis=-1)) / (150 * rate * (1 - rate))     # 1, with a deviation of √(2 / 150)
    close(variance, 1.0, 5 * np.sqrt(2 / 150), "the variance of the rows' counts, divided by that of independent draws")
    whole = [np.sum(op.other("keep_mask")(rng, (7, 9), rate)) for _ in range(60)]
    demand(len(set(map(int, whole))) > 1, f"sixty masks of 63 entries all keep {int(whole[0])}")


def _scaled(result: Any, c: Call, what: str) -> Iterator[Any]:
    """The sides of a law: kept entries are x / (1 - rate), dropped ones 0."""
    keep = np.broadcast_to(c.keep, c.x.shape)
    yield np.shape(result) == c.x.shape, f"{what} has shape {np.shape(result)}, expected {c.x.shape}"
    yield np.all(result[~keep] == 0), f"a dropped entry of {what} is not 0"
    expected = c.x[keep].astype(float) / (1 - c.rate)
    yield result[keep], expected, rounding(c.x.dtype, 1, 30.0), f"of the kept entries of {what}, "


def observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """`observe_call`, and for a drawn mask the fraction that it drops, and which entries are shared."""
    seen = observe_call(op, spec, case)
    try:
        draw = op.other("keep_mask")
        masks = [np.asarray(draw(np.random.default_rng(seed), (6, 5, 400), 0.2)) for seed in (1, 1, 2)]
        mask, dropped = masks[0], 1 - float(np.mean(masks[0]))
        named = {"the rate": 0.2, "what should be kept": 0.8}
        seen["mask drops"] = next((n for n, value in named.items() if abs(dropped - value) < 0.02), f"{dropped:.1f}")
        seen["mask dtype"] = str(mask.dtype)
        seen["mask is its seed's"] = np.array_equal(masks[0], masks[1])
        seen["mask ignores its seed"] = np.array_equal(masks[0], masks[2])
        seen["mask shared by the batch"] = bool(np.all(mask == mask[:1]))
        seen["mask shared by rows"] = bool(np.all(mask == mask[:, :, :1]))
        seen["mask keeps equal numbers"] = len(set(np.sum(mask, axis=-1).reshape(-1).tolist())) == 1
    except (MissingError, Violation):
        pass
    return seen


SPEC = states.spec(
    "y = x · keep / (1 - rate), and x itself where keep is None",
    "dropout(x, keep, rate): x (...), keep boolean, True = kept, of any shape that broadcasts to x, or None",
    "keep_mask(rng, shape, rate) -> boolean, drawn from the generator rng; without it its properties are skipped",
    case=case, wrt=("x",), others=("keep_mask",), observe=observe,
    special_cases=lambda: [
        {"x": np.array([[1.0, -2.0], [3.0, 0.5]]), "keep": None, "rate": 0.25},
        {"x": np.array([4.0, -1.0, 2.0]), "keep": None, "rate": 0.5},
        {"x": np.array([[1.0, -2.0], [3.0, 0.5]]), "keep": np.array([[True, True], [False, True]]), "rate": 0.25},
    ],
    choices=("scale",),
)
