"""Softmax, with a mask."""

from typing import Any

import numpy as np

from .. import oracles
from ..families import softmax_like
from ..property import close, demand, largest, rounding, same_bits, waves
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("softmax")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.tokens()
    m = draw.size_like(n)
    s = draw.array(*draw.lead, n, m, size=3)
    shape = draw.choose(((n, m), s.shape, (1, m), (m,), (n, 1), (*draw.lead[:-1], *(1,) * len(draw.lead[-1:]), n, m)))
    return {"s": s, "mask": draw.mask(*shape) if draw.flag() else None}


def special_cases() -> list[dict[str, Any]]:
    """Huge logits, rows far apart, a fully masked row, all logits far below zero."""
    s = np.array([[1e4, 0.0, -1e4], [-3e4, -3e4 - 1, -3e4 - 2], [1.0, 2.0, 3.0]])
    half = np.array([[True, True, False], [False, False, False], [True, False, True]])
    far, first = np.full((2, 3), -(2.0**100)), np.array([True, True, False])
    mild = np.array([[-40.0, -41.0, 5.0], [-25.0, -28.0, 2.0], [0.5, 0.0, -0.5]])
    pairs = ((s, None), (s[2:] * np.ones((3, 1)), half), (mild, first), (far, first), (s.astype(np.float32), half))
    return [{"s": s, "mask": mask} for s, mask in pairs]


