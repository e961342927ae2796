"""Additive scores and attention, and scores and attention of distributions."""

import math
from typing import Any

import numpy as np

from ..common import tolerance
from ..families import Case, causal, linear_in, onto_itself
from ..property import close, demand, largest
from .builder import CaseDrawer, SpecBuilder, Subject

additive_scores = SpecBuilder("additive_scores")
linear_in(additive_scores, "w")


def additive_scores_case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    m = draw.size_like(n)
    return {"q": draw.array(*draw.lead, n, d), "k": draw.array(*draw.lead, m, d), "w": draw.array(d)}


additive_scores.law("exchanged", "rounding", "exchanging queries and keys transposes s",
        lambda op, c: (op(**c(q=c.k, k=c.q)).swapaxes(-1, -2), op(**c)), what="s of keys and queries",
        hint="Is it q + k, or q - k?")
additive_scores.law("bounded", "rounding", "for queries and keys of any size, no score exceeds Σ |w|", lambda op, c: (
            np.all(np.abs(op(**c(q=100 * c.q, k=100 * c.k))) <= np.sum(np.abs(c.w)) + tolerance(op.spec, c)),
            "a score is larger than Σ |w|",
        ), "extremes", hint="What bounds tanh?")
additive_scores.law("pairs_apart", "rounding", "a score depends on one query and one key", lambda op, c: (
            (op(**c(q=c.q[..., i : i + 1, :].copy())), s[..., i : i + 1, :], None, f"row {i} of s")
            for s in [op(**c)] for i in range(c.q.shape[-2])
        ), hint="Which pair does s_ij belong to?", gravity="leak")

ADDITIVE_SCORES = additive_scores.spec(
    "s_ij = w · tanh(q_i + k_j)",
    "additive_scores(q, k, w) -> s: q (..., n, d), k (..., m, d), w (d,), s (..., n, m)",
    case=additive_scores_case, outputs=("s",), wrt=("q", "k", "w"),
)


additive_attention = SpecBuilder("additive_attention")
linear_in(additive_attention, "v", hint="The weights must not depend on the values.")
linear_in(additive_attention, "w", hint="The weights are no softmax: twice w is twice each weight.")
causal(additive_attention, *"qkv", of=lambda case: onto_itself(case) | {"causal": True}, hint="Where does the sum over keys end?")


def additive_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    causal, n, d = draw.choose((True, False)), draw.tokens(), draw.size()
    m = n if causal else draw.size_like(n)
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    v, w = draw.array(*draw.lead, m, draw.size_like(d)), draw.array(d)
    return {"q": q, "k": k, "v": v, "w": w, "causal": causal}


@additive_attention("rounding", "where every σ is 1, out is the sum of w times the sum of the allowed values", "extremes",
        hint="Compute σ of a large number: does anything overflow?")
def saturated(op: Subject, **case: Any) -> None:
    v, n = case["v"].astype(float), case["q"].shape[-2]
    seen = np.tri(n, dtype=bool) if case["causal"] else np.ones((n, v.shape[-2]), bool)
    out = op(**case | {"q": np.full_like(case["q"], 2e4), "k": np.full_like(case["k"], -1e4)})
    close(out, np.sum(case["w"], dtype=float) * (seen @ v), tolerance(op.spec, case), "out")


additive_attention.law("nothing", "exact", "where every σ is 0, out is 0", lambda op, c: (
            out := op(**c(q=np.full_like(c.q, -2e4), k=np.full_like(c.k, 1e4))), np.zeros(out.shape),
            tolerance(op.spec, c),
        ), "extremes", hint="Compute σ of a large negative number.")

ADDITIVE_ATTENTION = additive_attention.spec(
    "out_i = Σ_j a_ij v_j, a_ij = w · σ(q_i + k_j), no softmax; causal: over j <= i",
    "additive_attention(q, k, v, w, causal=True) -> out, weights: q (..., n, d), k (..., m, d), v (..., m, e), "
    "w (d,), out (..., n, e), weights (..., n, m), 0 where not allowed",
    case=additive_attention_case, outputs=("out", "weights"), wrt=("q", "k", "v", "w"),
)


wasserstein_scores = SpecBuilder("wasserstein_scores")


