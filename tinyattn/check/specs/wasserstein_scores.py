"""Scores of distributions: negative 2-Wasserstein distances."""

import math
from typing import Any

import numpy as np

from ..common import tolerance
from ..families import Case
from ..property import close, demand, largest
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("wasserstein_scores")


def case(draw: CaseDrawer) -> Case:
    """Deviations from .2 up. Distances are at least a half: near 0 the root is too steep for differences."""
    n, d = draw.tokens(), draw.size()
    m = draw.size_like(n)
    q_mean, k_mean = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    q_dev, k_dev = ((0.2 + np.abs(draw.array(*draw.lead, rows, d))).astype(draw.dtype) for rows in (n, m))
    k_mean[..., 0] += np.asarray(largest(q_mean, k_mean) * 2 + 0.5, draw.dtype)
    return {"q_mean": q_mean, "q_dev": q_dev, "k_mean": k_mean, "k_dev": k_dev, "root": draw.flag()}


@states("rounding", "the distance from a to b is that from b to a", hint="Which axis of the scores are queries?")
def symmetric(op: Subject, **case: Any) -> None:
    swapped = {f"{a}_{of}": case[f"{b}_{of}"] for a, b in ("qk", "kq") for of in ("mean", "dev")}
    close(np.swapaxes(op(**case | swapped), -1, -2), op(**case), tolerance(op.spec, case), "the score ")


def _keys_equal_queries(case: Case) -> Case:
    return case | {f"k_{of}": case[f"q_{of}"].copy() for of in ("mean", "dev")}


@states("rounding", "moving all means by the same vector changes no distance, even far from 0",
        hint="|a|² - 2 a · b + |b|² of large a and b has few digits left: subtract one key first.")  # fmt: skip
def moved(op: Subject, **case: Any) -> None:
    whole = case | {name: np.round(8 * case[name]) / 8 for name in ("q_mean", "k_mean")}     # moved without rounding
    far = {name: whole[name] + whole[name].dtype.type(4096) for name in ("q_mean", "k_mean")}
    close(op(**whole | far), op(**whole), tolerance(op.spec, whole), "the score ")


@states("rounding", "a distribution has distance 0 from itself; rounding makes no score positive, and no root NaN",
        "extremes", hint="Rounding can make a distance negative, which has no root: clip it.")  # fmt: skip
def itself(op: Subject, **case: Any) -> None:
    s, limit = op(**_keys_equal_queries(case)), tolerance(op.spec, case)
    demand(np.all(s <= 0), "a score is positive, or no number")
    diagonal = np.diagonal(s, axis1=-2, axis2=-1)
    close(diagonal, np.zeros(diagonal.shape), math.sqrt(limit) if case.get("root") else limit, "the score of a pair of equals")


@states("rounding", "with the root, a detour is never shorter: d(a, c) <= d(a, b) + d(b, c)",
        hint="The distance satisfies the triangle inequality, its square does not.")  # fmt: skip
def triangle(op: Subject, **case: Any) -> None:
    direct, first = -op(**case | {"root": True}), -op(**_keys_equal_queries(case) | {"root": True})
    detour = np.min(first[..., :, :, None] + direct[..., None, :, :], axis=-2)
    demand(np.all(direct <= detour + math.sqrt(tolerance(op.spec, case))), "a detour is shorter")


@states("rounding", "-√d times the squared root score is the score", hint="Both are divided by √d, after the root.")
def root_and_square(op: Subject, **case: Any) -> None:
    s, limit = op(**case | {"root": False}), tolerance(op.spec, case)
    close(-math.sqrt(case["q_mean"].shape[-1]) * op(**case | {"root": True}) ** 2, s, 4 * limit, "the score ")


@states("rounding", "a distance of 0 has gradient 0, with the root too", "gradients", hint="1 / (2 √0) is infinite.")
def at_the_tip(op: Subject, **case: Any) -> None:
    one = {name: x if name == "root" else x[..., :1, :] for name, x in case.items()}
    ds = np.ones((*case["q_mean"].shape[:-2], 1, 1), case["q_mean"].dtype)
    for name, g in op.gradients(_keys_equal_queries(one), ds).items():
        close(g, np.zeros(g.shape), 0, f"d{name}")


def special_cases() -> list[Case]:
    """By hand: differences of 3, 4 and 12 make a distance of 13."""
    q, k = {"q_mean": np.zeros((1, 2)), "q_dev": np.ones((1, 2))}, np.array([[3.0, 4.0], [0.5, 0.0]])
    return [q | {"k_mean": k, "k_dev": np.array([[1.0, 13.0], [1.0, 2.0]]), **more} for more in ({"root": True}, {})]


SPEC = states.spec(
    "s_ij = -(|μ_i - μ'_j|² + |σ_i - σ'_j|²) / √d; with root, minus the root of that sum, divided by √d",
    "wasserstein_scores(q_mean, q_dev, k_mean, k_dev, root=False): q's (..., n, d), k's (..., m, d) -> s (..., n, m); "
    "deviations are 0 or more",
    "where a distance is 0, its gradient is taken as 0",
    case=case,
    outputs=("s",),
    wrt=("q_mean", "q_dev", "k_mean", "k_dev"),
    scale=lambda case: 16 * largest(*(case[name] for name in ("q_mean", "q_dev", "k_mean", "k_dev"))) ** 2,
    special_cases=special_cases,
)
