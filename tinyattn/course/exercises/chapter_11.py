"""Exercises of chapter 11, before SASRec."""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import close, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ...models import FPMC, SASRec
from ...tree import leaves
from ..graders import Function, Judge, Number
from ..plain import Changes, changed, op_spec, plain_spec
from ..prose import Prose

CHANCES = 0.3, 0.1                                   # of bpr_optimum
PEOPLE, ITEMS = 100_000, 20_000                      # of fpmc_over_sasrec


def _dot(a: Any, b: Any) -> Any:
    return (a * b).sum(axis=-1)


# my_bpr_backward
def _bpr(x: Any, good: Any, bad: Any) -> Any:
    """loss = -log σ(x·good - x·bad). Shapes: x, good, bad (..., d) -> loss (...)."""
    return np.logaddexp(x.dtype.type(0), -_dot(x, good - bad))


def _bpr_backward(dloss: Any, x: Any, good: Any, bad: Any) -> Any:
    """The gradients, by the slope -σ(-z) at z = x·good - x·bad. Shapes: dloss (...), the others (..., d)."""
    s = np.asarray(dloss)[..., None] * -ops.sigmoid(-(_dot(x, good)[..., None] - _dot(x, bad)[..., None]))
    return s * (good - bad), s * x, -s * x


def triple(draw: CaseDrawer, state: str = "x") -> dict[str, Any]:
    shape = (*draw.lead, draw.size())
    return {name: draw.array(*shape, size=0.7) for name in (state, "good", "bad")}


BPR = op_spec(
    "bpr_loss", "loss = -log σ(x·good - x·bad)", triple, _bpr, "loss", backward=_bpr_backward,
    wrt=("x", "good", "bad"))  # fmt: skip


def state_at_large_scores(spec: Spec, state: str, backward: Any) -> None:
    """Add a property: the gradients are right where `state` is 1 and the items are 1,000 and -1,000."""

    def at_large_scores(op: Subject, **case: Any) -> None:
        z = np.array([[1000.0], [-1000.0]])
        large, dloss = {state: np.ones_like(z), "good": z, "bad": -z}, np.ones(2)
        for (name, got), x in zip(op.gradients(large, dloss).items(), backward(dloss, **large), strict=True):
            close(got, x, 1e-6, f"d{name}")

    says = f"the gradients are right, too, where {state} = 1 and the items are 1,000 and -1,000"
    stating(spec.name, spec.properties)("rounding", says, "extremes", once=True)(at_large_scores)


state_at_large_scores(BPR, "x", _bpr_backward)


def _of_pair(dloss: Any, x: Any, good: Any, bad: Any) -> Any:
    """The gradient of -log σ(x·good) - log(1 - σ(x·bad))."""
    up, down = (np.asarray(dloss)[..., None] * ops.sigmoid(z)[..., None] for z in (-_dot(x, good), _dot(x, bad)))
    return down * bad - up * good, -up * x, down * x


WRONG_BPR = Changes(_bpr_backward,
    of_pair=_of_pair,
    dloss_ignored=lambda dloss, x, good, bad: _bpr_backward(np.ones_like(np.asarray(dloss)), x, good, bad),
    of_mean_loss=changed(_bpr_backward, "(dloss)[..., None] -> (dloss)[..., None] / max(np.size(dloss), 1)"),
)


# repaired_fism
def _from_others(Y: Any, Q: Any, alpha: Any) -> Any:
    """n^-α Σⱼ yⱼ · q_t over the n other items j of the user. Shapes: Y, Q (m, d) -> (m,)."""
    return _dot((len(Y) - 1) ** (-alpha) * (Y.sum(axis=0) - Y), Q)


def _likings(draw: CaseDrawer) -> dict[str, Any]:
    m, d = draw.size(3, 6), draw.size(1, 4)
    return {"Y": draw.array(m, d), "Q": draw.array(m, d), "alpha": draw.choose((0.5, 0.0, 1.0, 0.8))}


FISM = plain_spec(
    "fism_scores", "item t is scored by the user's other items, n of them: n^-α Σⱼ yⱼ · q_t, j ≠ t", _likings,
    _from_others, "scores", atol=1e-4)  # fmt: skip


def _shifted(sums: Any, Y: Any) -> Any:
    """Running sums without the item itself: 0 for the first."""
    return sums - Y


WRONG_FISM = Changes(_from_others,
    subtracted_after_scaling=lambda Y, Q, alpha: _dot(Y.sum(axis=0) * (len(Y) - 1) ** -alpha - Y, Q),
    subtracted_q=lambda Y, Q, alpha: (len(Y) - 1) ** -alpha * _dot(Y.sum(axis=0) - Q, Q),
    roles_exchanged=lambda Y, Q, alpha: (len(Y) - 1) ** -alpha * _dot(Q.sum(axis=0) - Q, Y),
)


