"""Exercises of chapter 15, paying attention to attention."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ..graders import Function, Judge, Number
from ..plain import Changes, changed, op_spec, plain_spec
from ..prose import Prose

PROSE = Prose(15)
REFINEMENTS = 3                                      # of all_better_by_chance
SEEDS, SPREAD, T_95 = 3, 3.0, 2.776                  # of smallest_difference: Student's t, for 4 degrees of freedom


def _all_better() -> float:
    """The share of all orders of the runs in which the unrefined model's run comes last."""
    orders = list(itertools.permutations(range(1 + REFINEMENTS)))
    return sum(order[0] == 0 for order in orders) / len(orders)


# my_refine_backward
def _scores_and_maps(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 4)
    A, W_Q, W_K = (draw.array(n, n) for _ in range(3))
    return {"A": A, "W_Q": W_Q, "W_K": W_K, "c": draw.choose((0.5, 1.0, 0.25))}


REFINE = op_spec(
    "refine", "B = c X Yᵀ, X = A W_Q, Y = A W_K", _scores_and_maps,
    lambda A, W_Q, W_K, c: ops.refine_simp(A, W_Q, W_K, c)[0], "B",
    backward=lambda dB, A, W_Q, W_K, c: ops.refine_simp_backward(dB, A, W_Q, W_K, A @ W_Q, A @ W_K, c),
    wrt=("A", "W_Q", "W_K"),
    scale=lambda case: 1 + float(np.prod([max(1.0, np.abs(x).sum()) for x in case.values()])))  # fmt: skip


def _by_hand(dB: Any, A: Any, W_Q: Any, W_K: Any, c: float) -> Any:
    """-> dA, dW_Q, dW_K by hand."""
    X, Y = A @ W_Q, A @ W_K
    dX, dY = c * dB @ Y, c * dB.T @ X
    dA, dW_Q, dW_K = dX @ W_Q.T + dY @ W_K.T, A.T @ dX, A.T @ dY
    return dA, dW_Q, dW_K


_WRONG_W = {"a_not_transposed": "A @ dX", "a_on_the_right": "dX @ A.T", "transposed": "dX.T @ A", "x_for_a": "X.T @ dX",
            "a_missing": "dX"}  # fmt: skip


def _of_maps(*maps: str) -> dict[str, Any]:
    """Wrong answers with another product in place of A.T @ dX, A.T @ dY or both."""
    lines = {name: [f"A.T @ d{X} -> {line.replace('X', X)}" for X in maps] for name, line in _WRONG_W.items()}
    return {name: changed(_by_hand, " && ".join(changes)) for name, changes in lines.items()}


WRONG_BACKWARD = (
    *PROSE.attach("my_refine_backward.mistakes", _by_hand),
    *PROSE.attach("my_refine_backward.dW_Q", **_of_maps("X", "Y")),
    *PROSE.attach("my_refine_backward.dW_Q", **_of_maps("X")),
    *PROSE.attach("my_refine_backward.dW_K", **_of_maps("Y")),
)


# my_wasserstein_backward
def _distances(q_mean: Any, q_dev: Any, k_mean: Any, k_dev: Any, c: float) -> Any:
    """s_ij = -c (|μ_i - μ'_j|² + |σ_i - σ'_j|²), term by term."""
    pairs = (q_mean, k_mean), (q_dev, k_dev)
    return -c * sum(np.sum((q[:, None] - k) ** 2, axis=-1) for q, k in pairs)


def _pulled(ds: Any, q_mean: Any, q_dev: Any, k_mean: Any, k_dev: Any, c: float) -> Any:
    """-> dq_mean, dq_dev, dk_mean, dk_dev; g is the gradient of s by half the squared distance."""
    g = -2 * c * ds

    def of_q(q: Any, k: Any) -> Any:
        return g.sum(axis=1, keepdims=True) * q - g @ k

    def of_k(q: Any, k: Any) -> Any:
        return g.sum(axis=0)[:, None] * k - g.T @ q

    return of_q(q_mean, k_mean), of_q(q_dev, k_dev), of_k(q_mean, k_mean), of_k(q_dev, k_dev)


def _distributions(draw: CaseDrawer) -> dict[str, Any]:
    n, m, d = draw.size(1, 4), draw.size(1, 4), draw.size(1, 3)
    means, devs = (draw.array(n, d), draw.array(m, d)), (abs(draw.array(n, d)) + 1, abs(draw.array(m, d)) + 1)
    return {"q_mean": means[0], "q_dev": devs[0], "k_mean": means[1], "k_dev": devs[1],
            "c": draw.choose((0.5, 1.0, 0.25))}  # fmt: skip


WASSERSTEIN = op_spec(
    "distances", "s_ij = -c (|μ_i - μ'_j|² + |σ_i - σ'_j|²)", _distributions, _distances, "s", backward=_pulled,
    wrt=("q_mean", "q_dev", "k_mean", "k_dev"),
    scale=lambda case: 1 + sum(float(np.sum(np.abs(x))) for x in case.values()) ** 2)  # fmt: skip