def _allowed(s: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    return np.broadcast_to(True if mask is None else mask, s.shape)


softmax_like(states, lambda case: _allowed(**case))


@states("rounding", "a mask of any shape gives the same weights as when broadcast to the shape of s",
        hint="Which axes does a mask of shape (m,), (B, 1, m) or (n, 1) stand for?")
def mask_shapes(op: Subject, s: np.ndarray, mask: np.ndarray | None) -> None:
    n, m = s.shape[-2:]
    both = np.stack([s.reshape(-1, n, m)[0], 1 - s.reshape(-1, n, m)[0]])
    rng = np.random.default_rng(n)
    for shape in ((m,), (n, 1), (1, 1), (n, m), (2, 1, 1), (2, 1, m), (2, n, 1), (1, n, m), (2, n, m)):
        part = rng.random(shape) < 0.6
        full = np.broadcast_to(part, both.shape).copy()
        close(op(both, part), op(both, full), rounding(s.dtype, m, 1.0), f"with a mask {shape}, p")


@states("exact", "of two allowed logits the larger never has the smaller weight", hint="Which axis is a row?")
def monotone(op: Subject, s: np.ndarray, mask: np.ndarray | None) -> None:
    p = np.where(_allowed(s, mask), op(s, mask), -1.0)
    order = np.argsort(np.where(_allowed(s, mask), s, -np.inf), axis=-1, kind="stable")
    steps = np.diff(np.take_along_axis(p, order, axis=-1), axis=-1)
    # where exponentials are computed in blocks, weights of equal logits may differ in their last bits
    demand(np.all(steps >= -rounding(s.dtype, 1, 1.0)), "a larger logit has less weight")


states.law("gradient_rows_sum_to_zero", "rounding",
        "each row of the gradient sums to 0, and is exactly 0 where the mask forbids", lambda op, c: [
            (np.sum(ds := op.gradients(c, waves(c.s))["s"], axis=-1), np.zeros(c.s.shape[:-1]),
             rounding(c.s.dtype, c.s.shape[-1], 2.0), "the sum of ds, row "),
            (np.all(ds[~_allowed(**c)] == 0), "a logit that the mask forbids has a gradient"),
        ], "gradients",
        hint="Raising all logits of a row together changes nothing, so the row's gradient must sum to 0.")


@states("rounding", "its Jacobian diag(p) - p pᵀ is symmetric, so backward and forward derivatives agree", "gradients",
        hint="p(1 - p) is only the diagonal of the Jacobian.")
def symmetric_jacobian(op: Subject, s: np.ndarray, mask: np.ndarray | None) -> None:
    m = s.shape[-1]
    row = np.repeat(s.reshape(-1, m)[:1], m, axis=0)
    p = np.asarray(oracles.softmax(row.astype(np.float64)))[0]
    jacobian = op.gradients({"s": row, "mask": None}, np.eye(m, dtype=s.dtype))["s"]
    close(jacobian, np.diag(p) - np.outer(p, p), 10 * rounding(s.dtype, m, 1.0), "the Jacobian's entry ")


@states("exact", "a row with nothing allowed is all zeros, and so is its gradient", "extremes",
        hint="Compute softmax of equal numbers, however negative. And -inf minus -inf?")
def empty_row(op: Subject, s: np.ndarray, mask: np.ndarray | None) -> None:
    nothing = np.zeros((1, s.shape[-1]), dtype=bool)
    same_bits(op(s, nothing), np.zeros_like(s), "the weight ")
    all_but_first = np.broadcast_to(np.arange(s.shape[-2])[:, None] > 0, s.shape[-2:]).copy()
    demand(np.all(op(s, all_but_first)[..., 0, :] == 0), "with only its first row empty, that row has weight")
    if op.has_backward:
        ds = op.gradients({"s": s, "mask": nothing}, np.ones_like(s))["s"]
        demand(np.all(ds == 0), "a row with nothing allowed has a gradient")


states.law("large_logits", "exact", "logits of ±10,000 are safe, and a lead that large takes all the weight",
        lambda op, c: [  # exp(s - log Σ exp(s)) has the logits' rounding error
            (np.all((p := op(c.s))[c.s < 0] == 0), "a logit 20,000 below the largest has weight"),
            (np.sum(p, axis=-1), np.ones(p.shape[:-1]), rounding(c.s.dtype, c.s.shape[-1], 1e4), "the sum of row "),
        ], "extremes",
        of=lambda c: c(s=np.where(c.s == np.max(c.s, axis=-1, keepdims=True), 1e4, -1e4).astype(c.s.dtype)),
        hint="exp(1000) overflows: only differences to the row's largest logit may enter the exponential.")
states.law("rows_far_apart", "rounding", "each row is safe by itself: one row's logits may lie 30,000 below another's",
        lambda op, c: (
            (op(c.s + level, c.mask), oracles.softmax(c.s.astype(float), c.mask),
             rounding(c.s.dtype, c.s.shape[-1], largest(level)), "the weight ")
            for level in [c.s.dtype.type(-32768) * np.arange(c.s.shape[-2], dtype=c.s.dtype)[:, None]]
        # whole numbers are moved without rounding
        ), "extremes", of=lambda c: c(s=np.round(c.s)),
        hint="Subtract each row's maximum: with one maximum for all, some rows underflow entirely.")


@states("exact", "an allowed logit as low as -2¹⁰⁰ leaves nothing for the masked ones", "extremes",
        hint="Over which logits does the maximum run? And a fill of -1e9 beats a logit of -1e30; -inf does not.")
def far_below(op: Subject, s: np.ndarray, mask: np.ndarray | None) -> None:
    allowed = np.arange(s.shape[-1]) == s.shape[-1] // 2
    p = op(np.where(allowed, -(2.0**100), 100.0 * np.ones_like(s)).astype(s.dtype), allowed)
    close(p, np.broadcast_to(allowed.astype(float), s.shape), rounding(s.dtype, s.shape[-1], 1.0), "the weight ")
    demand(np.all(p[..., ~allowed] == 0), "an entry that the mask forbids has weight")


SPEC = states.spec(
    "p_ij = exp(s_ij) / Σ_k exp(s_ik) over the entries of a row that the mask allows",
    "softmax(s, mask=None): s (..., m); the mask is boolean, True = may look, of any shape that broadcasts to s",
    "a row with nothing allowed gives zeros, and passes no gradient on",
    "logits of any finite size",
    case=case, outputs=("p",), wrt=("s",), scale=lambda case: 10.0, special_cases=special_cases, choices=("single",),
)
