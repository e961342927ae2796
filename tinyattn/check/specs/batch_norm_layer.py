"""Batch normalisation as a layer: training updates running statistics, and evaluation uses them."""

from typing import Any

import numpy as np

from .. import adapters, oracles
from ..property import Violation, close, demand, same_bits
from ..subject import CannotRunError, Subject
from .builder import CaseDrawer, SpecBuilder

states = SpecBuilder("batch_norm_layer")
WITHIN = 1e-4  # the tolerance for numbers of size 1: eps is small beside variances of 1e4, and a layer may be float32


def case(draw: CaseDrawer) -> dict[str, Any]:
    rows, d = draw.size(3, 8), draw.size(1, 5)
    centre, spread = draw.rng.uniform(-3, 3, (4, 1, d)), draw.rng.uniform(1, 3, (4, 1, d))
    return {"batches": 100 * (centre + spread * draw.rng.standard_normal((4, rows, d)))}


@states("rounding", "in training a batch is centred and scaled by its mean and biased variance alone, whatever came before",
        "oracle", hint="Are the running statistics used in training? Over which axis is the mean?")
def training(op: Subject, batches: np.ndarray) -> None:
    results, _ = _trained(op, batches)
    for x, y in zip(batches, results, strict=True):
        one = np.ones(x.shape[1])
        expected = oracles.batch_norm(x, one, 0 * one, 0.0)[0]
        close(y, expected, _size(expected), "y")


states.law("rows_alone", "rounding", "in evaluation a row has the same result alone, and in any batch", lambda op, c: (
            (_evaluated(op, c.batches[0][i : i + 1], state), y[i : i + 1], _size(y), f"of row {i} alone, y")
            for _, state in [_trained(op, c.batches)] for y in [_evaluated(op, c.batches[0], state)]
            for i in range(len(y))
        ), hint="Is anything computed from the batch?", gravity="leak")


@states("exact", "evaluation changes nothing: equal calls have equal results, and training goes on as if there had been none",
        hint="Are the running statistics updated in training alone?")
def evaluation_keeps(op: Subject, batches: np.ndarray) -> None:
    _, state = _trained(op, batches[:2])
    y = _evaluated(op, batches[0], state)
    _evaluated(op, batches[3], state)
    same_bits(_evaluated(op, batches[0], state), y, "an equal call's y", 1.0)
    _, state = _train(op, batches[2], state)
    other, expected = _evaluated(op, batches[0], state), _evaluated(op, batches[0], _trained(op, batches[:3])[1])
    same_bits(other, expected, "trained on after an evaluation, y", float(np.max(np.abs(expected))))


@states("rounding", "a batch moves the running mean toward the batch's mean by a share of their distance: one share for all "
        "features and steps, or 1/t at step t. The running variance, biased or not, moves by the same share",
        hint="new = (1 - m) old + m batch, with the same m for mean and variance (not the standard deviation).")
def one_share(op: Subject, batches: np.ndarray) -> None:
    shares = []
    for t in (2, 3, 4):
        share, fits = _share(op, batches, t)
        shares.append(share)
        demand(fits, f"batch {t} moves the running variance by another share than the running mean's, {share:.4g}")
    cumulative = max(abs(share - 1 / t) for t, share in enumerate(shares, 2)) < 1e-2
    close(shares, 1 / np.arange(2, 5) if cumulative else [shares[0]] * 3, 1e-2, "the share of batch 2 + ")


states.law("small_share", "rounding", "a batch's share in the running statistics is more than 0, and at most a half",
        lambda op, c: (
            0 < (share := _share(op, c.batches, 2)[0]) <= 0.51,
            f"a batch moves the running mean by {share:.3g} of its distance",
        ),
        hint="momentum is the share of the batch in PyTorch, 0.1, and that of the past in Keras, 0.99: which is yours?")


@states("exact", "layers do not share their statistics", hint="Is the state kept outside the layer, or in a default argument?")
def layers_apart(op: Subject, batches: np.ndarray) -> None:
    expected = _evaluated(op, batches[0], _trained(op, batches[:1])[1])
    _, state = _trained(op, batches[:1])
    _trained(op, batches[1:])
    same_bits(_evaluated(op, batches[0], state), expected, "after another layer was trained, y", float(np.max(np.abs(expected))))


