"""Binary cross-entropy on logits."""

from typing import Any

import numpy as np

from ..property import close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("bce")


def case(draw: CaseDrawer) -> dict[str, Any]:
    shape = (*draw.lead, draw.size())
    targets = draw.rng.choice([0.0, 1.0, 0.25], shape).astype(draw.dtype)
    return {"z": draw.array(*shape, size=3), "targets": targets, "weights": draw.weights(shape)}


def special_cases() -> list[dict[str, Any]]:
    z, t = np.array([0.5, -2.0, 3.0]), np.array([1.0, 0.0, 0.25])
    weighted = {"z": z, "targets": t, "weights": np.array([2.0, 0.0, 0.5])}
    far = ((1000 * z, t), (50 * z, 1 - t), (-1000 * z, t))
    plain, *others = [{"z": z, "targets": t, "weights": None} for z, t in ((z, t), *far)]
    return [plain, weighted, *others]


@states("rounding", "swapping the labels equals negating the logits", hint="σ(-z) = 1 - σ(z).")
def symmetry(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    close(op(-z, 1 - targets, weights), op(z, targets, weights), _tolerance(z), "the loss")


@states("rounding", "label 1 instead of 0 lowers the loss by the mean logit", hint="log σ(z) - log σ(-z) = z.")
def difference(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    got = op(z, np.ones_like(z), weights) - op(z, np.zeros_like(z), weights)
    w = np.ones(z.shape) if weights is None else weights.astype(float)
    close(got, -np.sum(w * z) / np.sum(w), _tolerance(z), "the difference")


@states("rounding", "multiplying all weights by a constant changes nothing, and positions of weight 0 do not count",
        hint="The loss is Σ w loss / Σ w: what do you divide by?")
def weights_are_shares(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    w = np.ones(z.shape, z.dtype) if weights is None else weights
    for size in (4, 1 / 64):
        close(op(z, targets, (w * size).astype(w.dtype)), op(z, targets, w), _tolerance(z), "the loss")
    more = [np.concatenate(pair) for pair in ((z, z + 1), (targets, targets), (w, np.zeros_like(w)))]
    close(op(*more), op(z, targets, w), _tolerance(z), "with positions of weight 0 added, the loss")


@states("rounding", "logits of ±10,000 cost 0 on the right side, and 10,000 on the wrong one", "extremes",
        hint="log σ(z) underflows; max(z, 0) - z t + log(1 + exp(-|z|)) does not.")
def large_logits(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    far, labels = np.array([1e4, -1e4, 1e4, -1e4], z.dtype), np.array([1, 0, 0, 1], z.dtype)
    close(op(far, labels), 5000.0, rounding(z.dtype, 4, 1e4), "the loss")
    close(op(far[:2], labels[:2]), 0.0, 1e-12, "the loss on the right side")


@states("rounding", "a logit of -60 under label 1 costs 60, and one of 20 under label 0 costs 20", "extremes",
        hint="Is there an eps inside a logarithm?")
def no_cap(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    one = np.array([1.0], z.dtype)
    for gap in (20.0, 60.0):
        for logit, label in ((-gap * one, one), (gap * one, 0 * one)):
            close(op(logit, label), gap + np.log1p(np.exp(-gap)), rounding(z.dtype, 1, gap), "the loss")


@states("rounding", "far out the gradient is 0 on the right side and ±1 on the wrong one", "extremes",
        hint="σ(z) - t: compute σ so that neither end overflows.")
def large_logits_gradient(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    far, labels = np.array([1e4, -1e4, 1e4, -1e4], z.dtype), np.array([1, 0, 0, 1], z.dtype)
    dz = op.gradients({"z": far, "targets": labels, "weights": None}, 1.0)["z"]
    close(dz, np.array([0, 0, 1, -1]) / 4, rounding(z.dtype, 4, 10.0), "dz")


@states("rounding", "the gradient is the share of the weight times σ(z) - t, 0 where the weight is 0", "gradients",
        hint="Predicted minus true probability: the sigmoid's derivative has cancelled.")
def gradient_form(op: Subject, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    w = np.ones(z.shape) if weights is None else weights.astype(float)
    dz = op.gradients({"z": z, "targets": targets, "weights": weights}, 3.0)["z"]
    expected = 3 * w / np.sum(w) * (1 / (1 + np.exp(-z.astype(float))) - targets)
    close(dz, expected, 10 * rounding(z.dtype, z.size, 3.0), "dz")
    if weights is not None:
        demand(np.all(dz[weights == 0] == 0), "a position of weight 0 has a gradient")


def _tolerance(z: np.ndarray) -> float:
    return rounding(z.dtype, z.size, 10 * largest(z))


SPEC = states.spec(
    "loss = Σ w l / Σ w, with l = -t log σ(z) - (1 - t) log(1 - σ(z))",
    "bce_with_logits(z, targets, weights=None): z and targets (...), targets in 0..1, weights (...) or None for all 1, "
    "not all 0",
    "the backward's upstream gradient is a number: bce_with_logits_backward(dloss, z, targets, weights=None)",
    "logits of any finite size",
    function="bce_with_logits",
    case=case,
    outputs=("loss",),
    wrt=("z",),
    scale=lambda case: 4 * largest(case["z"]),
    special_cases=special_cases,
)
