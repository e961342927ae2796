"""Exercises of chapter 15, paying attention to attention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ..graders import Function, Judge, Number
from ..plain import adjustable, op_spec, plain_spec
from ..prose import Prose

PROSE = Prose(15)
REFINEMENTS = 3                                      # of all_better_by_chance
SEEDS, SPREAD, T_95 = 3, 3.0, 2.776                  # of smallest_difference: Student's t, for 4 degrees of freedom


def _all_better() -> float:
    """The share of orders of all runs in which the unrefined model's run is the worst."""
    orders = list(itertools.permutations(range(1 + REFINEMENTS)))
    return sum(order[0] == 0 for order in orders) / len(orders)


def _smallest() -> float:
    """The half-width of the 95 % interval of a difference of two means, in percent."""
    return T_95 * SPREAD * math.sqrt(2 / SEEDS)


# my_refine_backward
def _refine(A: Any, W_Q: Any, W_K: Any, c: float) -> Any:
    return ops.refine_simp(A, W_Q, W_K, c)[0]


def _refine_backward(dB: Any, A: Any, W_Q: Any, W_K: Any, c: float) -> tuple[Any, Any, Any]:
    return ops.refine_simp_backward(dB, A, W_Q, W_K, A @ W_Q, A @ W_K, c)


def _scores_and_maps(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 4)
    A, W_Q, W_K = (draw.array(n, n) for _ in range(3))
    return {"A": A, "W_Q": W_Q, "W_K": W_K, "c": draw.choose((0.5, 1.0, 0.25))}


REFINE = op_spec(
    "refine", "B = c X Yᵀ, X = A W_Q, Y = A W_K", _scores_and_maps, _refine, "B", backward=_refine_backward,
    wrt=("A", "W_Q", "W_K"),
    scale=lambda case: 1 + float(np.prod([max(1.0, np.abs(x).sum()) for x in case.values()])))  # fmt: skip


@adjustable
def _by_hand(
    dB: Any, A: Any, W_Q: Any, W_K: Any, c: float, *,
    of_X: Any = lambda dB, Y, c: c * dB @ Y, of_Y: Any = lambda dB, X, c: c * dB.T @ X,
    of_A: Any = lambda dX, dY, W_Q, W_K: dX @ W_Q.T + dY @ W_K.T, of_W_Q: Any = lambda A, X, d: A.T @ d,
    of_W_K: Any = lambda A, Y, d: A.T @ d, order: tuple[int, int, int] = (0, 1, 2), crossed: bool = False,
    times: Any = lambda c, n: (1, 1, 1),
) -> Any:  # fmt: skip
    """-> dA, dW_Q, dW_K by hand, each with a factor of `times`; where `crossed`, X stands where Y belongs."""
    X, Y = A @ W_Q, A @ W_K
    dX, dY = (of_X(dB, X, c), of_Y(dB, Y, c)) if crossed else (of_X(dB, Y, c), of_Y(dB, X, c))
    gradients = of_A(dX, dY, W_Q, W_K), of_W_Q(A, X, dX), of_W_K(A, Y, dY)
    return tuple(times(c, len(A))[i] * gradients[i] for i in order)


_WRONG_W = {                                         # a line for dW_Q or dW_K
    "a_not_transposed": lambda A, X, d: A @ d,
    "a_on_the_right": lambda A, X, d: d @ A.T,
    "transposed": lambda A, X, d: d.T @ A,
    "x_for_a": lambda A, X, d: X.T @ d,
    "a_missing": lambda A, X, d: d,
}
WRONG_BACKWARD = (
    *PROSE.attach(
        "my_refine_backward.mistakes",
        queries_alone=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q.T),
        keys_alone=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dY @ W_K.T),
        averaged=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: (dX @ W_Q.T + dY @ W_K.T) / 2),
        difference=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q.T - dY @ W_K.T),
        maps_not_transposed=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q + dY @ W_K),
        w_q_not_transposed=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q + dY @ W_K.T),
        w_k_not_transposed=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q.T + dY @ W_K),
        maps_exchanged=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: dX @ W_K.T + dY @ W_Q.T),
        no_c=_by_hand.but(of_X=lambda dB, Y, c: dB @ Y, of_Y=lambda dB, X, c: dB.T @ X),
        no_c_in_dy=_by_hand.but(of_Y=lambda dB, X, c: dB.T @ X),
        no_c_in_dx=_by_hand.but(of_X=lambda dB, Y, c: dB @ Y),
        c_squared=_by_hand.but(of_X=lambda dB, Y, c: c * c * dB @ Y, of_Y=lambda dB, X, c: c * c * dB.T @ X),
        db_not_transposed=_by_hand.but(of_Y=lambda dB, X, c: c * dB @ X),
        db_transposed=_by_hand.but(of_X=lambda dB, Y, c: c * dB.T @ Y),
        db_exchanged=_by_hand.but(of_X=lambda dB, Y, c: c * dB.T @ Y, of_Y=lambda dB, X, c: c * dB @ X),
        no_c_in_maps=_by_hand.but(times=lambda c, n: (1, 1 / c, 1 / c)),
        no_c_in_da=_by_hand.but(times=lambda c, n: (1 / c, 1, 1)),
        divided_by_c=_by_hand.but(times=lambda c, n: (1 / c**2,) * 3),
        root_of_n_for_c=_by_hand.but(times=lambda c, n: (1 / (c * math.sqrt(n)),) * 3),
        all_signs_turned=_by_hand.but(times=lambda c, n: (-1, -1, -1)),
    ),
    *PROSE.attach("my_refine_backward.dW_Q", **{n: _by_hand.but(of_W_Q=f, of_W_K=f) for n, f in _WRONG_W.items()}),
    *PROSE.attach("my_refine_backward.dW_Q", **{n: _by_hand.but(of_W_Q=f) for n, f in _WRONG_W.items()}),
    *PROSE.attach("my_refine_backward.dW_K", **{n: _by_hand.but(of_W_K=f) for n, f in _WRONG_W.items()}),
    *PROSE.attach(
        "my_refine_backward.mistakes",
        masked=_by_hand.but(of_X=lambda dB, Y, c: c * np.tril(dB) @ Y, of_Y=lambda dB, X, c: c * np.tril(dB).T @ X),
        da_masked=_by_hand.but(of_A=lambda dX, dY, W_Q, W_K: np.tril(dX @ W_Q.T + dY @ W_K.T)),
        x_and_y_exchanged=_by_hand.but(crossed=True),
        dw_k_first=_by_hand.but(order=(0, 2, 1)),
        da_last=_by_hand.but(order=(1, 2, 0)),
    ),
)


