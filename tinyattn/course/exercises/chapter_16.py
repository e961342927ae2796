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
from ..graders import Function, Number
from ..prose import Prose

CHAPTER = 16
PROSE = Prose(CHAPTER)
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


WRONG_ONLINE = PROSE.said(
    "my_online_softmax.mistakes",
    no_guard=_online_with(guard=False),
    old_sums_not_scaled=_online_with(of_l=lambda f: 1, of_o=lambda f: 1),
    l_not_scaled=_online_with(of_l=lambda f: 1),
    o_not_scaled=_online_with(of_o=lambda f: 1),
    factor_inverted=_online_with(turned=True),
    factor_inverted_and_finite=_online_with(turned=True, of_l=_finite, of_o=_finite),
    maximum_of_the_tile=_online_with(top=lambda m, s: _row_max(s)),
    maximum_of_all_queries=_online_with(top=lambda m, s: np.maximum(m, s.max())),
    tile_maximum_subtracted=_online_with(late=True),
    divided=_online_with(divides=True),
    divided_where_possible=lambda *state: _with_mean(*_online(*state)),
    old_maximum_subtracted=_online_with(stale=True),
    new_sums_scaled=_online_with(scales_all=True),
    one_maximum_for_all_queries=_online_with(whole=True),
    no_maximum=lambda m, l, o, s, v: (m, l + _row_sum(np.exp(s)), o + np.exp(s) @ v),
    maximum_not_subtracted=lambda m, l, o, s, v: (
        np.maximum(m, _row_max(s)), l + _row_sum(np.exp(s)), o + np.exp(s) @ v
    ),
    afterwards=_afterwards,
    floor_returned=_online_with(top=lambda m, s: np.maximum(np.maximum(m, _row_max(s)), -1e30)),
    each_tile_normalised=lambda m, l, o, s, v: (_online(m, l, o, s, v)[0], l + 1, o + ops.softmax(s) @ v),
    features_reversed=lambda m, l, o, s, v: (*_online(m, l, o, s, v)[:2], _online(m, l, o, s, v)[2][:, ::-1]),
    old_state_ignored=lambda m, l, o, s, v: (
        _row_max(s), _row_sum(np.exp(s - _row_max(s))), np.exp(s - _row_max(s)) @ v
    ),
)


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