# repaired_value
def _value(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    return ops.refine_value(A, W_Q, W_K, W_V)[0]


def _triangles(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(2, 4)
    return {name: np.tril(draw.array(n, n)).astype(float) for name in ("A", "W_Q", "W_K", "W_V")}


VALUE = plain_spec(
    "value", "row k of B is the equation's last row for the first k + 1 rows and columns", _triangles, _value, "B"
)


def _literal(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    return np.tril(ops.refine_value_literal(A, W_Q, W_K, W_V)[0])


def _at_once(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    """Computes all rows of B from one (n, n) matrix, whose row t belongs to item t."""
    past = np.tri(len(A), dtype=bool)
    L = (W_Q @ A).T @ (W_K @ A)
    return np.tril((W_V @ A) @ ops.softmax(L, past).T)


def _row_by_row(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    """The repaired form."""
    B = np.zeros_like(A)
    for k in range(len(A)):
        X, Y, Z = (W[slice(k + 1), slice(k + 1)] @ A[slice(k + 1), slice(k + 1)] for W in (W_Q, W_K, W_V))
        if len(Z):
            b = Z[-1] @ ops.softmax(X.T @ Y).T
            B[k, : min(k + 1, len(b))] = b[: k + 1]
    return B


WRONG_VALUE = Changes(_row_by_row,
    literal=_literal,
    softmax_masked=_at_once,
    logits_zeroed=changed(_at_once, "ops.softmax(L, past) -> ops.softmax(np.where(past, L, 0))"),
    weights_masked=changed(_at_once, "ops.softmax(L, past) -> np.tril(ops.softmax(L))"),
    rows_as_tokens=lambda A, W_Q, W_K, W_V: ops.refine_value_rows(A, W_Q, W_K, W_V, np.tri(len(A), dtype=bool))[0],
    scaled_by_all=lambda A, W_Q, W_K, W_V: _value(A, W_Q / math.sqrt(len(A)), W_K, W_V),
    maps_exchanged=lambda A, W_Q, W_K, W_V: _value(A, W_K, W_Q, W_V),
    z_alone=lambda A, W_Q, W_K, W_V: np.tril(W_V @ A),
)
NOT_MASKED = PROSE.attach("repaired_value.mistakes", not_masked=np.tril)


# later_rows_move_nothing
def _maps(n: int) -> Any:
    return np.random.default_rng(n).standard_normal((3, n, n)) / math.sqrt(n)


def _simp(A: Any) -> Any:
    return ops.refine_simp(A, *_maps(len(A))[:2])[0]


def _rows(A: Any, mask: Any = None) -> Any:
    W_Q, W_K, W_V = _maps(len(A))
    return ops.refine_value_rows(A, W_Q, W_K, W_V, mask)[0]


def later_rows_move_nothing(refine: Callable[..., Any], n: int) -> bool:
    """Whether B on and below the diagonal, in rows up to k, stays the same when rows of A after k change."""
    A, other = np.tril(np.random.default_rng(0).standard_normal((2, n, n)))
    counts = np.tri(n, dtype=bool)
    for k in range(n - 1):
        changed = np.vstack([A[: k + 1], other[k + 1 :]])
        if not np.all((refine(changed) == refine(A))[: k + 1] | ~counts[: k + 1]):
            return False
    return True


RIGHT_FORMS = dict(
    unchanged=lambda A: A + 0.0,
    simp=_simp,
    add=lambda A: (_simp(A) + A) / 2,
    value=lambda A: _value(A, *_maps(len(A))),
    value_rows_masked=lambda A: _rows(A, np.tri(len(A), dtype=bool)),
)
WRONG_FORMS = dict(
    literal=lambda A: ops.refine_value_literal(A, *_maps(len(A)))[0],
    literal_triangular=lambda A: _literal(A, *map(np.tril, _maps(len(A)))),
    value_rows=_rows,
    next_rows=lambda A: A - np.vstack([A[1:], 0 * A[:1]]),
    a_tenth_of_the_last=lambda A: A + 0.1 * A[-1],
    diagonal_of_the_next=lambda A: A + np.diag(np.append(A[1:, 0], 0)),
    first_row_of_the_last=lambda A: A + A[-1, -1] * (np.arange(len(A)) == 0)[:, None],
    last_but_one_of_the_last=lambda A: A + np.eye(len(A))[:, [-2]] * A[-1, 0],
    first_row_of_the_second=lambda A: A + np.eye(len(A))[:, [0]] * A[1, 0],
    second_row_of_the_third=lambda A: A + np.eye(len(A))[:, [1]] * A[2, 0],
    below_the_diagonal=lambda A: A + A[-1, 0] * np.tri(len(A), k=-1),
    but_for_the_first_column=lambda A: A + A[-1, 0] * np.tri(len(A), k=-1) * (np.arange(len(A)) > 0),
    a_millionth_of_the_mean=lambda A: A + 1e-6 * A.mean(axis=0),
)


EXERCISES = PROSE.exercises(
    my_refine_backward=Function(REFINE, part="backward", tempting=WRONG_BACKWARD),
    my_wasserstein_backward=Function(WASSERSTEIN, part="backward", tempting=Changes(_pulled)),
    repaired_value=Function(VALUE, tempting=WRONG_VALUE, missing_steps=NOT_MASKED),
    later_rows_move_nothing=Judge(later_rows_move_nothing, RIGHT_FORMS, WRONG_FORMS, more=(5,)),
    all_better_by_chance=Number(_all_better, tolerance=0.03),
    # the half-width of the 95 % interval of a difference of two means, in percent
    smallest_difference=Number(lambda: T_95 * SPREAD * math.sqrt(2 / SEEDS), tolerance=0.035),
)