def wasserstein_scores_case(draw: CaseDrawer) -> Case:
    """Deviations from .2 up, and distances from .5 up: near 0 the root is too steep for finite differences."""
    n, d = draw.tokens(), draw.size()
    m = draw.size_like(n)
    q_mean, k_mean = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    q_dev, k_dev = ((0.2 + np.abs(draw.array(*draw.lead, rows, d))).astype(draw.dtype) for rows in (n, m))
    k_mean[..., 0] += np.asarray(largest(q_mean, k_mean) * 2 + 0.5, draw.dtype)
    return {"q_mean": q_mean, "q_dev": q_dev, "k_mean": k_mean, "k_dev": k_dev, "root": draw.flag()}


wasserstein_scores.law("symmetric", "rounding", "the distance from a to b is that from b to a",
        lambda op, c: (
            op(**c(q_mean=c.k_mean, q_dev=c.k_dev, k_mean=c.q_mean, k_dev=c.q_dev)).swapaxes(-1, -2), op(**c),
        ), what="the score ", hint="Which axis of the scores are queries?")


def _keys_equal_queries(case: Case) -> Case:
    return case | {f"k_{of}": case[f"q_{of}"].copy() for of in ("mean", "dev")}


wasserstein_scores.law("moved", "rounding", "moving all means by the same vector changes no distance, even far from 0",
        lambda op, c: (op(**c(q_mean=c.q_mean + 4096, k_mean=c.k_mean + 4096)), op(**c)), what="the score ",
        # multiples of 1/8 are moved without rounding
        of=lambda c: c(q_mean=np.round(8 * c.q_mean) / 8, k_mean=np.round(8 * c.k_mean) / 8),
        hint="|a|² - 2 a · b + |b|² of large a and b has few digits left: subtract one key first.")
wasserstein_scores.law("itself", "rounding",
        "a distribution has distance 0 from itself; rounding makes no score positive, and no root NaN", lambda op, c: [
            (np.all((s := op(**_keys_equal_queries(c))) <= 0), "a score is positive, or no number"),
            (d := np.diagonal(s, axis1=-2, axis2=-1), np.zeros(d.shape),
             tolerance(op.spec, c) ** (0.5 if c.get("root") else 1), "the score of a pair of equals"),
        ], "extremes", hint="Rounding can make a distance negative, which has no root: clip it.")
wasserstein_scores.law("triangle", "rounding", "with the root, a detour is never shorter: d(a, c) <= d(a, b) + d(b, c)",
        lambda op, c: (
            np.all((direct := -op(**c)) <= math.sqrt(tolerance(op.spec, c)) + np.min(
                -op(**_keys_equal_queries(c))[..., None] + direct[..., None, :, :], axis=-2
            )), "a detour is shorter",
        ), of=lambda c: c(root=True), hint="The distance satisfies the triangle inequality, its square does not.")
wasserstein_scores.law("root_and_square", "rounding", "-√d times the squared root score is the score",
        lambda op, c: (-math.sqrt(c.q_mean.shape[-1]) * op(**c(root=True)) ** 2, op(**c(root=False))),
        times=4, what="the score ", hint="Both are divided by √d, after the root.")
wasserstein_scores.law("at_the_tip", "rounding", "a distance of 0 has gradient 0, with the root too", lambda op, c: (
            (g, np.zeros(g.shape), 0, f"d{name}")
            for ds in [np.ones((*c.q_mean.shape[:-2], 1, 1), c.q_mean.dtype)]
            for name, g in op.gradients(_keys_equal_queries(c), ds).items()
        ), "gradients", of=lambda c: {name: x if name == "root" else x[..., :1, :] for name, x in c.items()},
        hint="1 / (2 √0) is infinite.")


def wasserstein_scores_special_cases() -> list[Case]:
    """By hand: differences of 3, 4 and 12 make a distance of 13."""
    q, k = {"q_mean": np.zeros((1, 2)), "q_dev": np.ones((1, 2))}, np.array([[3.0, 4.0], [0.5, 0.0]])
    return [q | {"k_mean": k, "k_dev": np.array([[1.0, 13.0], [1.0, 2.0]]), **more} for more in ({"root": True}, {})]


WASSERSTEIN_SCORES = wasserstein_scores.spec(
    "s_ij = -(|μ_i - μ'_j|² + |σ_i - σ'_j|²) / √d; with root, minus the root of that sum, divided by √d",
    "wasserstein_scores(q_mean, q_dev, k_mean, k_dev, root=False): q's (..., n, d), k's (..., m, d) -> s (..., n, m); "
    "deviations are 0 or more",
    "where a distance is 0, its gradient is taken as 0",
    case=wasserstein_scores_case, outputs=("s",), wrt=("q_mean", "q_dev", "k_mean", "k_dev"),
    scale=lambda case: 16 * largest(*(case[name] for name in ("q_mean", "q_dev", "k_mean", "k_dev"))) ** 2,
    special_cases=wasserstein_scores_special_cases,
)


