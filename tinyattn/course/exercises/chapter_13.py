"""Exercises of chapter 13, paying attention to attention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..exercise import Exercise
from ..graders import Function, Judge, Judged, Number
from ..plain import plain_spec

CHAPTER = 13
REFINEMENTS, SEEDS, SPREAD = 3, 3, 3.0               # of all_better_by_chance; of smallest_difference, in percent
T = {2: 4.303, 4: 2.776, 7: 2.365}                   # Student's t, two-sided 95 %, by degrees of freedom


def _all_better() -> float:
    """Of all orders in which runs can end, the share with the host's below all others."""
    orders = list(itertools.permutations(range(1 + REFINEMENTS)))
    return sum(order[0] == 0 for order in orders) / len(orders)


def _smallest(t: float = T[2 * SEEDS - 2], runs: float = SEEDS / 2) -> float:
    return t * SPREAD / math.sqrt(runs)


# --- my_refine_backward ---------------------------------------------------------------------------------------------


def _refine(A: Any, W_Q: Any, W_K: Any, c: float) -> Any:
    return ops.refine_simp(A, W_Q, W_K, c)[0]


def _refine_backward(dB: Any, A: Any, W_Q: Any, W_K: Any, c: float) -> tuple[Any, Any, Any]:
    return ops.refine_simp_backward(dB, A, W_Q, W_K, A @ W_Q, A @ W_K, c)


def _scores_and_maps(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 4)
    A, W_Q, W_K = (draw.array(n, n) for _ in range(3))
    return {"A": A, "W_Q": W_Q, "W_K": W_K, "c": draw.choose((0.5, 1.0, 0.25))}


REFINE = Spec(
    name="refine",
    says="B = c X Yᵀ, X = A W_Q, Y = A W_K",
    function="refine",
    case=_scores_and_maps,
    ours=lambda: SimpleNamespace(refine=_refine, refine_backward=_refine_backward),
    properties=[],
    outputs=("B",),
    oracle=_refine,
    wrt=("A", "W_Q", "W_K"),
    scale=lambda case: 1 + float(np.prod([max(1.0, np.abs(x).sum()) for x in case.values()])),
)


def _backward_with(
    of_X: Any = lambda dB, Y, c: c * dB @ Y, of_Y: Any = lambda dB, X, c: c * dB.T @ X,
    of_A: Any = lambda dX, dY, W_Q, W_K: dX @ W_Q.T + dY @ W_K.T, of_W_Q: Any = lambda A, X, d: A.T @ d,
    of_W_K: Any = lambda A, Y, d: A.T @ d, order: tuple[int, int, int] = (0, 1, 2), crossed: bool = False,
    times: Any = lambda c, n: (1, 1, 1),
) -> Any:  # fmt: skip
    """The backward, with one line written otherwise; `crossed`, X stands where Y belongs; `times` are factors of it."""

    def backward(dB: Any, A: Any, W_Q: Any, W_K: Any, c: float) -> Any:
        X, Y = A @ W_Q, A @ W_K
        dX, dY = (of_X(dB, X, c), of_Y(dB, Y, c)) if crossed else (of_X(dB, Y, c), of_Y(dB, X, c))
        found = of_A(dX, dY, W_Q, W_K), of_W_Q(A, X, dX), of_W_K(A, Y, dY)
        return tuple(times(c, len(A))[i] * found[i] for i in order)

    return backward