# my_wasserstein_backward
def _distances(q_mean: Any, q_dev: Any, k_mean: Any, k_dev: Any, c: float) -> Any:
    """s_ij = -c (|μ_i - μ'_j|² + |σ_i - σ'_j|²), term by term."""
    pairs = (q_mean, k_mean), (q_dev, k_dev)
    return -c * sum(np.sum((q[:, None] - k) ** 2, axis=-1) for q, k in pairs)


@adjustable
def _pulled(
    ds: Any, q_mean: Any, q_dev: Any, k_mean: Any, k_dev: Any, c: float, *,
    slope: Any = lambda ds, c, s: -2 * c * ds, of_q: Any = lambda g, q, k: g.sum(axis=1, keepdims=True) * q - g @ k,
    of_k: Any = lambda g, q, k: g.sum(axis=0)[:, None] * k - g.T @ q, of_dev: Any = lambda d, dev: d,
    times: tuple[int, int, int, int] = (1, 1, 1, 1), order: tuple[int, int, int, int] = (0, 1, 2, 3),
) -> Any:  # fmt: skip
    """-> dq_mean, dq_dev, dk_mean, dk_dev, each with a factor of `times`; `slope` is twice the gradient by W²."""
    g = slope(ds, c, _distances(q_mean, q_dev, k_mean, k_dev, c))
    found = (of_q(g, q_mean, k_mean), of_dev(of_q(g, q_dev, k_dev), q_dev),
             of_k(g, q_mean, k_mean), of_dev(of_k(g, q_dev, k_dev), k_dev))  # fmt: skip
    return tuple(times[i] * found[i] for i in order)


def _distributions(draw: CaseDrawer) -> dict[str, Any]:
    n, m, d = draw.size(1, 4), draw.size(1, 4), draw.size(1, 3)
    means, devs = (draw.array(n, d), draw.array(m, d)), (abs(draw.array(n, d)) + 1, abs(draw.array(m, d)) + 1)
    return {"q_mean": means[0], "q_dev": devs[0], "k_mean": means[1], "k_dev": devs[1],
            "c": draw.choose((0.5, 1.0, 0.25))}  # fmt: skip


WASSERSTEIN = op_spec(
    "distances", "s_ij = -c (|μ_i - μ'_j|² + |σ_i - σ'_j|²)", _distributions, _distances, "s", backward=_pulled,
    wrt=("q_mean", "q_dev", "k_mean", "k_dev"),
    scale=lambda case: 1 + sum(float(np.sum(np.abs(x))) for x in case.values()) ** 2)  # fmt: skip