# my_ease
def _gram(X: Any, l2: Any) -> Any:
    return X.T @ X + l2 * np.eye(X.shape[1])


def _ease(X: Any, l2: Any) -> Any:
    """B = I - P / diag(P) by columns, P = (XᵀX + λ I)⁻¹. Shapes: X (n, m) -> B (m, m)."""
    P = np.linalg.inv(_gram(X, l2))
    B = -P / np.diag(P)
    return B * (1 - np.eye(len(B)))


def _bags(draw: CaseDrawer) -> dict[str, Any]:
    """People with some items each; no two items have the same people."""
    n, m = draw.size(4, 8), draw.size(2, 4)
    X = (draw.rng.random((n, m)) < 0.5).astype(float)
    X[:m] = np.tril(np.ones((n, m)))[:m]
    return {"X": X, "l2": draw.choose((0.5, 3.0, 10.0))}


EASE = plain_spec("ease", "B = I - P / diag(P), column by column, with P = (XᵀX + λ I)⁻¹", _bags, _ease, "B")


def _ridge(X: Any, l2: Any) -> Any:
    return np.linalg.solve(_gram(X, l2), X.T @ X)


def _off(B: Any) -> Any:
    return B * (1 - np.eye(len(B)))


def _cosines(X: Any, l2: Any) -> Any:
    G = X.T @ X
    norms = np.sqrt(np.diag(G)) + 1e-12
    return _off(G / norms / norms[:, None])


WRONG_EASE = Changes(_ease,
    ridge=_ridge,
    ridge_cut=lambda X, l2: _off(_ridge(X, l2)),
    not_inverted=lambda X, l2: _off(-_gram(X, l2) / np.diag(_gram(X, l2))),
    entries_inverted=lambda X, l2: _off(-(1 / (_gram(X, l2) + 1e-12)) * np.diag(_gram(X, l2))),
    divided_by_grams_diagonal=lambda X, l2: _off(-np.linalg.inv(_gram(X, l2)) / np.diag(_gram(X, l2))),
    people_for_items=lambda X, l2: _ease(X.T, l2),
    cosines=_cosines,
    counts=lambda X, l2: _off(X.T @ X),
    scores_returned=lambda X, l2: X @ _ease(X, l2),
)


# fpmc_over_sasrec
def _fpmc_over_sasrec() -> float:
    """The ratio of FPMC's number of parameters to SASRec's, both of width 50."""
    rng, sizes = np.random.default_rng(0), []
    for model in (FPMC(dim=50), SASRec(dim=50, maxlen=50)):
        p = model.make_network(ITEMS, PEOPLE).init(rng)
        sizes.append(sum(leaf.size for _, leaf in leaves(p)))
    return sizes[0] / sizes[1]


# my_lanes
def _lanes(sessions: Any, lanes: Any) -> Any:
    """ids, targets, starts (T, lanes): each lane reads a session, then the next session that no lane has read."""
    waiting, steps = list(sessions), list[Any]()
    reading: list[Any] = [None] * lanes              # (session, place); a lane with a place below 0 waits
    while True:
        for lane in range(lanes):
            if reading[lane] is None and waiting:
                reading[lane] = [waiting.pop(0), 0]
        if not any(reading):
            break
        row = []
        for lane, now in enumerate(reading):
            if now is None or now[1] < 0:
                row.append((0, 0, False))
            else:
                s, t = now
                item, target = s[t], s[t + 1]
                row.append((item, target, t == 0))
            if now is not None:
                now[1] += 1
                if now[1] >= len(now[0]) - 1:
                    reading[lane] = None
        steps.append(row)
        if all(now is None for now in reading):      # all lanes have ended: each takes a new session
            for lane in range(lanes):
                if waiting:
                    reading[lane] = [waiting.pop(0), 0]
    ids, targets, starts = (np.array([[one[i] for one in row] for row in steps]) for i in range(3))
    return ids, targets, starts.astype(bool)


def _sessions(draw: CaseDrawer) -> dict[str, Any]:
    """Sessions of two items or more, mostly more of them than lanes."""
    lengths = [draw.size(2, 5) for _ in range(draw.size(1, 6))]
    return {"sessions": [draw.rng.integers(1, 10, n) for n in lengths], "lanes": draw.choose((2, 1, 3))}


LANES = plain_spec(
    "lanes", "each lane reads a session item by item, then the next one that waits; 0 where none is left", _sessions,
    _lanes, "ids", "targets", "starts", atol=0)  # fmt: skip