@states("rounding", "a feature that is constant in a batch has the result 0", "extremes",
        hint="0 / √0: eps is added to the variance.")
def constant_feature(op: Subject, batches: np.ndarray) -> None:
    x = batches[0].copy()
    x[:, 0] = 300.0
    y, state = _train(op, x, None)
    close(y[:, 0], np.zeros(len(x)), 1e-2, "y of the constant feature, row ")
    demand(np.all(np.isfinite(_evaluated(op, x, state))), "a result of evaluation is not finite")


def _share(op: Subject, batches: np.ndarray, t: int) -> tuple[float, bool]:
    """-> the share of its distance by which batch t moves the running mean, and whether the variance's is the same."""
    (mean, var), (new_mean, new_var) = (_running(op, _trained(op, batches[:n])[1], batches) for n in (t - 1, t))
    x = batches[t - 1]
    far = np.abs(x.mean(axis=0) - mean)
    shares = (new_mean - mean) / (x.mean(axis=0) - mean)
    share = float(shares[np.argmax(far)])
    close(new_mean, mean + share * (x.mean(axis=0) - mean), 100 * WITHIN * np.max(far), f"after batch {t}, the running mean of feature ")
    moved = [var + share * (x.var(axis=0, ddof=ddof) - var) for ddof in (0, 1)]
    return share, any(np.allclose(new_var, expected, rtol=100 * WITHIN) for expected in moved)


def _running(op: Subject, state: Any, batches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The running mean and variance, from two rows in evaluation: y = (x - mean) / √var is a line."""
    d, far = batches.shape[-1], 1000.0
    y = np.asarray(_evaluated(op, np.stack([np.full(d, -far), np.full(d, far)]), state), float)
    slope = (y[1] - y[0]) / (2 * far)
    demand(np.all(slope > 0), "in evaluation, y does not grow with x")
    return far - y[1] / slope, 1 / slope**2


def _train(op: Subject, x: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
    returned = op.outputs(x.copy(), state)[0:2]
    if returned[1] is None:
        raise CannotRunError("train did not return two things, y and the state: train(x, state) -> y, state")
    return _array(returned[0], x, "train"), returned[1]


def _trained(op: Subject, batches: np.ndarray) -> tuple[list[np.ndarray], Any]:
    """A fresh layer, trained on each batch. -> the results, the state."""
    state, results = None, []
    for x in batches:
        y, state = _train(op, x, state)
        results.append(y)
    return results, state


def _evaluated(op: Subject, x: np.ndarray, state: Any) -> np.ndarray:
    if "evaluate" in op.lacks:
        raise CannotRunError("it has no `evaluate`: evaluate(x, state) -> y")
    return _array(op.other("evaluate")(x.copy(), state), x, "evaluate")


def _array(y: Any, x: np.ndarray, name: str) -> np.ndarray:
    y = np.array(y)
    if y.shape != x.shape:
        raise Violation(f"{name} returned y of the wrong shape", y.shape, x.shape, sort="shape")
    return y


def _size(y: np.ndarray) -> float:
    return WITHIN * max(1.0, float(np.max(np.abs(y))))


SPEC = states.spec(
    "in training y = (x - mean) / √(var + eps) of the batch, and running = (1 - m) running + m batch, for mean and var; in "
    "evaluation y = (x - running mean) / √(running var + eps)",
    "train(x, state) -> y, state: x (N, d) float64, N of 3 or more; state None makes a fresh layer, whose gain is 1 and "
    "shift 0; the state of one call, which may be the layer itself, is passed to the next",
    "evaluate(x, state) -> y: of any rows, also one",
    "the running variance is the biased or the unbiased one, eps at most 1e-3, m constant or 1/t; where the running "
    "statistics begin is free",
    function="train", ours=adapters.BatchNorm, case=case, outputs=("y", "state"), others=("evaluate",), common=False,
)