gaussian_attention = SpecBuilder("gaussian_attention")


def gaussian_attention_case(draw: CaseDrawer) -> Case:
    n, e = draw.tokens(), draw.size()
    m, f = draw.size_like(n), draw.size_like(e)
    s, v_mean = draw.array(*draw.lead, n, m, size=2), draw.array(*draw.lead, m, e)
    v_cov = (0.1 + np.abs(draw.array(*draw.lead, m, f))).astype(draw.dtype)
    shape = draw.choose(((n, m), s.shape, (m,)))
    return {"s": s, "v_mean": v_mean, "v_cov": v_cov, "mask": draw.mask(*shape) if draw.flag() else None}


def _split(case: Case, out: Any) -> tuple[Any, Any]:
    e = case["v_mean"].shape[-1]
    return out[..., :e], out[..., e:]


def _last_alone(s: np.ndarray) -> np.ndarray:
    return np.where(np.arange(s.shape[-1]) == s.shape[-1] - 1, s.dtype.type(1e4), 0 * s)


def _seen(case: Case) -> np.ndarray:
    return np.broadcast_to(True if case["mask"] is None else case["mask"], case["s"].shape)


gaussian_attention.law("equal_means", "rounding",
        "means are averaged as in attention: means of 1 stay 1, and are 0 for a query that sees nothing",
        lambda op, c: (
            mean := _split(c, op(**c(v_mean=np.ones_like(c.v_mean))))[0],
            np.broadcast_to(np.any(_seen(c), axis=-1)[..., None].astype(float), mean.shape), None, "the mean ",
        ), hint="The weights of a query sum to 1.")
gaussian_attention.law("surer_together", "rounding",
        "the mean of k keys with equal weights and equal variances has 1 / k of their variance", lambda op, c: (
            (out := _split(c, op(**c(s=np.zeros_like(c.s), v_cov=np.ones_like(c.v_cov)))))[1],
            np.broadcast_to((seen := np.sum(_seen(c), axis=-1)[..., None]) > 0, out[1].shape) / np.maximum(seen, 1),
        ), what="the variance ", hint="Variances are weighted with the squares of the weights.")
gaussian_attention.law("one_key", "rounding", "a logit 10,000 above the others selects one key's distribution",
        lambda op, c: (
            (got, np.broadcast_to(v[..., -1:, :], got.shape))
            for got, v in zip(_split(c, op(**c(s=_last_alone(c.s), mask=None))), (c.v_mean, c.v_cov), strict=True)
        ), "extremes",
        what="the distribution ",
        hint="1² is 1.")


@gaussian_attention("exact", "masked keys move nothing, and get no gradient", hint="Are masked weights exactly 0?", gravity="leak")
def hidden(op: Subject, **case: Any) -> None:
    mask = np.ones(case["s"].shape[-2:], bool)
    mask[:, -1] = False
    case |= {"mask": mask}
    out, moved = op(**case), {name: case[name].copy() for name in ("s", "v_mean", "v_cov")}
    moved["s"][..., -1] += 5
    for name in ("v_mean", "v_cov"):
        moved[name][..., -1, :] += 5
    close(op(**case | moved), out, 0, "out")
    if op.has_backward:
        d = op.gradients(case, np.ones_like(out))
        demand(not np.any(d["s"][..., -1]), "a logit that the mask forbids has a gradient")
        demand(not np.any(d["v_mean"][..., -1, :]) and not np.any(d["v_cov"][..., -1, :]), "a hidden value has a gradient")


GAUSSIAN_ATTENTION = gaussian_attention.spec(
    "out = [p v_mean, (p ⊙ p) v_cov], p = softmax(s, mask)",
    "gaussian_attention(s, v_mean, v_cov, mask=None) -> out, weights: s (..., n, m), v_mean (..., m, e), v_cov "
    "(..., m, f), 0 or more, out (..., n, e + f), means first; the mask is boolean, True = may look, onto (..., n, m)",
    "a query that may look at nothing gets zeros, and passes no gradient on",
    case=gaussian_attention_case, outputs=("out", "weights"), wrt=("s", "v_mean", "v_cov"),
    scale=lambda case: 4 * largest(case["s"]) * largest(case["v_mean"], case["v_cov"]),
)