def _by_columns(share: Any, joined: bool = False) -> Any:
    """Lanes whose sessions are fixed at the beginning: lane i reads share(sessions, lanes, i)."""

    def made(sessions: Any, lanes: Any) -> Any:
        columns = []
        for lane in range(lanes):
            runs = [[(int(x), i == 0) for i, x in enumerate(s)] for s in share(sessions, lanes, lane)]
            runs = [[x for run in runs for x in run]] if joined else runs
            columns.append([(a, b, first) for run in runs for (a, first), (b, _) in pairwise(run)])
        T = max(map(len, columns))
        table = [[c[t] if t < len(c) else (0, 0, False) for c in columns] for t in range(T)]
        return tuple(np.array([[one[i] for one in row] for row in table]) for i in range(3))

    return made


def _after(change: Any) -> Any:
    """The right batch, changed afterwards."""
    return lambda sessions, lanes: change(*_lanes(sessions, lanes))


WRONG_LANES = Changes(_lanes,
    shared_out_in_turn=_by_columns(lambda sessions, lanes, lane: sessions[lane::lanes]),
    shared_out_in_blocks=_by_columns(
        lambda sessions, lanes, lane: sessions[len(sessions) * lane // lanes : len(sessions) * (lane + 1) // lanes]
    ),
    across_sessions=_by_columns(lambda sessions, lanes, lane: sessions[lane::lanes], joined=True),
    no_next_session=lambda sessions, lanes: _lanes(sessions[:lanes], lanes),
    exchanged=_after(lambda ids, targets, starts: (targets, ids, starts)),
    lanes_first=_after(lambda ids, targets, starts: (ids.T, targets.T, starts.T)),
    starts_once=_after(lambda ids, targets, starts: (ids, targets, starts & (np.arange(len(ids)) == 0)[:, None])),
    starts_turned=_after(lambda ids, targets, starts: (ids, targets, ~starts)),
    starts_of_all=_after(lambda ids, targets, starts: (ids, targets, starts | starts.any(axis=1, keepdims=True))),
    minus_one=_after(lambda ids, targets, starts: (ids - (ids == 0), targets - (targets == 0), starts)),
)


# ignores_order
_RNG = np.random.default_rng(20)
_Y, _Q, _B = _RNG.standard_normal((13, 4)), _RNG.standard_normal((13, 4)), _RNG.standard_normal((13, 13))


def _ignores_order(score: Any) -> bool:
    """score(history) is the same for every order of the history."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        history = rng.permutation(12)[: rng.integers(4, 9)] + 1
        if not np.allclose(score(history), score(rng.permutation(history))):
            return False
    return True


def _reading(x: Any) -> Any:
    """score(history) = q · x(y) for every item's q, where y are the rows of _Y for the history."""
    return lambda history: _Q @ x(_Y[np.asarray(history)])


ORDERLESS = dict(
    sums=_reading(lambda y: len(y) ** -0.5 * y.sum(axis=0)),
    weights=lambda history: _B[np.asarray(history)].sum(axis=0),
    strongest=_reading(lambda y: y.max(axis=0)),
    pairs=_reading(lambda y: sum(a * b for i, a in enumerate(y) for b in y[:i]) + 0 * y[0]),
    nothing=lambda history: _Q[:, 0],
)
ORDERED = dict(
    last=_reading(lambda y: y[-1]),
    first=_reading(lambda y: y[0]),
    fading=_reading(lambda y: (0.5 ** np.arange(len(y))[::-1, None] * y).sum(axis=0)),
    window=_reading(lambda y: y[-2:].sum(axis=0)),
    neighbours=_reading(lambda y: (y[1:] * y[:-1]).sum(axis=0)),
    ring=_reading(lambda y: (y * np.roll(y, 1, axis=0)).sum(axis=0)),
)


EXERCISES = Prose(11).exercises(
    my_bpr_backward=Function(BPR, part="backward", tempting=WRONG_BPR),
    # z with σ(z) = p_A / (p_A + p_B), where the slopes of both kinds of pairs cancel
    bpr_optimum=Number(lambda: math.log(CHANCES[0] / CHANCES[1]), tolerance=0.01),
    repaired_fism=Function(FISM, tempting=WRONG_FISM),
    my_ease=Function(EASE, tempting=WRONG_EASE),
    ignores_order=Judge(_ignores_order, ORDERLESS, ORDERED),
    fpmc_over_sasrec=Number(_fpmc_over_sasrec, tolerance=0.045),
    my_lanes=Function(LANES, tempting=WRONG_LANES),
)
