"""Exercises of chapter 22, making it fast."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...layers.mixers.multi_head import merge as _together
from ...layers.mixers.multi_head import split as _apart
from ..costs import counted, peak, steps
from ..exercise import WRONG, Grade
from ..graders import Function, Judge, Number
from ..plain import Changes, plain_spec
from ..prose import Prose
from .chapter_18 import _row_max
from .chapter_21 import _atol

STEP_MS, PRODUCTS_MS = 98.9, (30.4, 23.9)    # the chapter's profile: a whole step; products of linear maps, attention
ROUNDS, CLOSE = 15, 0.12                     # of repaired_benchmark: measured rounds, and the tolerance


def _transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


# my_heads
def _heads(q: Any, k: Any, v: Any, heads: Any) -> Any:
    """All heads in one product."""
    q, k, v = (_apart(x, heads) for x in (q, k, v))
    return _together(ops.softmax(q @ _transposed(k) * np.asarray(1 / math.sqrt(q.shape[-1]), q.dtype)) @ v)


def _some_heads(draw: CaseDrawer) -> dict[str, Any]:
    batch, n, heads, d = draw.size(1, 2), draw.size(1, 4), draw.choose((2, 3, 1)), draw.size(1, 3)
    q, k, v = (draw.array(batch, n, heads * d) for _ in range(3))
    return {"q": q, "k": k, "v": v, "heads": heads}


HEADS = plain_spec("heads", "head i is attention of the i-th d features of q, k and v", _some_heads, _heads, "out",
                   atol=_atol)  # fmt: skip


def _loops_over_no_heads(answer: Any) -> Grade | None:
    """The grade of an answer that takes Python more steps for more heads, or None."""
    x = np.random.default_rng(0).standard_normal((1, 3, 32))
    few, many = (counted(steps, answer.__wrapped__, x, x, x, heads) for heads in (2, 16))
    return None if many < few + 42 else Grade(
        WRONG, f"the numbers are right, but Python takes {few:,} steps for 2 heads and {many:,} for 16.", (),
        "Which of your lines runs once for each head?",
        "Yours: a loop over heads. Give q, k and v an axis for the heads, and `@` takes all of them at once.",
    )  # fmt: skip


def _of_the_keys(s: Any) -> Any:
    return _transposed(ops.softmax(np.ascontiguousarray(_transposed(s))))


def _across_heads(s: Any) -> Any:
    e = np.exp(s - s.max())
    return e / e.sum(axis=1, keepdims=True)


def _not_joined(x: Any) -> Any:
    batch, heads, n, d = x.shape
    return x.reshape(batch, n, heads * d)


WRONG_HEADS = Changes(_heads,
    one_head=lambda q, k, v, heads: _heads(q, k, v, 1),
    keys_ask=lambda q, k, v, heads: _heads(k, q, v, heads),
    keys_for_values=lambda q, k, v, heads: _heads(q, k, k, heads),
    queries_for_keys=lambda q, k, v, heads: _heads(q, q, v, heads),
)


# my_softmax_in_place
def _in_place(s: Any, mask: Any) -> Any:
    """Masked softmax, line by line, with new arrays."""
    hidden = np.where(mask, s, -np.inf)
    most = hidden.max(axis=-1, keepdims=True)
    e = np.exp(hidden - np.where(np.isneginf(most), 0, most))
    sums = e.sum(axis=-1, keepdims=True)
    return e / np.where(sums == 0, 1, sums)


def _masked_scores(draw: CaseDrawer) -> dict[str, Any]:
    n, m, size = draw.size(1, 4), draw.size(1, 5), draw.choose((1, 4, 2000))
    shape = (2, n, m) if draw.flag() else (n, m)
    return {"s": draw.array(*shape, size=size), "mask": draw.mask(n, m)}


def _far_scores() -> list[dict[str, Any]]:
    """Large ones, small ones, both, a hidden one that is large, and a row with nothing allowed."""
    all_seen, last_hidden = np.ones((2, 2), bool), np.array([[True, False], [True, True]])
    rows = (([[1000.0, 1001.0], [1.0, 2.0]], all_seen), ([[-1000.0, -1001.0], [1.0, 2.0]], all_seen),
            ([[1000.0, 1001.0], [-1000.0, -1001.0]], all_seen), ([[0.0, 1000.0], [1.0, 2.0]], last_hidden),
            ([[1.0, 2.0], [3.0, 4.0]], np.array([[False, False], [True, True]])))  # fmt: skip
    return [{"s": np.array(s), "mask": mask} for s, mask in rows]


SOFTMAX = plain_spec(
    "softmax_in_place", "hidden entries are 0, and the others of a row are exp(s) over their sum", _masked_scores,
    lambda s, mask: ops.softmax(s, mask), "p", atol=lambda case: 1e-9 if case["s"].dtype == np.float64 else 1e-3,
    extreme="logits of 1,000 and -1,000 are safe, hidden ones too, and a row with nothing allowed is 0",
    extremes=_far_scores())  # fmt: skip
SIDE = 128


def _makes_no_second_array(answer: Any) -> Grade | None:
    """The grade of an answer that holds a second array of floats as large as s, or None."""
    s, mask = np.random.default_rng(0).standard_normal((8, SIDE, SIDE)), np.tri(SIDE, dtype=bool)
    most = counted(peak, answer.__wrapped__, s, mask) / s.nbytes
    return None if most < 0.6 else Grade(
        WRONG, f"the numbers are right, but beside s it holds {most:.1f} arrays of that size at its height.", (),
        "Which of your lines makes an array as large as s?",
        "Yours: a second array of floats. Write each result into s: `s -= ...`, `np.exp(s, out=s)`, `s /= ...`.",
    )  # fmt: skip


# my_chunked_loss
def _chunked(h: Any, E: Any, targets: Any, chunk: Any) -> Any:
    """The loss and its gradients, a chunk of items at a time."""
    n, V = len(h), len(E)
    m, l, right = np.full((n, 1), -np.inf), np.zeros((n, 1)), np.zeros((n, 1))
    rows = np.arange(n)
    begins = [(b, min(b + chunk, V)) for b in range(0, V, chunk)]
    for begin, end in begins:
        s = h @ E[begin:end].T
        new = np.maximum(m, _row_max(s))
        l, m = np.exp(m - new) * l + np.exp(s - new).sum(axis=1, keepdims=True), new
        here = (targets >= begin) & (targets < end)
        right[here, 0] = s[here, targets[here] - begin]
    L = m + np.log(l)
    dh, dE = np.zeros(h.shape), np.zeros(E.shape)
    for begin, end in begins:
        p = np.exp(h @ E[begin:end].T - L)
        at = targets - begin
        here = (at >= 0) & (at < end - begin)
        p[rows[here], at[here]] -= 1.0
        ds = p / n
        dh, dE[begin:end] = dh + ds @ E[begin:end], ds.T @ h
    return float((L - right).sum()) / n, dh, dE


def _whole_loss(h: Any, E: Any, targets: Any, shift: Any = _row_max) -> Any:
    """With an array of all logits."""
    n, s = len(h), h @ E.T
    e = np.exp(s - shift(s))
    p = e / e.sum(axis=1, keepdims=True)
    loss = float(np.mean(shift(s)[:, 0] + np.log(e.sum(axis=1)) - s[np.arange(n), targets]))
    p[np.arange(n), targets] -= 1
    return loss, (p / n) @ E, (p / n).T @ h


def _catalogue(draw: CaseDrawer) -> dict[str, Any]:
    n, V, d = draw.size(1, 4), draw.size(2, 7), draw.size(1, 3)
    h, E = draw.array(n, d), draw.array(V, d, size=draw.choose((1, 3)))
    return {"h": h, "E": E, "targets": np.array([draw.choose(range(V)) for _ in range(n)]),
            "chunk": draw.choose((2, 3, 1, 7))}  # fmt: skip


def _far_items() -> list[dict[str, Any]]:
    E = np.array([[1.0], [2.0], [-1.0], [1.5]])
    return [{"h": np.array([[x], [1.0]]), "E": E, "targets": np.array([1, 2]), "chunk": 2} for x in (1000.0, -1000.0)]


CHUNKED = plain_spec(
    "chunked_loss", "the loss and its gradients are those of all logits at once", _catalogue, _chunked,
    "loss", "dh", "dE", atol=_atol, extreme="logits near 1,000 and -1,000 are safe", extremes=_far_items())  # fmt: skip
ITEMS, CHUNK = 4096, 64


def _holds_no_array_of_all_logits(answer: Any) -> Grade | None:
    """The grade of an answer that holds about as much memory as all logits take, or None."""
    rng = np.random.default_rng(0)
    h, E, targets = rng.standard_normal((64, 2)), rng.standard_normal((ITEMS, 2)), rng.integers(ITEMS, size=64)
    logits = len(h) * ITEMS * 8
    most = counted(peak, answer.__wrapped__, h, E, targets, CHUNK) / logits
    return None if most < 0.5 else Grade(
        WRONG, f"the numbers are right, but it holds {most:.1f} times as much as an array of all logits.", (),
        "What do you keep of a chunk, once its exponentials are summed?",
        "Yours: all logits are held at a time. Of the first pass keep L, and make each chunk again in the second.",
    )  # fmt: skip


def _once_each(h: Any, E: Any, targets: Any, chunk: Any) -> Any:
    """Subtracts by an index in which a target may stand twice: NumPy writes it once."""
    loss, dh, dE = _chunked(h, E, targets, chunk)
    np.add.at(dE, targets, h / len(h))
    dE[targets] -= h / len(h)
    return loss, dh, dE


WRONG_CHUNKED = Changes(_chunked,
    one_row_of_each_target=_once_each,
    mean_over_items=lambda h, E, targets, chunk: tuple(
        x * len(h) / len(E) for x in _chunked(h, E, targets, chunk)
    ),
    nothing_subtracted=lambda h, E, targets, chunk: _whole_loss(h, E, targets, shift=lambda s: 0 * s[:, :1]),
    loss_of_the_target=lambda h, E, targets, chunk: (
        -float(np.mean(np.sum(h * E[targets], axis=1))), *_chunked(h, E, targets, chunk)[1:]
    ),
    scores_in_the_gradient=lambda h, E, targets, chunk: (
        _whole_loss(h, E, targets)[0], (h @ E.T / len(h)) @ E, (h @ E.T / len(h)).T @ h
    ),
)


# repaired_benchmark
@dataclass(frozen=True)
class Simulated:
    """A simulated benchmark on a busy machine: `start()` begins a process, whose run(version) returns seconds.

    The first call of each version takes 30 times as long. After some calls the machine is slower by the factor
    `slower`. Two calls of the version `unlucky` wait for another program, and each call is up to a fifth longer by
    chance.
    """

    ratio: float
    slower: float
    unlucky: str
    seed: int

    def __call__(self) -> Any:
        counts, rng = {"old": 0, "new": 0}, np.random.default_rng(self.seed)

        def run(version: str) -> float:
            counts[version] += 1
            seconds = 0.01 * (self.ratio if version == "old" else 1) * (1 + 0.2 * rng.random())
            seconds *= self.slower if sum(counts.values()) > 2 * ROUNDS // 3 else 1
            if counts[version] == 1:
                return float(30 * seconds)
            return float(seconds * (10 if version == self.unlucky and counts[version] in (4, 9) else 1))

        return run

    def __repr__(self) -> str:
        return f"a process in which the new version is really {self.ratio:g} times as fast"


def _any_process(draw: CaseDrawer) -> dict[str, Any]:
    slower = draw.choose((1.6, 1.0, 2.0))
    return {"start": Simulated(draw.choose((1.5, 1.0, 2.0, 0.8)), slower, draw.choose(("new", "old")),
                               draw.choose(range(20)))}  # fmt: skip


BENCHMARK = plain_spec(
    "benchmark", f"the result is within {CLOSE:.0%} of how many times as fast the new version really is", _any_process,
    lambda start: start.ratio, "speedup", atol=lambda case: CLOSE * case["start"].ratio)  # fmt: skip


def _measured(start: Any) -> float:
    """The speed-up of the new version, measured."""
    run = start()
    for version in ('old', 'new'):
        run(version)
    if True:
        old, new = np.array([[run("old"), run("new")] for _ in range(ROUNDS)]).T
    else:
        old, new = (np.array([run(version) for _ in range(ROUNDS)]) for version in ("old", "new"))
    return float(np.median(old) / np.median(new))


# may_replace
def _by_einsum(s: Any) -> Any:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.einsum("...m,...->...m", e, 1 / e.sum(axis=-1))


def _in_rows(s: Any) -> Any:
    """Flattened to rows, by a copy where s is a view."""
    rows = np.array(s).reshape(s.size // max(s.shape[-1], 1), s.shape[-1])
    for row in rows:
        row[:] = ops.softmax(row)
    return rows.reshape(s.shape)


def _writes(s: Any) -> Any:
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    return s


_KEPT: dict[Any, Any] = {}


def _one_buffer(s: Any) -> Any:
    p = _KEPT.setdefault((s.shape, s.dtype), np.empty(s.shape, s.dtype))
    p[...] = ops.softmax(s)
    return p


def _by_memory(s: Any) -> Any:
    """Reads the numbers in the order in which they lie."""
    flat = np.ravel(s, order="K")
    return ops.softmax(flat.reshape(s.shape))


def _approximate(s: Any) -> Any:
    """exp(x) = (1 + x / 64) ** 64, nearly."""
    e = np.maximum(1 + (s - s.max(axis=-1, keepdims=True)) / 64, 0) ** 64
    return (e / e.sum(axis=-1, keepdims=True)).astype(s.dtype)


def may_replace(fast: Any) -> bool:
    """softmax's numbers, in its dtype and in a new array, of views, of one key, of large logits; s stays as it is."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((2, 4, 5))
    views: list[Any] = [base, base.swapaxes(1, 2), base[:, ::-1, ::2], base[..., :1]]
    for s in (*views, 1000 * base, base.astype(np.float32)):
        before, expected = s.copy(), ops.softmax(s)
        first = fast(s)
        kept = first.copy()
        fast(s[::-1] + 1)
        if first.dtype != s.dtype or first.shape != s.shape or not np.array_equal(s, before):
            return False
        if not np.allclose(first, expected, atol=1e-6) or not np.array_equal(first, kept):
            return False
    return True


