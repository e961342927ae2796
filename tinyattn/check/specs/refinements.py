"""Refinements: attention among rows of scores."""

from typing import Any

import numpy as np

from ... import ops
from ..common import tolerance
from ..families import causal, linear_in
from ..property import close, demand, largest, waves
from .builder import Call, CaseDrawer, SpecBuilder, Subject

refine_simp = SpecBuilder("refine_simp")
linear_in(refine_simp, "W_Q")
linear_in(refine_simp, "W_K")


def drawn(draw: CaseDrawer, *maps: str, square: bool = True) -> dict[str, Any]:
    """Scores A, and maps of their columns or lags, shared by all leading axes or one for each."""
    lags, n = draw.flag(), draw.size()
    m = n if lags or square else draw.size_like(n)
    r, lead = draw.size_like(n), draw.choose((draw.lead, draw.lead[-1:], ()))
    arrays = {"A": draw.array(*draw.lead, n, m)} | {name: draw.array(*lead, m, r, size=m**-0.5) for name in maps}
    return arrays | {"scale": draw.choose((None, 0.4)), "lags": lags}


def compares_rows(states: Any, *maps: str) -> None:
    """State the properties of a refinement that compares rows of A, which may be indexed by lag."""
    causal(states, "A", of=lambda case: case | {"A": np.tril(case["A"])}, read=np.tril,
           hint="Entry (k, t) depends on the rows k and t of A.")  # fmt: skip

    @states("rounding", "with lags, a sequence that begins two positions later has the same numbers, shifted by two",
            hint="Ã[k, r] = A[k, k - r]. Which row of the maps belongs to the token two steps back?")  # fmt: skip
    def two_places_later(op: Subject, **case: Any) -> None:
        n = min(case["A"].shape[-2:])
        A = np.tril(case["A"][..., :n, :n])
        longer = {name: _padded(case[name][..., :n, :], (0, 2), (0, 0)) for name in maps} | {"lags": True}
        first, later = (op(**case | longer | {"A": _padded(A, zeros, zeros)}) for zeros in ((0, 2), (2, 0)))
        close(np.tril(later[..., 2:, 2:]), np.tril(first[..., :n, :n]), tolerance(op.spec, case), "two steps later, B")


def _padded(x: np.ndarray, rows: tuple[int, int], columns: tuple[int, int]) -> np.ndarray:
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [rows, columns])


compares_rows(refine_simp, "W_Q", "W_K")


def refine_simp_scale(case: dict[str, Any]) -> float:
    """Products of rows of A and of maps, and products of these."""
    maps = [W for name, W in case.items() if name.startswith("W")]
    X = largest(*(np.abs(case["A"]).sum(axis=-1, initial=0) * largest(W) for W in maps))
    return 2 * (X + 1) ** 2


REFINE_SIMP = refine_simp.spec(
    "B = c X Yᵀ, X = A W_Q, Y = A W_K, c = scale or 1 / √r",
    "refine_simp(A, W_Q, W_K, scale=None, lags=False) -> B first: A (..., n, m), W_Q and W_K onto (..., m, r), "
    "B (..., n, n)",
    "lags: n = m, and Ã in place of A, with Ã_kr = A_{k,k-r}, 0 for r > k",
    case=lambda draw: drawn(draw, "W_Q", "W_K", square=False), outputs=("B",), wrt=("A", "W_Q", "W_K"),
    scale=refine_simp_scale,
)


refine_add = SpecBuilder("refine_add")
compares_rows(refine_add, "W_Q", "W_K")
refine_add.law("half", "rounding", "where a map is 0, B is half of A",
        lambda op, c: (op(**c(W_K=np.zeros_like(c.W_K))), c.A / 2), hint="B is a mean of two terms, not their sum.")

REFINE_ADD = refine_add.spec(
    "B = (c X Yᵀ + A) / 2, X = A W_Q, Y = A W_K, c = scale or 1 / √r",
    "refine_add(A, W_Q, W_K, scale=None, lags=False) -> B first: A and B (..., n, n), W_Q and W_K onto (..., n, r)",
    "lags: Ã in place of A in X and Y, with Ã_kr = A_{k,k-r}, 0 for r > k",
    case=lambda draw: drawn(draw, "W_Q", "W_K"), outputs=("B",), wrt=("A", "W_Q", "W_K"), scale=refine_simp_scale,
)