_USED = "Row k of X is used in which entries of B: a row, or a column?"
_TWICE = "How often is A read in B = c (A W_Q)(A W_K)ᵀ?"
_BOTH = "A was read for X and for Y: both gradients belong to dA, and add."
_ALSO_T = "Each gradient goes back through the map that it came by. Are both maps transposed in yours?"
_WHERE_C = "Which of your three gradients double when c is doubled?"
_WRONG_W = (                                         # a line for dW_Q, and in letters of Q and X what is said of it
    (lambda A, X, d: A @ d, "X = A W_Q. Which of A and Aᵀ meets dX in dW_Q?", "dW_Q = Aᵀ dX."),
    (lambda A, X, d: d @ A.T, "X = A W_Q. On which side of dX does A stand in dW_Q?", "A stands left: dW_Q = Aᵀ dX."),
    (lambda A, X, d: d.T @ A, "dW_Q has the shape of W_Q: is it transposed in yours?",
     "That is the transpose: dW_Q = Aᵀ dX."),
    (lambda A, X, d: X.T @ d, "X = A W_Q. What did W_Q multiply: A, or X?", "W_Q met A: dW_Q = Aᵀ dX."),
    (lambda A, X, d: d, "X = A W_Q. Where does A come in?", "dW_Q = Aᵀ dX: Aᵀ is missing."),
)  # fmt: skip
_OF_KEYS = str.maketrans("QX", "KY")
WRONG_BACKWARD = (
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q.T), _TWICE, _BOTH),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dY @ W_K.T), _TWICE, _BOTH),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: (dX @ W_Q.T + dY @ W_K.T) / 2),
     "Do gradients of several readings add, or are they averaged?", "They add: no division by 2."),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q.T - dY @ W_K.T),
     "Do gradients of several readings add?", "It is a sum, not a difference."),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q + dY @ W_K),
     "X = A W_Q. Is dA = dX W_Q, or is W_Q transposed?", "dA = dX W_Qᵀ + dY W_Kᵀ."),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q + dY @ W_K.T), _ALSO_T, "W_Q is not: dX W_Qᵀ."),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dX @ W_Q.T + dY @ W_K), _ALSO_T, "W_K is not: dY W_Kᵀ."),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: dX @ W_K.T + dY @ W_Q.T), "Which map made X, and which Y?",
     "The maps have changed places in dA: X was made by W_Q."),
    (_backward_with(of_X=lambda dB, Y, c: dB @ Y, of_Y=lambda dB, X, c: dB.T @ X), "If c is doubled, what does dX do?",
     "The constant c is missing."),
    (_backward_with(of_Y=lambda dB, X, c: dB.T @ X), "If c is doubled, what does dY do?",
     "c is missing in dY: B = (c X) Yᵀ."),
    (_backward_with(of_X=lambda dB, Y, c: dB @ Y), "If c is doubled, what does dX do?", "c is missing in dX."),
    (_backward_with(of_X=lambda dB, Y, c: c * c * dB @ Y, of_Y=lambda dB, X, c: c * c * dB.T @ X),
     "How often does c stand in B?", "c stands in B once, and so in dX and in dY."),
    (_backward_with(of_Y=lambda dB, X, c: c * dB @ X), "Row t of Y is used in which entries of B: a row, or a column?",
     "dY = c dBᵀ X: row t of Y made column t of B."),
    (_backward_with(of_X=lambda dB, Y, c: c * dB.T @ Y), _USED,
     "dX = c dB Y: row k of X made row k of B."),
    (_backward_with(of_X=lambda dB, Y, c: c * dB.T @ Y, of_Y=lambda dB, X, c: c * dB @ X),
     _USED, "dB and dBᵀ have changed places."),
    (_backward_with(times=lambda c, n: (1, 1 / c, 1 / c)), _WHERE_C, "All three do: c is missing in dW_Q and dW_K."),
    (_backward_with(times=lambda c, n: (1 / c, 1, 1)), _WHERE_C, "All three do: c is missing in dA."),
    (_backward_with(times=lambda c, n: (1 / c**2,) * 3), _WHERE_C, "Yours become half as large: c multiplies B."),
    (_backward_with(times=lambda c, n: (1 / (c * math.sqrt(n)),) * 3), _WHERE_C, "c is given, and need not be 1/√n."),
    (_backward_with(times=lambda c, n: (-1, -1, -1)), "If an entry of B grows with A, which sign has its gradient?",
     "Nothing in B = c X Yᵀ is subtracted: all signs are reversed."),
    *((_backward_with(of_W_Q=f, of_W_K=f), *said) for f, *said in _WRONG_W),
    *((_backward_with(of_W_Q=f), *said) for f, *said in _WRONG_W),
    *((_backward_with(of_W_K=f), *(text.translate(_OF_KEYS) for text in said)) for f, *said in _WRONG_W),
    (_backward_with(of_X=lambda dB, Y, c: c * np.tril(dB) @ Y, of_Y=lambda dB, X, c: c * np.tril(dB).T @ X),
     "Is there a mask in B = c X Yᵀ?", "The mask comes after B; dB is masked already where it comes from."),
    (_backward_with(of_A=lambda dX, dY, W_Q, W_K: np.tril(dX @ W_Q.T + dY @ W_K.T)), "Is there a mask in B = c X Yᵀ?",
     "Every entry of A was multiplied: dA is not triangular."),
    (_backward_with(of_X=lambda dB, X, c: c * dB @ X, of_Y=lambda dB, Y, c: c * dB.T @ Y, crossed=True),
     "Which factor met X in B?", "X and Y have changed places: dX = c dB Y."),
    (_backward_with(order=(0, 2, 1)), "In which order are the gradients asked for?", "dW_Q comes before dW_K."),
    (_backward_with(order=(1, 2, 0)), "In which order are the gradients asked for?", "dA comes first."),
)  # fmt: skip