WRONG_PULLS = dict(
    signs_turned=_pulled.but(slope=lambda ds, c, s: 2 * c * ds),
    no_two=_pulled.but(slope=lambda ds, c, s: -c * ds),
    no_c=_pulled.but(slope=lambda ds, c, s: -2 * ds),
    c_squared=_pulled.but(slope=lambda ds, c, s: -2 * c * c * ds),
    divided_by_c=_pulled.but(slope=lambda ds, c, s: -2 * ds / c),
    times_s=_pulled.but(slope=lambda ds, c, s: 2 * ds * s),
    of_the_root=_pulled.but(slope=lambda ds, c, s: -c * ds / np.sqrt(np.maximum(-s / c, 1e-9))),
    ds_ignored=_pulled.but(slope=lambda ds, c, s: -2 * c * np.ones_like(ds)),
    q_sign_turned=_pulled.but(times=(-1, -1, 1, 1)),
    k_sign_turned=_pulled.but(times=(1, 1, -1, -1)),
    keys_missing=_pulled.but(of_q=lambda g, q, k: g.sum(axis=1, keepdims=True) * q),
    queries_missing=_pulled.but(of_k=lambda g, q, k: g.sum(axis=0)[:, None] * k),
    product_alone=_pulled.but(of_q=lambda g, q, k: -g @ k, of_k=lambda g, q, k: -g.T @ q),
    q_once=_pulled.but(of_q=lambda g, q, k: q - g @ k),
    k_once=_pulled.but(of_k=lambda g, q, k: k - g.T @ q),
    added=_pulled.but(of_q=lambda g, q, k: g.sum(axis=1, keepdims=True) * q + g @ k),
    averaged=_pulled.but(slope=lambda ds, c, s: -2 * c * ds / (1 + ds.shape[1])),
    by_the_variance=_pulled.but(of_dev=lambda d, dev: d / (2 * dev)),
    deviation_squared=_pulled.but(of_dev=lambda d, dev: 2 * dev * d),
    no_deviations=_pulled.but(times=(1, 0, 1, 0)),
    no_keys=_pulled.but(times=(1, 1, 0, 0)),
    means_first=_pulled.but(order=(0, 2, 1, 3)),
    keys_first=_pulled.but(order=(2, 3, 0, 1)),
    deviations_first=_pulled.but(order=(1, 0, 3, 2)),
)


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


@adjustable
def _at_once(A: Any, W_Q: Any, W_K: Any, W_V: Any, *, weights: Any) -> Any:
    """All rows of B by one (n, n) matrix `weights(L, past)`, whose row t is for item t."""
    past = np.tri(len(A), dtype=bool)
    return np.tril((W_V @ A) @ weights((W_Q @ A).T @ (W_K @ A), past).T)


@adjustable
def _row_by_row(
    A: Any, W_Q: Any, W_K: Any, W_V: Any, *, ends: Any = lambda k: k + 1,
    product: Any = lambda W, A, seen: W[seen, seen] @ A[seen, seen], rows: Any = lambda X: X,
    row: Any = lambda Z, k: Z[-1], weights: Any = ops.softmax, of: Any = lambda z, S: z @ S.T,
) -> Any:  # fmt: skip
    """The repaired form."""
    B = np.zeros_like(A)
    for k in range(len(A)):
        X, Y, Z = (product(W, A, slice(ends(k))) for W in (W_Q, W_K, W_V))
        if len(Z):
            b = of(row(Z, k), weights(rows(X).T @ rows(Y)))
            B[k, : min(k + 1, len(b))] = b[: k + 1]
    return B


WRONG_VALUE = dict(
    literal=_literal,
    softmax_masked=_at_once.but(weights=lambda L, past: ops.softmax(L, past)),
    logits_zeroed=_at_once.but(weights=lambda L, past: ops.softmax(np.where(past, L, 0))),
    weights_masked=_at_once.but(weights=lambda L, past: np.tril(ops.softmax(L))),
    ends_too_early=_row_by_row.but(ends=lambda k: k),
    ends_too_late=_row_by_row.but(ends=lambda k: k + 2, row=lambda Z, k: Z[k]),
    first_row_for_last=_row_by_row.but(row=lambda Z, k: Z[0]),
    row_k_alone=_row_by_row.but(rows=lambda X: X[-1:]),
    row_k_missing=_row_by_row.but(rows=lambda X: X[:-1]),
    softmax_down_columns=_row_by_row.but(weights=lambda L: ops.softmax(L.T).T),
    s_not_transposed=_row_by_row.but(of=lambda z, S: z @ S),
    all_columns=_row_by_row.but(product=lambda W, A, seen: W[seen] @ A),
    masked_inside_the_cut=_row_by_row.but(weights=lambda L: ops.softmax(L, np.tri(len(L), dtype=bool))),
    w_on_the_right=_row_by_row.but(product=lambda W, A, seen: A[seen, seen] @ W[seen, seen]),
    rows_as_tokens=lambda A, W_Q, W_K, W_V: ops.refine_value_rows(A, W_Q, W_K, W_V, np.tri(len(A), dtype=bool))[0],
    no_softmax=_row_by_row.but(weights=lambda L: L),
    scaled_by_the_cut=_row_by_row.but(weights=lambda L: ops.softmax(L / math.sqrt(len(L)))),
    scaled_by_all=lambda A, W_Q, W_K, W_V: _value(A, W_Q / math.sqrt(len(A)), W_K, W_V),
    zeroed_rows=_row_by_row.but(product=lambda W, A, seen: W[:, seen] @ A[seen], row=lambda Z, k: Z[k]),
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
    my_wasserstein_backward=Function(WASSERSTEIN, part="backward", tempting=WRONG_PULLS),
    repaired_value=Function(VALUE, tempting=WRONG_VALUE, missing_steps=NOT_MASKED),
    later_rows_move_nothing=Judge(later_rows_move_nothing, RIGHT_FORMS, WRONG_FORMS, more=(5,)),
    all_better_by_chance=Number(_all_better, tolerance=0.03),
    smallest_difference=Number(_smallest, tolerance=0.035),
)