refine_stoc = SpecBuilder("refine_stoc")
compares_rows(refine_stoc, "W_mu", "W_sigma")
refine_stoc.law("distances", "rounding", "a row has distance 0 from itself, and no score is positive", lambda op, c: [
            (np.all((B := op(**c)) <= 0), "a distance is negative"),
            (d := np.diagonal(B, axis1=-2, axis2=-1), np.zeros(d.shape), None, "the distance of a row from itself, "),
        ], hint="Is it -|a - b|²?")
refine_stoc.law("symmetric", "rounding", "the distance is symmetric", lambda op, c: (B := op(**c), B.swapaxes(-1, -2)),
        what="Bᵀ", hint="Are both maps applied to both rows?")


@refine_stoc("rounding", "far left of 0 σ is e^(z/2), with a gradient that is finite and not 0", "extremes",
        hint="ELU(-40) + 1 is 0 in float32: take the root of e^z and not of its rounded value.")  # fmt: skip
def far_left(op: Subject, **case: Any) -> None:
    A = np.array([[-40.0], [-38.0]], case["A"].dtype)
    one = np.ones((1, 1), A.dtype)
    case = {"A": A, "W_mu": 0 * one, "W_sigma": one, "scale": 1.0, "lags": False}
    root = np.exp(A.astype(float) / 2)
    close(op(**case)[0, 1] / root[1, 0] ** 2, -((1 - np.exp(-1)) ** 2), 1e-3, "the distance, over e^z, ")
    if op.has_backward:
        dA = op.gradients(case, np.eye(2, dtype=A.dtype)[::-1].copy())["A"]
        expected = -2 * (root - root[::-1]) * root
        close(dA / root[1, 0] ** 2, expected / root[1, 0] ** 2, 1e-3, "dA, over e^z, ")


REFINE_STOC = refine_stoc.spec(
    "b_kt = -c (|μ_k - μ_t|² + |σ_k - σ_t|²), μ = A W_mu, σ = √(ELU(A W_sigma) + 1), c = scale or 1 / √r",
    "refine_stoc(A, W_mu, W_sigma, scale=None, lags=False) -> B first: A (..., n, m), W_mu and W_sigma onto "
    "(..., m, r), B (..., n, n)",
    "lags: n = m, and Ã in place of A, with Ã_kr = A_{k,k-r}, 0 for r > k",
    case=lambda draw: drawn(draw, "W_mu", "W_sigma", square=False), outputs=("B",), wrt=("A", "W_mu", "W_sigma"),
    scale=refine_simp_scale,
)


refine_value_literal = SpecBuilder("refine_value_literal")
linear_in(refine_value_literal, "W_V", hint="The weights must not depend on the values.")


def refine_value_literal_case(draw: CaseDrawer) -> dict[str, Any]:
    n, lead = draw.size(), draw.choose((draw.lead, draw.lead[-1:], ()))
    maps = {name: draw.array(*lead, n, n, size=1 / n) for name in ("W_Q", "W_K", "W_V")}
    return {"A": draw.array(*draw.lead, n, n, size=n**-0.5)} | maps


refine_value_literal.law("uniform", "rounding", "where W_Q is 0, row k of B is the mean of z_k", lambda op, c: (
            B := op(**c(W_Q=np.zeros_like(c.W_Q))),
            np.broadcast_to(np.mean(c.W_V.astype(float) @ c.A, axis=-1, keepdims=True), B.shape),
        ), hint="Over which axis do the weights sum to 1?")


@refine_value_literal("exact", "the first row of B depends on the last row of A", hint="The sum in Xᵀ Y is over all rows.")
def leaks(op: Subject, **case: Any) -> None:
    A, later = np.eye(4, dtype=case["A"].dtype), np.eye(4, dtype=case["A"].dtype)
    one = {name: A.copy() for name in ("W_Q", "W_K", "W_V")}
    later[3] = [2, 1, 0, 1]
    demand(np.any(op(A=later, **one)[0] != op(A=A, **one)[0]), "the last row of A does not move the first row of B")


