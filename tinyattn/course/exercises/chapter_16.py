"""Exercises of chapter 16, cheaper attention."""

from __future__ import annotations

import math
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import Property as Law
from ...check.property import close, largest, rounding, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ..exercise import Exercise
from ..graders import Function, Number

CHAPTER = 16
TOKENS, TILE = 1024, (128, 64)               # of tiles_visited


def _tiles_visited() -> int:
    """Tiles in which a causal mask allows a pair."""
    mask, (rows, columns) = ops.causal_mask(TOKENS, like=np.zeros(1)), TILE
    return int(mask.reshape(TOKENS // rows, rows, TOKENS // columns, columns).any(axis=(1, 3)).sum())


def _strided_pairs(n: int) -> int:
    """|i - j| < ℓ or (i - j) mod ℓ = 0, with ℓ the root of n."""
    stride, distance = math.isqrt(n), np.arange(1, n)
    return int(n + 2 * ((n - distance) * ((distance < stride) | (distance % stride == 0))).sum())


def _strided_exponent() -> float:
    few, many = 2**20, 2**24
    return math.log(_strided_pairs(many) / _strided_pairs(few), many / few)


# --- my_online_softmax ----------------------------------------------------------------------------------------------


def _row_max(s: Any) -> Any:
    return s.max(axis=-1, keepdims=True)


def _row_sum(x: Any) -> Any:
    return x.sum(axis=-1, keepdims=True)


def _online(m: Any, l: Any, o: Any, s: Any, v: Any) -> Any:
    top = np.maximum(m, _row_max(s))
    shift = np.where(top == -np.inf, 0, top)
    factor, e = np.exp(m - shift), np.exp(s - shift)
    return top, factor * l + _row_sum(e), factor * o + e @ v


def _tile(draw: CaseDrawer) -> dict[str, Any]:
    """A state that some keys have left behind, or none yet; hidden logits, and rows of them."""
    a, e = draw.size(1, 4), draw.size(1, 3)
    widths = (draw.size(1, 4), draw.size(1, 4))
    sizes, hides = draw.choose(((1, 1), (1, 4), (4, 1))), draw.flag()
    s, v = [], []
    for b, size in zip(widths, sizes, strict=True):
        logits, values = draw.array(a, b, size=size), draw.array(b, e)
        s.append(np.where(draw.mask(a, b), logits, -np.inf).astype(draw.dtype) if hides else logits)
        v.append(values)
    m, l, o = np.full((a, 1), -np.inf, draw.dtype), np.zeros((a, 1), draw.dtype), np.zeros((a, e), draw.dtype)
    if draw.choose((True, True, False)):
        m, l, o = _online(m, l, o, s[0], v[0])
    return {"m": m, "l": l, "o": o, "s": s[1], "v": v[1]}


_OF_ONLINE: list[Law] = []
_online_states = stating("online_softmax", _OF_ONLINE)


@_online_states("rounding", "m', l' and o' are those of all keys so far", "oracle", hint="Do the example on paper.")
def _as_derived(op: Subject, **case: Any) -> None:
    atol = 100 * rounding(case["s"].dtype, case["s"].size, 8 * largest(case["o"], case["v"], 1))
    for name, got, expected in zip(ONLINE.outputs, op.outputs(**case), _online(**case), strict=True):
        if np.shape(got) == expected.shape:                    # m may be -∞, and -∞ less -∞ is no number
            got, expected = (np.where(got == expected, 0, x) for x in (got, expected))
        close(got, expected, atol, name)


@_online_states("rounding", "the state is right, too, where m and s are near 1,000 or -1,000", "extremes",
                hint="What becomes of e^s for s = 1,000?", once=True)  # fmt: skip
def _large_logits(op: Subject, **case: Any) -> None:
    ones, s = np.ones((1, 1)), np.array([[-1.0, 1.0]])
    for far in (1000.0, -1000.0):
        large = {"m": far * ones, "l": ones, "o": ones, "s": far + s, "v": np.array([[2.0], [3.0]])}
        for name, got, expected in zip(ONLINE.outputs, op.outputs(**large), _online(**large), strict=True):
            close(got, expected, 1e-6, name)


ONLINE = Spec(
    name="online_softmax",
    says="m' = max(m, max s), l' = e^(m - m') l + Σ e^(s - m'), o' = e^(m - m') o + e^(s - m') v",
    function="online_softmax",
    case=_tile,
    ours=lambda: SimpleNamespace(online_softmax=_online),
    properties=_OF_ONLINE,
    outputs=("m", "l", "o"),
    common=False,
)


def _online_with(
    top: Any = lambda m, s: np.maximum(m, _row_max(s)), guard: bool = True, of_l: Any = lambda f: f,
    of_o: Any = lambda f: f, turned: bool = False, late: bool = False, divides: bool = False, whole: bool = False,
    stale: bool = False, scales_all: bool = False,
) -> Any:  # fmt: skip
    """The step, with one line written otherwise."""

    def step(m: Any, l: Any, o: Any, s: Any, v: Any) -> Any:
        new = top(m, s)
        shift = np.where(new == -np.inf, 0, new) if guard else new
        factor = np.exp(shift - m) if turned else np.exp(m - shift)
        old = np.where(m == -np.inf, 0, m)
        e = np.exp(s - (_row_max(s) if late else np.max(shift) if whole else old if stale else shift))
        e = factor * e if scales_all else e
        l_, o_ = of_l(factor) * l + _row_sum(e), of_o(factor) * o + e @ v
        return new, l_, o_ / l_ if divides else o_

    return step


def _with_mean(m: Any, l: Any, o: Any) -> Any:
    return m, l, o / np.where(l == 0, 1, l)


def _afterwards(m: Any, l: Any, o: Any, s: Any, v: Any) -> Any:
    """The maximum is not subtracted: exponentials are multiplied by e^(-m')."""
    top, of_old, e = np.maximum(m, _row_max(s)), np.exp(m), np.exp(s)
    less = np.exp(-np.where(top == -np.inf, 0, top))
    return top, (of_old * l + _row_sum(e)) * less, (of_old * o + e @ v) * less


def _finite(factor: Any) -> Any:
    return np.where(np.isposinf(factor), 0, factor)


_INVERTED = "The factor is inverted: e^(m - m'), which is at most 1."
_FACTOR = "Every old term is e^(s_j - m). Which power of e makes it e^(s_j - m')?"
WRONG_ONLINE = (
    (_online_with(guard=False), "What is -inf minus -inf? Which rows have that?",
     "Where nothing has been allowed yet, m' is -inf: subtract 0 there in its place."),
    (_online_with(of_l=lambda f: 1, of_o=lambda f: 1), _FACTOR, "What was summed before is not scaled by e^(m - m')."),
    (_online_with(of_l=lambda f: 1), "o is scaled. Is l?", "l is a sum of the same e^(s_j - m): it shrinks as o does."),
    (_online_with(of_o=lambda f: 1), "l is scaled. Is o?", "o is a sum of the same e^(s_j - m): it shrinks as l does."),
    (_online_with(turned=True), _FACTOR, _INVERTED),
    (_online_with(turned=True, of_l=_finite, of_o=_finite), _FACTOR, _INVERTED),
    (_online_with(top=lambda m, s: _row_max(s)), "What if the new tile's logits are all below m?",
     "The maximum can only rise: m' is the larger of m and the tile's."),
    (_online_with(top=lambda m, s: np.maximum(m, s.max())), "Does a query's m' depend on the logits of other queries?",
     "The maximum is taken over the whole tile. Each query has its own: axis=-1, keepdims=True."),
    (_online_with(late=True), "Which maximum is subtracted from the new tile's logits?",
     "The tile's own maximum is subtracted. Old and new terms must share one: m'."),
    (_online_with(divides=True), "When is o divided by l: after each tile, or after the last?",
     "o is a sum; o' = ... of the text has no division. It comes once, at the end."),
    (lambda *state: _with_mean(*_online(*state)), "When is o divided by l: after each tile, or after the last?",
     "o is a sum; o' = ... of the text has no division. It comes once, at the end."),
    (_online_with(stale=True), "Which maximum is subtracted from the new tile's logits?",
     "The old maximum is subtracted from them. Old and new terms must share one: m'."),
    (_online_with(scales_all=True), "On which maximum do the new tile's e^(s_j - m') stand already?",
     "The factor e^(m - m') is for what was summed before; the tile's own sums do not get it."),
    (_online_with(whole=True), "Is the same m' subtracted of every query's logits?"),
    (lambda m, l, o, s, v: (m, l + _row_sum(np.exp(s)), o + np.exp(s) @ v), "What becomes of e^s for s = 1,000?",
     "No maximum is subtracted at all."),
    (lambda m, l, o, s, v: (np.maximum(m, _row_max(s)), l + _row_sum(np.exp(s)), o + np.exp(s) @ v),
     "What becomes of e^s for s = 1,000?", "m' is computed, and not subtracted from anything."),
    (_afterwards, "What becomes of e^s for s = 1,000?",
     "The maximum is taken off after the exponentials, which are ∞ by then: exp(s - m'), and exp(m - m')."),
    (_online_with(top=lambda m, s: np.maximum(np.maximum(m, _row_max(s)), -1e30)),
     "Is m' of a query that has seen nothing still -∞?", "m' is asked for as it is: use the floor in the shift alone."),
    (lambda m, l, o, s, v: (_online(m, l, o, s, v)[0], l + 1, o + ops.softmax(s) @ v),
     "A softmax of the tile alone sums to 1, however small its logits are. Does that fit?",
     "Each tile has been normalised by itself; tiles with large logits must count for more."),
    (lambda m, l, o, s, v: (*_online(m, l, o, s, v)[:2], _online(m, l, o, s, v)[2][:, ::-1]),
     "Which of v's axes holds the features?"),
    (lambda m, l, o, s, v: (_row_max(s), _row_sum(np.exp(s - _row_max(s))), np.exp(s - _row_max(s)) @ v),
     "Where is what was known of the keys before?", "The state that came in is not used."),
)  # fmt: skip


# --- my_tile_gradients ----------------------------------------------------------------------------------------------


def _gradients(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
    p = np.exp(s - L)
    ds = p * (dout @ v.T - D) / math.sqrt(q.shape[-1])
    return ds @ k, ds.T @ q, p.T @ dout


def _part_of_a_row(draw: CaseDrawer) -> dict[str, Any]:
    """Of all keys some are the tile; L and D are those of all."""
    a, b, more = draw.size(1, 4), draw.size(1, 4), draw.size(1, 3)
    d, e = draw.size(1, 5), draw.size(1, 5)
    q, k, v = draw.array(a, d), draw.array(b + more, d), draw.array(b + more, e)
    s = q @ k.T / math.sqrt(d)
    if draw.flag():
        s = np.where(np.arange(b + more) >= b - np.arange(a)[:, None], s, -np.inf).astype(s.dtype)
    dout, p = draw.array(a, e), ops.softmax(s)
    L = np.log(_row_sum(np.exp(s))).astype(s.dtype)
    return {"dout": dout, "q": q, "k": k[:b], "v": v[:b], "s": s[:, :b], "L": L, "D": _row_sum(dout * (p @ v))}


_OF_TILE: list[Law] = []
_tile_states = stating("tile_gradients", _OF_TILE)


@_tile_states("rounding", "what one tile adds to dq, dk and dv", "oracle", hint="Do the example on paper.")
def _adds(op: Subject, **case: Any) -> None:
    arrays = [x for name, x in case.items() if name not in "sL"]
    for name, got, expected in zip(TILE_GRADIENTS.outputs, op.outputs(**case), _gradients(**case), strict=True):
        close(got, expected, 30 * rounding(case["q"].dtype, 40, largest(*arrays, 1) ** 3), name)


@_tile_states("rounding", "the gradients are right, too, where s and L are near 1,000 or -1,000", "extremes",
              hint="What becomes of e^s for s = 1,000?", once=True)  # fmt: skip
def _large_logits_of_a_tile(op: Subject, **case: Any) -> None:
    s = np.array([[-1.0, 0.0]])
    for far in (1000.0, -1000.0):
        k, v = np.array([[1.0], [2.0]]), np.array([[2.0], [3.0]])
        large = {"dout": np.ones((1, 1)), "q": np.ones((1, 1)), "k": k, "v": v, "s": far + s, "L": np.full((1, 1), far)}
        large["D"] = np.full((1, 1), 0.5)
        for name, got, expected in zip(TILE_GRADIENTS.outputs, op.outputs(**large), _gradients(**large), strict=True):
            close(got, expected, 1e-6, name)


TILE_GRADIENTS = Spec(
    name="tile_gradients",
    says="p = e^(s - L), dv = pᵀ dout, ds = p (dout vᵀ - D), dq = ds k / √d, dk = dsᵀ q / √d",
    function="tile_gradients",
    case=_part_of_a_row,
    ours=lambda: SimpleNamespace(tile_gradients=_gradients),
    properties=_OF_TILE,
    outputs=("dq", "dk", "dv"),
    common=False,
)


def _gradients_with(
    p_of: Any = lambda s, L: np.exp(s - L), ds_of: Any = lambda p, dp, D: p * (dp - D),
    scale: Any = lambda q, k: 1 / math.sqrt(q.shape[-1]), dv_of: Any = lambda p, ds, dout: p.T @ dout,
    order: tuple[int, int, int] = (0, 1, 2), of_k: bool = True,
) -> Any:  # fmt: skip
    """The tile's gradients, with one line written otherwise."""

    def gradients(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
        p = p_of(s, L)
        ds = ds_of(p, dout @ v.T, D)
        c = scale(q, k)
        found = (c * ds @ k, (c if of_k else 1) * ds.T @ q, dv_of(p, ds, dout))
        return tuple(found[i] for i in order)

    return gradients


def _scaled_again(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
    return _gradients(dout, q, k, v, s / math.sqrt(q.shape[-1]), L, D)


def _logits_unmasked(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
    return _gradients(dout, q, k, v, q @ k.T / math.sqrt(q.shape[-1]), L, D)


def _scaled_by_values(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
    root = math.sqrt(v.shape[-1])
    return _gradients_with(scale=lambda q, k: 1 / root)(dout, q, k, v, s, L, D)


_SUMS = "Does Σ_j p_ij dp_ij run over the tile's keys, or over all keys?"
WRONG_TILE = (
    (_gradients_with(p_of=lambda s, L: ops.softmax(s)), "Do the weights of a tile's keys sum to 1?",
     "A softmax of the tile alone. The sum over all keys is e^L: p = e^(s - L)."),
    (_gradients_with(p_of=lambda s, L: np.exp(s) / _row_sum(np.exp(s))), "Do the weights of a tile's keys sum to 1?",
     "That divides by the sum of the tile alone. The sum over all keys is e^L: p = e^(s - L)."),
    (_gradients_with(p_of=lambda s, L: np.exp(s) / np.exp(L)), "What becomes of e^s for s = 1,000?",
     "e^s and e^L overflow, though their quotient does not: p = e^(s - L)."),
    (_gradients_with(p_of=lambda s, L: np.exp(s) / L), "L is the logarithm of the sum. Which operation undoes it?",
     "e^s / L divides by the logarithm. p = e^(s - L)."),
    (_gradients_with(p_of=lambda s, L: np.exp(s)), "By what does softmax divide?", "L is not used: p = e^(s - L)."),
    (_gradients_with(p_of=lambda s, L: np.exp(s + L)), "Is a weight larger or smaller than e^s, where L > 0?",
     "L is subtracted: e^(s - L) = e^s / e^L."),
    (_gradients_with(ds_of=lambda p, dp, D: p * (dp - _row_sum(p * dp))), _SUMS,
     "Your sum has the tile's keys only. D has all of them."),
    (_gradients_with(ds_of=lambda p, dp, D: p * dp), "What does softmax's backward subtract of dp?",
     "D is not used: ds = p (dp - D)."),
    (_gradients_with(ds_of=lambda p, dp, D: p * dp - D), "Is the average weighted by p, too?",
     "Brackets: p (dp - D), not p dp - D."),
    (_gradients_with(ds_of=lambda p, dp, D: p * (dp + D)), "What is the sum of ds over all keys of a row?",
     "D is subtracted, not added."),
    (_scaled_again, "s = q·k / √d is given. How often is it divided by √d in your p?",
     "The logits s have been divided already: p = e^(s - L)."),
    (_logits_unmasked, "Where is s = -∞, and what is your weight there?",
     "Logits made again from q and k know of no mask: use s, which is -∞ where hidden."),
    (_gradients_with(scale=lambda q, k: 1), "s = q·k / √d: where is the root in dq?",
     "dq and dk are divided by √d, as s was."),
    (_gradients_with(of_k=False), "Is dk divided by √d, as dq is?"),
    (_gradients_with(scale=lambda q, k: 1 / q.shape[-1]), "Which power of d does s have?", "It is √d, not d."),
    (_gradients_with(scale=lambda q, k: 1 / math.sqrt(len(k))), "√d: is d the width, or the number of keys?",
     "That is the root of the number of keys; d is the width of q and k."),
    (_gradients_with(dv_of=lambda p, ds, dout: ds.T @ dout), "out = p v. What meets dout in dv?",
     "dv = pᵀ dout: the weights, not the gradient of the logits."),
    (_gradients_with(dv_of=lambda p, ds, dout: ds.T @ dout / math.sqrt(dout.shape[-1])),
     "out = p v. What meets dout in dv?", "dv = pᵀ dout: the weights, not the gradient of the logits."),
    (_gradients_with(p_of=lambda s, L: np.exp(L - s)), "Is a weight larger where s is larger?",
     "The exponent has the wrong sign: p = e^(s - L)."),
    (_scaled_by_values, "s = q·k / √d: is d the width of q and k, or that of v?", "d is the width of q and k."),
    (_gradients_with(order=(2, 0, 1)), "In which order are dq, dk and dv asked for?"),
    (_gradients_with(order=(1, 0, 2)), "In which order are dq, dk and dv asked for?"),
    (_gradients_with(order=(2, 1, 0)), "In which order are dq, dk and dv asked for?"),
)  # fmt: skip


# --- repaired_mask --------------------------------------------------------------------------------------------------


def _parts(n: int, size: int) -> tuple[Any, Any, Any, Any]:
    """Blocks back from query to key, block 0 of queries and of keys, and who comes first."""
    block = np.arange(n) // size
    return block[:, None] - block, (block == 0)[:, None], block == 0, np.arange(n) <= np.arange(n)[:, None]


def _near(back: Any) -> Any:
    """Its own block, and the one before."""
    return (back == 0) | (back == 1)


def _mask(n: int, size: int) -> Any:
    back, of_first, to_first, past = _parts(n, size)
    return (_near(back) | of_first | to_first) & past


_OF_MASK: list[Law] = []
_mask_states = stating("repaired_mask", _OF_MASK)


@_mask_states("exact", "nothing looks ahead, and every other pair is as it was", "oracle", hint="Draw it for n = 5.")
def _as_it_was(op: Subject, n: int, size: int) -> None:
    close(op(n=n, size=size), _mask(n, size), 0, "mask")


REPAIRED = Spec(
    name="repaired_mask",
    says="True where key j <= query i, and j's block is i's, the one before it, or block 0",
    function="repaired_mask",
    case=lambda draw: {"n": draw.size(6, 16), "size": draw.choose((2, 1, 3, 4))},
    ours=lambda: SimpleNamespace(repaired_mask=_mask),
    properties=_OF_MASK,
    outputs=("mask",),
    common=False,
)


def _mask_with(change: Any) -> Any:
    return lambda n, size: change(*_parts(n, size)) & np.ones((n, n), bool)


def _by_distance(n: int, size: int, most: int) -> Any:
    i = np.arange(n)
    return np.tril((i[:, None] - i <= most) | (i < size))


_DISTANCE = "Is the pattern said in distances between tokens, or in blocks?"
_BLOCKS = "A token looks at the whole of its block so far and of the one before, however far their tokens are away."
_INSIDE = "May token 0 look at token 1, if both are in block 0?"
_TOKENS = "Blocks are compared, and not tokens: within a block a token still sees the ones after it."
WRONG_MASK = (
    (_mask_with(lambda back, of, to, past: _near(back) | to | of), "What has changed?",
     "It is as it was, and leaks."),
    (_mask_with(lambda back, of, to, past: _near(back) | to), _INSIDE, _TOKENS),
    (_mask_with(lambda back, of, to, past: (_near(back) | of | to) & (back >= 0)), _INSIDE, _TOKENS),
    (_mask_with(lambda back, of, to, past: (_near(back)) & past | of | to), "May token 0 look at the last one?",
     "Block 0 still looks ahead, at all."),
    (_mask_with(lambda back, of, to, past: (_near(back) | of) & past | to), _INSIDE,
     "Block 0 is part of the past for later blocks, but its own tokens still see later ones of it."),
    (_mask_with(lambda back, of, to, past: (_near(back)) & past), "May the last token look at token 0?",
     "Block 0 is no longer looked at by all. That was no leak."),
    (_mask_with(lambda back, of, to, past: ((back == 0) | of | to) & past),
     "May a token look at the block before its own?",
     "The block before is gone. That was no leak."),
    (_mask_with(lambda back, of, to, past: ((back == 1) | to) & past), "May a token look at itself?",
     "A token's own block is gone. Only what comes after it must go."),
    (_mask_with(lambda back, of, to, past: (_near(back) | of | to) & ~past.T), "May a token look at itself?",
     "The diagonal is gone: j <= i, not j < i."),
    (_mask_with(lambda back, of, to, past: (_near(back) | of | to) & past.T),
     "mask[i, j]: which of the two is the query?", "Queries and keys have changed places: only the future is left."),
    (lambda n, size: _mask(n, size).T, "mask[i, j]: which of the two is the query?",
     "Queries and keys have changed places."),
    (lambda n, size: _by_distance(n, size, size), _DISTANCE, _BLOCKS),
    (lambda n, size: _by_distance(n, size, size - 1), _DISTANCE, _BLOCKS),
    (_mask_with(lambda back, of, to, past: past), "Does the last token look at every block?",
     "That is the causal mask: pairs are allowed that were not."),
    (_mask_with(lambda back, of, to, past: ~((_near(back) | of | to) & past)), "What does True mean?",
     "True = may look. Yours is the other way round."),
    (_mask_with(lambda back, of, to, past: ((abs(back) <= 2) | of | to) & past),
     "How many blocks before its own does a token look at?", "One block more is allowed than was."),
    (lambda n, size: np.where(_mask(n, size), 0.0, -np.inf), "Which two values has buggy_mask?",
     "True and False are asked for, not 0 and -∞."),
)  # fmt: skip


# --- my_linear_attention --------------------------------------------------------------------------------------------


def _linear(a: Any, b: Any, v: Any) -> Any:
    weights = np.tril(a @ b.T)
    return weights @ v / _row_sum(weights)


def _again(x: Any) -> Any:
    """φ of what has been through φ."""
    return np.where(x > 0, 1 + x, np.exp(x))


def _positive(draw: CaseDrawer) -> dict[str, Any]:
    n, r = draw.size(1, 6), draw.size(1, 5)
    a, b = (np.abs(draw.array(n, r)) + np.asarray(0.25, draw.dtype) for _ in range(2))
    return {"a": a, "b": b, "v": draw.array(n, draw.size_like(r))}


_OF_LINEAR: list[Law] = []
_linear_states = stating("features_attention", _OF_LINEAR)


@_linear_states("rounding", "out_i is the mean of the values up to i, with weights a_i · b_j", "oracle",
                hint="Do the example on paper.")  # fmt: skip
def _weighs(op: Subject, **case: Any) -> None:
    atol = 100 * rounding(case["v"].dtype, case["v"].size, 4 * largest(case["v"], 1))
    close(op(**case), _linear(**case), atol, "out")


FEATURES = Spec(
    name="features_attention",
    says="out_i = Σ_{j <= i} (a_i·b_j) v_j / Σ_{j <= i} a_i·b_j",
    function="features_attention",
    case=_positive,
    ours=lambda: SimpleNamespace(features_attention=_linear),
    properties=_OF_LINEAR,
    outputs=("out",),
    common=False,
)


def _by_state(
    before: bool = False, divides: Any = lambda y, a, z, t: y / (a @ z), grows: Any = lambda S, new: S + new,
    sums: Any = lambda z, b: z + b, all_first: bool = False,
) -> Any:  # fmt: skip
    """The recurrence, with one line written otherwise."""

    def attend(a: Any, b: Any, v: Any) -> Any:
        S, z, out = np.zeros((b.shape[1], v.shape[1])), np.zeros(b.shape[1]), np.zeros_like(v)
        if all_first:
            S, z = b.T @ v, b.sum(axis=0)
        for t in range(len(v)):
            if before:
                out[t] = divides(a[t] @ S, a[t], z, t)
            if not all_first:
                S, z = grows(S, np.outer(b[t], v[t])), sums(z, b[t])
            if not before:
                out[t] = divides(a[t] @ S, a[t], z, t)
        return out

    return attend


TOKENS_OF_LINEAR = 256         # fewer than Python's limit of recursion


def _keeps_no_square(answer: Any) -> str:
    """Of a right answer: does it make an array of all pairs of tokens?"""
    x = np.full((TOKENS_OF_LINEAR, 1), 0.5)      # of whole numbers the grader asks the library, which does make it
    tracemalloc.start()
    try:
        answer(x, x, x)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if most < x.size**2 * x.itemsize // 2:
        return ""
    return (
        f"the numbers are right, but of {x.size} tokens it makes an array of {x.size} by {x.size}: {most / 1e6:.1f} MB "
        "at its height. Go from token to token, with the two sums as a state."
    )


WRONG_LINEAR = (
    (_by_state(before=True, divides=lambda y, a, z, t: y / max(a @ z, 1e-9)), "May a token look at itself?",
     "Token t is read before it has been added: its own key is missing."),
    (_by_state(before=True), "May a token look at itself? What does output 0 divide by?",
     "Token t is read before it has been added: its own key is missing, and output 0 divides 0 by 0."),
    (_by_state(all_first=True), "Which values may output 0 depend on?", "All keys are summed: later ones leak."),
    (_by_state(divides=lambda y, a, z, t: y), "With all values equal to 1, what should out be?",
     "The division is missing."),
    (_by_state(divides=lambda y, a, z, t: y / (t + 1)), "With all values equal to 1, what should out be?",
     "It is divided by the number of keys. Divide by the sum of their weights, a_i · Σ b_j."),
    (_by_state(divides=lambda y, a, z, t: y / z.sum()), "With all values equal to 1, what should out be?",
     "The denominator knows no query: it is a_i · Σ b_j."),
    (_by_state(divides=lambda y, a, z, t: y / (a.sum() * z.sum())), "Is a sum of products the product of the sums?",
     "a_i · z is a sum over features of products, not a product of two sums."),
    (_by_state(grows=lambda S, new: new), "What does S know of the keys before?", "S forgets: add to it."),
    (_by_state(sums=lambda z, b: b), "What does the denominator know of the keys before?", "z forgets: add to it."),
    (_by_state(grows=lambda S, new: new, sums=lambda z, b: b), "What does the state know of the keys before?",
     "The state forgets: add to it."),
    (lambda a, b, v: _linear(b, a, v), "Which of a and b is summed up over time?",
     "Queries and keys have changed places: the state is made of b."),
    (lambda a, b, v: _linear(a[::-1], b[::-1], v[::-1])[::-1], "From which end of time do you begin?"),
    (lambda a, b, v: ops.softmax(a @ b.T, np.tri(len(v), dtype=bool)) @ v, "Is there an exponential?",
     "That is softmax of a·b. Here a·b itself is the weight, before the division."),
    (lambda a, b, v: ops.softmax(a @ b.T / math.sqrt(a.shape[1]), np.tri(len(v), dtype=bool)) @ v,
     "Is there an exponential?", "That is softmax attention of a and b. Here a·b itself is the weight."),
    (lambda a, b, v: _linear(_again(a), _again(b), v),
     "Are a and b queries and keys, or features already?", "a and b have been through φ: use them as they are."),
    (lambda a, b, v: np.cumsum(v, axis=0) / np.arange(1, len(v) + 1)[:, None], "Do the features count at all?"),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_online_softmax",
        "write the op",
        difficulty=2,
        minutes=10,
        task="my_online_softmax(m, l, o, s, v) -> m, l, o after one more tile of logits s and values v",
        grader=Function(ONLINE, tempting=WRONG_ONLINE),
        hints=(
            "What is m' of each query, and by which factor do l and o shrink? And what is -inf minus -inf?",
            "m' = np.maximum(m, s.max(axis=-1, keepdims=True)). Where it is -inf, subtract 0 in its place. Then e = "
            "exp(s - m'), and l and o are scaled by exp(m - m') before the sum of e and e @ v are added.",
        ),
        why="All old terms carry e^(-m), so one factor e^(m - m') brings them to the new maximum. With 0 in place of a "
        "maximum of -inf the exponentials of hidden logits are 0, and a query that has seen nothing keeps 0 and 0.",
    ),
    Exercise(
        "tiles_visited",
        "predict the number",
        difficulty=1,
        minutes=4,
        task=f"tiles of {TILE[0]} queries and {TILE[1]} keys with a pair that a causal mask of {TOKENS:,} tokens "
        "allows",
        grader=Number(
            _tiles_visited,
            exactly=True,
            tempting=(
                (lambda: 128, "Which tiles lie in the future of all their queries?", "Those are all tiles."),
                (lambda: 64, "Does the diagonal cut through tiles?",
                 "Half of all. Tiles on the diagonal are half allowed, and must be visited."),
                (lambda: 56, "Are tiles that the diagonal cuts visited?", "Tiles on the diagonal are missing."),
                (lambda: 36, "Are tiles square?", "That would be right for 128 by 128. A row has 16 tiles here."),
                (lambda: 136, "Are tiles square?", "That would be right for 64 by 64, of which there are 256."),
                (lambda: 68, "The first 128 queries: the last of them sees key 127. In which tile is it?"),
            ),
        ),
        hints=(
            "The first 128 queries: which is the last key that any of them sees, and in how many tiles do keys up to "
            "it lie?",
            "Two tiles for the first row of tiles, four for the second, up to sixteen: 2 (1 + 2 + ... + 8).",
        ),
        why="Row t of tiles, from 1, sees keys below 128 t, which fill 2 t tiles: 2 · 36 = 72 of 128. The smaller the "
        "tiles, the nearer it is to one half.",
    ),
    Exercise(
        "my_tile_gradients",
        "derive the backward",
        difficulty=2,
        minutes=8,
        task="my_tile_gradients(dout, q, k, v, s, L, D) -> dq, dk, dv, what one tile adds to them",
        grader=Function(TILE_GRADIENTS, tempting=WRONG_TILE),
        hints=(
            "Chapter 04's backward has five lines. Which of them used p, and which a sum over all keys?",
            "p = exp(s - L). Then dv = pᵀ dout and dp = dout vᵀ as ever, ds = p (dp - D), and dq and dk are ds k and "
            "dsᵀ q, both divided by √d.",
        ),
        why="Given p, each line of attention's backward is a sum over queries or keys, and a tile adds its own terms "
        "to it. Only the average D needs a whole row, and it is known beforehand.",
    ),
    Exercise(
        "strided_exponent",
        "predict the number",
        difficulty=2,
        minutes=4,
        task="α, where the pairs of strided attention with ℓ = √n grow as n^α",
        grader=Number(
            _strided_exponent,
            tolerance=0.02,
            tempting=(
                (lambda: 2.0, "How many of the n keys does a query look at?", "That is full attention."),
                (lambda: 1.0, "Does each query look at a fixed number of keys?",
                 "Its keys become more: both kinds grow as √n."),
                (lambda: 0.5, "That is for one query. And for n?", "√n keys for each of n queries."),
                (lambda: 1.25, "n times √n is which power of n?"),
                (lambda: 1.75, "n times √n is which power of n?"),
            ),
        ),
        hints=(
            "How many neighbours has a query, and how many strides fit into n tokens?",
            "About 2 ℓ neighbours and n / ℓ strided keys: with ℓ = √n, both are some multiple of √n. There are n "
            "queries.",
        ),
        why="2 ℓ + n / ℓ keys a query, with ℓ = √n a multiple of √n; n · √n = n^1.5.",
    ),
    Exercise(
        "repaired_mask",
        "find the bug",
        difficulty=2,
        minutes=6,
        task="buggy_mask without its leaks, and with every other pair as it was",
        grader=Function(REPAIRED, tempting=WRONG_MASK),
        hints=(
            "Find two different pairs (query, key) that look ahead: one with both in the same block, one with the "
            "query in block 0.",
            "Blocks are too coarse to say who comes first. Combine the mask with the causal one.",
        ),
        why="Within a block tokens see later ones, and block 0 sees everything. Both go if the whole mask is met with "
        "the causal one, token by token; a mask that is causal by blocks is not causal.",
    ),
    Exercise(
        "my_linear_attention",
        "write the op",
        difficulty=2,
        minutes=8,
        task="my_linear_attention(a, b, v) -> out, causal, from features a of queries and b of keys",
        grader=Function(FEATURES, tempting=WRONG_LINEAR, also=_keeps_no_square),
        hints=(
            "Which two sums over the keys so far does out_i need, and what does token t add to each?",
            "S += np.outer(b[t], v[t]) and z += b[t], then out[t] = a[t] @ S / (a[t] @ z). Both begin with zeros.",
        ),
        why="S and z are sums over j <= t, so each token adds one term, and the query reads both: r numbers times e "
        "and r numbers, however long the sequence is.",
    ),
)