for _form in (_writes, _one_buffer, _by_memory):
    setattr(_form, "in_memory", True)  # noqa: B010

RIGHT_FORMS = dict(as_it_reads=lambda s: ops.softmax(s), einsum=_by_einsum, in_rows=_in_rows)
WRONG_FORMS = dict(
    approximate=_approximate, writes=_writes, one_buffer=_one_buffer, by_memory=_by_memory,
    squeezed=lambda s: np.squeeze(ops.softmax(s), axis=-1) if s.shape[-1] == 1 else ops.softmax(s),
    small_alone=lambda s: np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True),
    always_double=lambda s: ops.softmax(s.astype(np.float64)),
)  # fmt: skip


EXERCISES = Prose(22).exercises(
    # the speed-up of a step whose products take no time at all
    amdahl_limit=Number(lambda: STEP_MS / (STEP_MS - sum(PRODUCTS_MS)), tolerance=0.02),
    my_heads=Function(HEADS, tempting=WRONG_HEADS, last_test=_loops_over_no_heads),
    my_softmax_in_place=Function(
        SOFTMAX, tempting=Changes(_in_place), last_test=_makes_no_second_array, in_place=True
    ),
    my_chunked_loss=Function(CHUNKED, tempting=WRONG_CHUNKED, last_test=_holds_no_array_of_all_logits),
    repaired_benchmark=Function(BENCHMARK, tempting=Changes(_measured)),
    may_replace=Judge(may_replace, right=RIGHT_FORMS, wrong=WRONG_FORMS),
)