def _scaled_by_values(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
    root = math.sqrt(v.shape[-1])
    return _gradients_with(scale=lambda q, k: 1 / root)(dout, q, k, v, s, L, D)


WRONG_TILE = PROSE.said(
    "my_tile_gradients.mistakes",
    softmax_of_the_tile=_gradients_with(p_of=lambda s, L: ops.softmax(s)),
    divided_by_the_tiles_sum=_gradients_with(p_of=lambda s, L: np.exp(s) / _row_sum(np.exp(s))),
    overflows=_gradients_with(p_of=lambda s, L: np.exp(s) / np.exp(L)),
    divided_by_the_logarithm=_gradients_with(p_of=lambda s, L: np.exp(s) / L),
    l_ignored=_gradients_with(p_of=lambda s, L: np.exp(s)),
    l_added=_gradients_with(p_of=lambda s, L: np.exp(s + L)),
    row_sum_of_the_tile=_gradients_with(ds_of=lambda p, dp, D: p * (dp - _row_sum(p * dp))),
    d_ignored=_gradients_with(ds_of=lambda p, dp, D: p * dp),
    d_not_weighted=_gradients_with(ds_of=lambda p, dp, D: p * dp - D),
    d_added=_gradients_with(ds_of=lambda p, dp, D: p * (dp + D)),
    scaled_again=lambda dout, q, k, v, s, L, D: _gradients(dout, q, k, v, s / math.sqrt(q.shape[-1]), L, D),
    logits_unmasked=lambda dout, q, k, v, s, L, D: _gradients(dout, q, k, v, q @ k.T / math.sqrt(q.shape[-1]), L, D),
    not_scaled=_gradients_with(scale=lambda q, k: 1),
    dk_not_scaled=_gradients_with(of_k=False),
    divided_by_d=_gradients_with(scale=lambda q, k: 1 / q.shape[-1]),
    root_of_the_keys=_gradients_with(scale=lambda q, k: 1 / math.sqrt(len(k))),
    dv_of_ds=_gradients_with(dv_of=lambda p, ds, dout: ds.T @ dout),
    dv_of_ds_scaled=_gradients_with(dv_of=lambda p, ds, dout: ds.T @ dout / math.sqrt(dout.shape[-1])),
    exponent_turned=_gradients_with(p_of=lambda s, L: np.exp(L - s)),
    scaled_by_values=_scaled_by_values,
    dv_first=_gradients_with(order=(2, 0, 1)),
    dk_first=_gradients_with(order=(1, 0, 2)),
    order_reversed=_gradients_with(order=(2, 1, 0)),
)


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


WRONG_MASK = PROSE.said(
    "repaired_mask.mistakes",
    as_it_was=_mask_with(lambda back, of, to, past: _near(back) | to | of),
    leak_within_blocks=_mask_with(lambda back, of, to, past: _near(back) | to),
    causal_by_blocks=_mask_with(lambda back, of, to, past: (_near(back) | of | to) & (back >= 0)),
    block_0_looks_ahead=_mask_with(lambda back, of, to, past: _near(back) & past | of | to),
    block_0_sees_itself_whole=_mask_with(lambda back, of, to, past: (_near(back) | of) & past | to),
    block_0_hidden=_mask_with(lambda back, of, to, past: _near(back) & past),
    block_before_hidden=_mask_with(lambda back, of, to, past: ((back == 0) | of | to) & past),
    own_block_hidden=_mask_with(lambda back, of, to, past: ((back == 1) | to) & past),
    no_diagonal=_mask_with(lambda back, of, to, past: (_near(back) | of | to) & ~past.T),
    only_the_future=_mask_with(lambda back, of, to, past: (_near(back) | of | to) & past.T),
    transposed=lambda n, size: _mask(n, size).T,
    by_distance=lambda n, size: _by_distance(n, size, size),
    by_shorter_distance=lambda n, size: _by_distance(n, size, size - 1),
    causal_alone=_mask_with(lambda back, of, to, past: past),
    turned_round=_mask_with(lambda back, of, to, past: ~((_near(back) | of | to) & past)),
    one_block_more=_mask_with(lambda back, of, to, past: ((abs(back) <= 2) | of | to) & past),
    zeros_and_infinities=lambda n, size: np.where(_mask(n, size), 0.0, -np.inf),
)


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


WRONG_LINEAR = PROSE.said(
    "my_linear_attention.mistakes",
    read_too_early=_by_state(before=True, divides=lambda y, a, z, t: y / max(a @ z, 1e-9)),
    read_too_early_unguarded=_by_state(before=True),
    all_keys_at_once=_by_state(all_first=True),
    not_divided=_by_state(divides=lambda y, a, z, t: y),
    divided_by_the_count=_by_state(divides=lambda y, a, z, t: y / (t + 1)),
    query_not_in_denominator=_by_state(divides=lambda y, a, z, t: y / z.sum()),
    product_of_sums=_by_state(divides=lambda y, a, z, t: y / (a.sum() * z.sum())),
    state_forgets=_by_state(grows=lambda S, new: new),
    denominator_forgets=_by_state(sums=lambda z, b: b),
    both_forget=_by_state(grows=lambda S, new: new, sums=lambda z, b: b),
    queries_and_keys_exchanged=lambda a, b, v: _linear(b, a, v),
    from_the_end=lambda a, b, v: _linear(a[::-1], b[::-1], v[::-1])[::-1],
    softmax=lambda a, b, v: ops.softmax(a @ b.T, np.tri(len(v), dtype=bool)) @ v,
    softmax_scaled=lambda a, b, v: ops.softmax(a @ b.T / math.sqrt(a.shape[1]), np.tri(len(v), dtype=bool)) @ v,
    features_again=lambda a, b, v: _linear(_again(a), _again(b), v),
    mean_of_values=lambda a, b, v: np.cumsum(v, axis=0) / np.arange(1, len(v) + 1)[:, None],
)


EXERCISES = PROSE.exercises(
    my_online_softmax=Function(ONLINE, tempting=WRONG_ONLINE),
    tiles_visited=Number(_tiles_visited, exactly=True, tempting=PROSE.said(
        "tiles_visited.mistakes",
        all_tiles=lambda: 128,
        half_of_all=lambda: 64,
        diagonal_missing=lambda: 56,
        tiles_of_128=lambda: 36,
        tiles_of_64=lambda: 136,
        last_key_missed=lambda: 68,
    )),
    my_tile_gradients=Function(TILE_GRADIENTS, tempting=WRONG_TILE),
    strided_exponent=Number(_strided_exponent, tolerance=0.02, tempting=PROSE.said(
        "strided_exponent.mistakes",
        full_attention=lambda: 2.0,
        fixed_number_of_keys=lambda: 1.0,
        one_query=lambda: 0.5,
        power_too_low=lambda: 1.25,
        power_too_high=lambda: 1.75,
    )),
    repaired_mask=Function(REPAIRED, tempting=WRONG_MASK),
    my_linear_attention=Function(FEATURES, tempting=WRONG_LINEAR, also=_keeps_no_square),
)
