"""Attention over distributions: means with the weights, covariances with their squares."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import Case
from ..property import close, demand, largest
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("gaussian_attention")


def case(draw: CaseDrawer) -> Case:
    n, e = draw.tokens(), draw.size()
    m, f = draw.size_like(n), draw.size_like(e)
    s, v_mean = draw.array(*draw.lead, n, m, size=2), draw.array(*draw.lead, m, e)
    v_cov = (0.1 + np.abs(draw.array(*draw.lead, m, f))).astype(draw.dtype)
    shape = draw.choose(((n, m), s.shape, (m,)))
    return {"s": s, "v_mean": v_mean, "v_cov": v_cov, "mask": draw.mask(*shape) if draw.flag() else None}


def _split(case: Case, out: Any) -> tuple[Any, Any]:
    e = case["v_mean"].shape[-1]
    return out[..., :e], out[..., e:]


def _seen(case: Case) -> np.ndarray:
    return np.broadcast_to(True if case["mask"] is None else case["mask"], case["s"].shape)


@states("rounding", "means are averaged as in attention: means of 1 stay 1, and are 0 for a query that sees nothing",
        hint="The weights of a query sum to 1.")  # fmt: skip
def equal_means(op: Subject, **case: Any) -> None:
    mean, _ = _split(case, op(**case | {"v_mean": np.ones_like(case["v_mean"])}))
    some = np.any(_seen(case), axis=-1)[..., None].astype(float)
    close(mean, np.broadcast_to(some, mean.shape), tolerance(op.spec, case), "the mean ")


@states("rounding", "the mean of k keys with equal weights and equal variances has 1 / k of their variance",
        hint="Variances are weighted with the squares of the weights.")  # fmt: skip
def surer_together(op: Subject, **case: Any) -> None:
    alike = {"s": np.zeros_like(case["s"]), "v_cov": np.ones_like(case["v_cov"])}
    _, cov = _split(case, op(**case | alike))
    k = np.sum(_seen(case), axis=-1)[..., None]
    close(cov, np.broadcast_to(np.where(k > 0, 1 / np.maximum(k, 1), 0), cov.shape), tolerance(op.spec, case), "the variance ")


@states("rounding", "a logit 10,000 above the others selects one key's distribution", "extremes", hint="1² is 1.")
def one_key(op: Subject, **case: Any) -> None:
    far = np.zeros_like(case["s"])
    far[..., -1] = 1e4
    mean, cov = _split(case, op(**case | {"s": far, "mask": None}))
    for got, v in ((mean, case["v_mean"]), (cov, case["v_cov"])):
        close(got, np.broadcast_to(v[..., -1:, :], got.shape), tolerance(op.spec, case), "the distribution ")


@states("exact", "masked keys move nothing, and get no gradient", hint="Are masked weights exactly 0?", gravity="leak")
def hidden(op: Subject, **case: Any) -> None:
    mask = np.ones(case["s"].shape[-2:], bool)
    mask[:, -1] = False
    case |= {"mask": mask}
    out, moved = op(**case), {name: case[name].copy() for name in ("s", "v_mean", "v_cov")}
    moved["s"][..., -1] += 5
    for name in ("v_mean", "v_cov"):
        moved[name][..., -1, :] += 5
    close(op(**case | moved), out, 0, "out")
    if "gaussian_attention_backward" not in op.lacks:
        d = op.gradients(case, np.ones_like(out))
        demand(not np.any(d["s"][..., -1]), "a logit that the mask forbids has a gradient")
        demand(not np.any(d["v_mean"][..., -1, :]) and not np.any(d["v_cov"][..., -1, :]), "a hidden value has a gradient")


SPEC = states.spec(
    "out = [p v_mean, (p ⊙ p) v_cov], p = softmax(s, mask)",
    "gaussian_attention(s, v_mean, v_cov, mask=None) -> out, weights: s (..., n, m), v_mean (..., m, e), v_cov "
    "(..., m, f), 0 or more, out (..., n, e + f), means first; the mask is boolean, True = may look, onto (..., n, m)",
    "a query that may look at nothing gets zeros, and passes no gradient on",
    case=case,
    outputs=("out", "weights"),
    wrt=("s", "v_mean", "v_cov"),
    scale=lambda case: 4 * largest(case["s"]) * largest(case["v_mean"], case["v_cov"]),
)