def refine_value_literal_scale(case: dict[str, Any]) -> float:
    """An error of the exponents multiplies the values."""
    return refine_simp_scale(case) * (1 + largest(case["W_V"]) * case["A"].shape[-1] * largest(case["A"])) * 4


REFINE_VALUE_LITERAL = refine_value_literal.spec(
    "B = Z softmax(Xᵀ Y)ᵀ, X = W_Q A, Y = W_K A, Z = W_V A, softmax over the last axis",
    "refine_value_literal(A, W_Q, W_K, W_V) -> B first: A and B (..., n, n), the maps onto (..., n, n)",
    case=refine_value_literal_case, outputs=("B",), wrt=("A", "W_Q", "W_K", "W_V"), scale=refine_value_literal_scale,
)


refine_value = SpecBuilder("refine_value")


def _lower(c: Call) -> dict[str, np.ndarray]:
    return {name: np.tril(x) for name, x in c.items()}
linear_in(refine_value, "W_V", hint="The weights must not depend on the values.")
causal(refine_value, "A", hint="Which rows are in the sum for row k, and which columns in its softmax?")
refine_value.law("last_row", "rounding", "its last row is that of the literal form",
        lambda op, c: (op(**c)[..., -1, :], ops.refine_value_literal(**_lower(c))[0][..., -1, :]), what="b_n",
        hint="Does Σ x_iᵀ y_i include the last row?")
refine_value.law("triangles", "exact", "above their diagonals, arguments are not read, and results and gradients are 0",
        lambda op, c: [
            (np.all(np.triu(B := op(**c), 1) == 0), "B has numbers above its diagonal"),
            (np.array_equal(op(**_lower(c)), B), "something above a diagonal moves B"),
        ], derived=lambda op, c: (
            (np.all(np.triu(g, 1) == 0), f"d{name} has numbers above its diagonal")
            for name, g in op.gradients(c, waves(c.A)).items()
        ), hint="Which products and sums still include later tokens or rows?")

REFINE_VALUE = refine_value.spec(
    "b_k = z_k softmax(Σ_{i <= k} x_iᵀ y_i)ᵀ over the first k + 1 columns, X = W_Q A, Y = W_K A, Z = W_V A, all tril",
    "refine_value(A, W_Q, W_K, W_V) -> B first: A and B (..., n, n), the maps onto (..., n, n)",
    "numbers above the diagonals of A and of the maps are not read; B is 0 there",
    case=refine_value_literal_case, outputs=("B",), wrt=("A", "W_Q", "W_K", "W_V"), scale=refine_value_literal_scale,
)


refine_value_rows = SpecBuilder("refine_value_rows")
linear_in(refine_value_rows, "W_V", hint="The weights must not depend on the values.")


def refine_value_rows_case(draw: CaseDrawer) -> dict[str, Any]:
    case = drawn(draw, "W_Q", "W_K", "W_V")
    n = case["A"].shape[-1]
    case["W_V"] = draw.array(*case["W_V"].shape[:-1], n, size=n**-0.5)
    mask = draw.mask(*draw.choose(((n, n), (1, n), case["A"].shape))) if draw.flag() else None
    return case | {"mask": mask}


causal(refine_value_rows, "A", of=lambda case: case | {"A": np.tril(case["A"]), "mask": np.tri(case["A"].shape[-1], dtype=bool)},
       hint="Row k is a mean of rows: which ones does the mask allow?")  # fmt: skip


REFINE_VALUE_ROWS = refine_value_rows.spec(
    "B = softmax(c X Yᵀ, mask) Z, X = A W_Q, Y = A W_K, Z = A W_V, c = scale or 1 / √r",
    "refine_value_rows(A, W_Q, W_K, W_V, mask=None, scale=None, lags=False) -> B first: A and B (..., n, n), W_Q and "
    "W_K onto (..., n, r), W_V onto (..., n, n), mask onto A, True = may look",
    "lags: Ã in place of A, with Ã_kr = A_{k,k-r}, 0 for r > k; column r of the mean is lag r too, "
    "and B has columns again",
    case=refine_value_rows_case, outputs=("B",), wrt=("A", "W_Q", "W_K", "W_V"), scale=refine_value_literal_scale,
)