# --- repaired_value -------------------------------------------------------------------------------------------------


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


def _at_once(weights: Any) -> Any:
    """All rows of B by one (n, n) matrix of weights, `weights(L, past)`, row t those for item t."""

    def refine(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
        past = np.tri(len(A), dtype=bool)
        return np.tril((W_V @ A) @ weights((W_Q @ A).T @ (W_K @ A), past).T)

    return refine


def _row_by_row(
    ends: Any = lambda k: k + 1, product: Any = lambda W, A: W @ A, rows: Any = lambda X: X,
    row: Any = lambda Z, k: Z[-1], weights: Any = ops.softmax, of: Any = lambda z, S: z @ S.T,
) -> Any:  # fmt: skip
    """The repaired form, with one line written otherwise."""

    def refine(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
        B = np.zeros_like(A)
        for k in range(len(A)):
            seen = slice(ends(k))
            X, Y, Z = (product(W[seen, seen], A[seen, seen]) for W in (W_Q, W_K, W_V))
            if len(Z):
                b = of(row(Z, k), weights(rows(X).T @ rows(Y)))
                B[k, : min(k + 1, len(b))] = b[: k + 1]
        return B

    return refine


def _all_columns(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    """Rows up to k in the sum, but all columns in the softmax."""
    B = np.zeros_like(A)
    for k in range(len(A)):
        X, Y, Z = (W[: k + 1] @ A for W in (W_Q, W_K, W_V))
        B[k, : k + 1] = (Z[-1] @ ops.softmax(X.T @ Y).T)[: k + 1]
    return B


def _zeroed_rows(A: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    """Later rows of A are 0; the maps are whole."""
    B = np.zeros_like(A)
    for k in range(len(A)):
        seen = np.where(np.arange(len(A))[:, None] <= k, A, 0)
        B[k, : k + 1] = _literal(seen, W_Q, W_K, W_V)[k, : k + 1]
    return B


_SUM = "(XᵀY)_tj = Σ_i x_it y_ij: over which i does it run, for row k?"
WRONG_VALUE = (
    (_literal, "When B is returned, how many rows of A is its first row made of?",
     "Of all: either XᵀY still sums over all rows, or a later turn of the loop overwrote the earlier rows of B."),
    (_at_once(lambda L, past: ops.softmax(L, past)), _SUM,
     "S is masked, but every entry of XᵀY still sums over all rows of A. Row k needs a sum of its own."),
    (_at_once(lambda L, past: ops.softmax(np.where(past, L, 0))), _SUM,
     "Entries of XᵀY are hidden, but those that are left still sum over all rows of A."),
    (_at_once(lambda L, past: np.tril(ops.softmax(L))), _SUM,
     "S is masked after its softmax, and every entry of XᵀY still sums over all rows of A."),
    (_row_by_row(ends=lambda k: k), "Does row k know of token k?", "The slice ends one too early: slice(k + 1)."),
    (_row_by_row(ends=lambda k: k + 2, row=lambda Z, k: Z[k]), "Does row k know of token k + 1?",
     "The slice ends one too late: slice(k + 1)."),
    (_row_by_row(row=lambda Z, k: Z[0]), "Which row of the shorter sequence is token k's?",
     "Row k of B is the *last* row of the shorter sequence: Z[-1], or Z[k]."),
    (_row_by_row(rows=lambda X: X[-1:]), _SUM, "Only row k is in the sum. All rows up to k belong to it."),
    (_row_by_row(rows=lambda X: X[:-1]), _SUM, "Row k itself is missing in the sum."),
    (_row_by_row(weights=lambda L: ops.softmax(L.T).T), "Along which axis does the softmax of the printed form run?",
     "The softmax runs down the columns. Row t of S has the weights of all j for t."),
    (_row_by_row(of=lambda z, S: z @ S), "S, or its transpose?", "b_kt = Σ_j z_kj S_tj: it is Z Sᵀ."),
    (_all_columns, "Softmax of 0 is not 0: what do columns after k weigh?",
     "Columns after k are 0 in XᵀY, and still have weights in its softmax: cut the columns, too."),
    (_row_by_row(weights=lambda L: ops.softmax(L, np.tri(len(L), dtype=bool))),
     "For t < k, may row t of S weigh columns between t and k?", "The cut has no mask inside it."),
    (_row_by_row(product=lambda W, A: A @ W), "On which side of A does W stand in equation 3?",
     "That is A W, not W A."),
    (lambda A, W_Q, W_K, W_V: ops.refine_value_rows(A, W_Q, W_K, W_V, np.tri(len(A), dtype=bool))[0],
     "On which side of A does W stand in equation 3?", "That is causal, but another form: rows of A as tokens."),
    (_row_by_row(weights=lambda L: L), "Where is the softmax?", "The softmax is missing."),
    (_row_by_row(weights=lambda L: ops.softmax(L / math.sqrt(len(L)))), "Has equation 3 a scale?",
     "There is no scale in equation 3."),
    (lambda A, W_Q, W_K, W_V: _value(A, W_Q / math.sqrt(len(A)), W_K, W_V), "Has equation 3 a scale?",
     "There is no scale in equation 3."),
    (_zeroed_rows, "What is row i > k of W A, if A's later rows are 0?",
     "Rows of W after k still meet A's first rows: cut the maps, and the columns, too."),
    (lambda A, W_Q, W_K, W_V: _value(A, W_K, W_Q, W_V), "X = W_Q A and Y = W_K A: is XᵀY the same the other way round?",
     "The maps of X and Y have changed places."),
    (lambda A, W_Q, W_K, W_V: np.tril(W_V @ A), "What has become of S?", "That is Z alone."),
)  # fmt: skip
NOT_MASKED = (
    (np.tril, "On which side of the diagonal does your B differ from what is expected?",
     "Only entries above the diagonal differ, and these are to be 0: np.tril(B). All others are right."),
)  # fmt: skip


# --- later_rows_move_nothing ----------------------------------------------------------------------------------------


def _maps(n: int) -> Any:
    return np.random.default_rng(n).standard_normal((3, n, n)) / math.sqrt(n)


def _simp(A: Any) -> Any:
    return ops.refine_simp(A, *_maps(len(A))[:2])[0]


def _rows(A: Any, mask: Any = None) -> Any:
    W_Q, W_K, W_V = _maps(len(A))
    return ops.refine_value_rows(A, W_Q, W_K, W_V, mask)[0]


def _next_rows(A: Any) -> Any:
    """Row k of A, less the row after it."""
    return A - np.vstack([A[1:], 0 * A[:1]])


def later_rows_move_nothing(refine: Callable[..., Any], n: int) -> bool:
    """True where entries of B on and below the diagonal, in rows up to k, stay when rows of A after k change."""
    A, other = np.tril(np.random.default_rng(0).standard_normal((2, n, n)))
    counts = np.tri(n, dtype=bool)
    for k in range(n - 1):
        changed = np.vstack([A[: k + 1], other[k + 1 :]])
        if not np.all((refine(changed) == refine(A))[: k + 1] | ~counts[: k + 1]):
            return False
    return True


_ABOVE = "b_kt with t > k is made of row t. Is it used, after B is masked?"
_SMALL = "Does yours compare to the last bit, or with a tolerance?"
FORMS = (
    Judged("refine(A) = A: no refinement at all", lambda A: A + 0.0,
           question="Did anything change in your A but rows after k?",
           diagnosis="Change rows after k alone, and compare rows up to k."),
    Judged("M_simp: b_kt is made of the rows k and t of A", _simp, question=_ABOVE,
           diagnosis="Above the diagonal B may move: it is masked. And A is lower triangular before and after your "
           "change: rows up to k must not change in any column."),
    Judged("M_add", lambda A: (_simp(A) + A) / 2, question=_ABOVE),
    Judged("M_value, repaired", lambda A: _value(A, *_maps(len(A))),
           question="Are your changed rows finite numbers? 0 · NaN is NaN.",
           diagnosis="Change later rows to other finite numbers: the library multiplies what it has masked by 0."),
    Judged("M_value by rows, its softmax masked", lambda A: _rows(A, np.tri(len(A), dtype=bool))),
    Judged("equation 3 as printed", lambda A: ops.refine_value_literal(A, *_maps(len(A)))[0], right=False,
           question="Did a row of A after k change, and did you look at the rows of B before it?",
           diagnosis="Call refine twice: with A, and with other rows after k. Compare rows up to k, t <= k."),
    Judged("equation 3 with triangular maps", lambda A: _literal(A, *map(np.tril, _maps(len(A)))), right=False,
           question="Did a row of A after k change, and did you look at the rows of B before it?"),
    Judged("M_value by rows, its softmax not masked", _rows, right=False,
           question="Which entries of B do you compare?"),
    Judged("every row less the next one", _next_rows, right=False,
           question="Does the row right after k change in yours?",
           diagnosis="Rows from k + 1 on must change: k + 1 itself as well."),
    Judged("every row, and a tenth of the last one", lambda A: A + 0.1 * A[-1], right=False,
           question="Does the last row change in yours?"),
    Judged("the diagonal alone knows of the row after it", lambda A: A + np.diag(np.append(A[1:, 0], 0)), right=False,
           question="Does the diagonal of B count?", diagnosis="b_kk counts: token k looks at itself."),
    Judged("the first row alone knows of the last one", lambda A: A + A[-1, -1] * (np.arange(len(A)) == 0)[:, None],
           right=False, question="Does every row before the change count in your comparison, the first one, too?"),
    Judged("the last row but one alone knows of the last", lambda A: A + np.eye(len(A))[:, [-2]] * A[-1, 0],
           right=False, question="Is every k tried, the last but one, too?", diagnosis="Try every k from 0 to n - 2."),
    Judged("the first row alone knows of the second", lambda A: A + np.eye(len(A))[:, [0]] * A[1, 0], right=False,
           question="Is every row after k changed in yours, and every k tried, 0 as well?",
           diagnosis="Only row 0 moves, and only with row 1: that is k = 0."),
    Judged("the second row alone knows of the third", lambda A: A + np.eye(len(A))[:, [1]] * A[2, 0], right=False,
           question="Is every row after k changed in yours, and every k tried?",
           diagnosis="Only row 1 moves, and only with row 2: that is k = 1."),
    Judged("entries below the diagonal alone know of the last row",
           lambda A: A + A[-1, 0] * np.tri(len(A), k=-1), right=False,
           question="Do you compare entries of B below the diagonal?",
           diagnosis="b_kt with t < k counts, too, not the diagonal alone: token k looks at all tokens before it."),
    Judged("entries below the diagonal know of the last row, but for those of the first column",
           lambda A: A + A[-1, 0] * np.tri(len(A), k=-1) * (np.arange(len(A)) > 0), right=False,
           question="Which columns of B do you compare?",
           diagnosis="Every b_kt with t <= k counts, not only those of the first column or on the diagonal."),
    Judged("A, and a millionth of the mean of its rows", lambda A: A + 1e-6 * A.mean(axis=0), right=False,
           question=_SMALL, diagnosis="A small leak is a leak: training makes it larger. What is right keeps every "
           "bit, so compare with np.array_equal, or with np.allclose and rtol=0 and atol=1e-9 (its own rtol is 1e-5)."),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_refine_backward",
        "derive the backward",
        difficulty=2,
        minutes=12,
        task="dA, dW_Q and dW_K of B = c (A W_Q)(A W_K)ᵀ, from dB",
        grader=Function(REFINE, part="backward", tempting=WRONG_BACKWARD),
        hints=(
            "B = c X Yᵀ is a product: which of its factors is met by dB, and which by dBᵀ? And how often is A read?",
            "dX = c dB Y and dY = c dBᵀ X. Then dW_Q = Aᵀ dX, dW_K = Aᵀ dY, and dA = dX W_Qᵀ + dY W_Kᵀ.",
        ),
        why="Row k of X made row k of B, and row t of Y made column t: hence dB for one and dBᵀ for the other. A was "
        "read as queries and as keys, and what was read twice has a gradient from each.",
    ),
    Exercise(
        "repaired_value",
        "find the bug",
        difficulty=3,
        minutes=10,
        task="buggy_value, row k made of the first k + 1 rows and columns alone",
        grader=Function(VALUE, tempting=WRONG_VALUE, lacking=NOT_MASKED),
        hints=(
            "Write out one entry of XᵀY for n = 3. Which rows of A are in it, whatever is masked?",
            "For each k cut A and the maps to [: k + 1, : k + 1], compute X, Y and Z of the cuts, S = softmax(XᵀY), "
            "and put Z[-1] Sᵀ into B[k, : k + 1].",
        ),
        why="XᵀY is a sum over rows, and a row is a token: a mask hides entries, and each entry that is left holds all "
        "rows. So every k needs its own sum, over rows up to k, and its own softmax, over columns up to k.",
    ),
    Exercise(
        "later_rows_move_nothing",
        "write the property that kills this bug",
        difficulty=2,
        minutes=10,
        task="later_rows_move_nothing(refine, n) -> True where every entry of B that counts stays when later rows of A "
        "change, to the last bit (np.array_equal), else False",
        grader=Judge(FORMS, later_rows_move_nothing, given=(5,)),
        hints=(
            "Which rows of A may you change without token k's knowing, and which entries of B are used after the mask?",
            "For every k from 0 to n - 2: keep the rows of A up to k, take other ones after them (lower triangular, "
            "too), and compare B[i, t] for t <= i <= k, to the last bit.",
        ),
        why="Row k of A is all that token k has said. What is above the diagonal of B is masked later and may know "
        "everything, so M_simp passes; equation 3 sums over all rows, so that every entry moves.",
    ),
    Exercise(
        "all_better_by_chance",
        "predict the number",
        difficulty=2,
        minutes=5,
        task="the probability that three other seeds are all better than the host's one run",
        grader=Number(
            _all_better,
            tolerance=0.03,
            tempting=(
                (lambda: 0.5**REFINEMENTS, "If the host's run was an unlucky one, what of each of the three?",
                 "1/8 would be right for three comparisons that know nothing of each other. These share the host."),
                (lambda: 100 / (1 + REFINEMENTS), "Between which numbers does a probability lie?",
                 "That is in percent."),
                (lambda: 0.5, "That is for one refinement. And all three?"),
                (lambda: 1 / math.factorial(1 + REFINEMENTS), "Does the order of the three matter?",
                 "1/24 is one order of all four runs. In 6 of the 24 the host is the lowest."),
                (lambda: 1 / REFINEMENTS, "How many runs are there, the host's included?"),
                (lambda: 1 - 0.5**REFINEMENTS, "Is one of the three enough?",
                 "That would be that at least one is better, if they knew nothing of each other."),
                (lambda: 1 - 1 / (1 + REFINEMENTS), "Is one of the three enough?",
                 "That is the probability that at least one is better. All three are asked for."),
            ),
        ),
        hints=(
            "Four runs of one method: which of them is the lowest?",
            "All three are better exactly if the host's run is the lowest of four that are alike.",
        ),
        why="Four runs are draws of the same thing, so each is the lowest equally often: 1/4. The three comparisons "
        "are not independent, because all of them have the same run on the other side.",
    ),
    Exercise(
        "smallest_difference",
        "predict the number",
        difficulty=2,
        minutes=5,
        task="the half width of the 95 % interval, in percent, for s = 3 % and three seeds of each",
        grader=Number(
            _smallest,
            tolerance=0.035,
            tempting=(
                (lambda: _smallest(runs=SEEDS), "Is the host's mean known exactly?",
                 "Both means are off: √(1/3 + 1/3), not √(1/3). (With t = 1.96 and both you get as much.)"),
                (lambda: _smallest(t=T[2]), "How many degrees of freedom have two means of three runs?",
                 "2 · 3 - 2 = 4, so t = 2.776."),
                (lambda: _smallest(runs=1), "How far is a mean of three off, if one run is off by s?",
                 "That is t s. A mean of three varies less than one run."),
                (lambda: _smallest(t=1), "How many standard errors does an interval of 95 % reach to each side?",
                 "That is one standard error of the difference; the interval reaches t of them."),
                (lambda: T[7] * SPREAD * math.sqrt(1 / 3 + 1 / 6), "How many runs of the host are there here?",
                 "That is for six runs of the host, as on the page; here both have three."),
                (lambda: _smallest() / 2, "Is ± already half of the interval?", "It is: ± is half of it."),
                (lambda: SPREAD, "s is how far one run is off, typically. And the difference of two means of three?"),
                (lambda: _smallest() / 100, "In percent?", "That is the share: 100 times as much in percent."),
                (lambda: 2 * _smallest(), "Is it the width of the interval, or half of it?"),
            ),
        ),
        hints=(
            "What is the standard deviation of a mean of three runs, and of the difference of two such means?",
            "t s √(1/3 + 1/3), with t = 2.776 for 2 · 3 - 2 = 4 degrees of freedom and s = 3.",
        ),
        why="2.776 · 3 · √(2/3) = 6.8. With so few runs s itself is uncertain, so t is larger than 1.96.",
    ),
)  # fmt: skip
