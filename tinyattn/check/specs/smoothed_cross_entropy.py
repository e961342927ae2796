"""Cross-entropy with label smoothing."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..property import close, largest, rounding
from . import cross_entropy
from .builder import CaseDrawer, SpecBuilder, Subject
from .cross_entropy import tolerance_of

states = SpecBuilder("smoothed_cross_entropy")


def case(draw: CaseDrawer) -> dict[str, Any]:
    return cross_entropy.case(draw) | {"smoothing": draw.choose((0.1, 0.5, 0.0, 1.0))}


def special_cases() -> list[dict[str, Any]]:
    pairs = zip(cross_entropy.special_cases(), (0.1, 0.2, 0.5, 0.1, 0.3, 0.9, 0.1), strict=True)
    return [case | {"smoothing": smoothing} for case, smoothing in pairs]


@states("rounding", "without smoothing it is cross-entropy", hint="At ε = 0 the target has probability 1.")
def no_smoothing(op: Subject, smoothing: float = 0.1, **case: Any) -> None:
    close(op(**case, smoothing=0.0), oracles.cross_entropy(**case), tolerance_of(case["logits"]), "the loss")


@states("rounding", "with all logits equal the loss is ln V, whatever ε is", hint="The probabilities of q sum to 1.")
def uniform(op: Subject, smoothing: float = 0.1, **case: Any) -> None:
    loss = op(**case | {"logits": np.full_like(case["logits"], 3.0)}, smoothing=smoothing)
    close(loss, math.log(case["logits"].shape[-1]), rounding(case["logits"].dtype, case["logits"].size, 10.0), "the loss")


@states("rounding", "with ε = 1 the target does not matter", hint="ε is spread over all classes, also the target.")
def all_smoothing(op: Subject, smoothing: float = 0.1, **case: Any) -> None:
    other = case | {"targets": (case["targets"] + 1) % case["logits"].shape[-1]}
    expected = op(**case, smoothing=1.0)
    close(op(**other, smoothing=1.0), expected, tolerance_of(case["logits"]), "the loss of other targets")


@states("rounding", "where the softmax is q, the gradient is 0 and the loss is the entropy of q", "gradients",
        hint="softmax minus q: which logits have the softmax q?")
def least(op: Subject, smoothing: float = 0.1, **case: Any) -> None:
    V, dtype = case["logits"].shape[-1], case["logits"].dtype
    q = np.full(case["logits"].shape, 0.3 / V)
    np.put_along_axis(q, case["targets"][..., None], 0.7 + 0.3 / V, axis=-1)
    case |= {"logits": np.log(q).astype(dtype), "smoothing": 0.3, "weights": None}
    atol = 10 * tolerance_of(case["logits"])
    close(op(**case), -float(np.mean(np.sum(q * np.log(q), axis=-1))), atol, "the loss")
    close(op.gradients(case, 1.0)["logits"], np.zeros(q.shape), atol, "the gradient")


SPEC = states.spec(
    "loss = Σ w nll / Σ w, with nll = -Σⱼ qⱼ log softmax(logits)ⱼ and q = (1 - ε) onehot(target) + ε / V",
    "smoothed_cross_entropy(logits, targets, weights=None, smoothing=0.1): logits (..., V), targets (...) integers, "
    "weights (...) or None for all 1, not all 0; ε = smoothing in 0..1 is spread over all V classes",
    "the backward's upstream gradient is a number: smoothed_cross_entropy_backward(dloss, logits, targets, "
    "weights=None, smoothing=0.1)",
    "logits of any finite size",
    case=case,
    outputs=("loss",),
    wrt=("logits",),
    scale=lambda case: 4 * largest(case["logits"]),
    special_cases=special_cases,
    choices=("smoothing",),
)
