"""Exercises of chapter 18, cheaper attention."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ..costs import counted, peak
from ..exercise import RIGHT, Grade
from ..graders import Function, Number
from ..graders.calling import run_answer
from ..plain import Changes, plain_spec
from ..prose import Prose

TOKENS, TILE = 1024, (128, 64)               # of tiles_visited


def _tiles_visited() -> int:
    """The number of tiles in which a causal mask allows a pair."""
    mask, (rows, columns) = ops.causal_mask(TOKENS, like=np.zeros(1)), TILE
    return int(mask.reshape(TOKENS // rows, rows, TOKENS // columns, columns).any(axis=(1, 3)).sum())


def _strided_pairs(n: int) -> int:
    """The number of pairs with |i - j| < ℓ or (i - j) mod ℓ = 0, for ℓ = √n."""
    stride, distance = math.isqrt(n), np.arange(1, n)
    return int(n + 2 * ((n - distance) * ((distance < stride) | (distance % stride == 0))).sum())


# my_online_softmax
def _row_max(s: Any) -> Any:
    return s.max(axis=-1, keepdims=True)


def _row_sum(x: Any) -> Any:
    return x.sum(axis=-1, keepdims=True)


def _online(m: Any, l: Any, o: Any, s: Any, v: Any) -> Any:
    """The state (m, l, o) after one more tile of logits and values."""
    new = np.maximum(m, _row_max(s))
    shift = np.where(new == -np.inf, 0, new)
    factor = np.exp(m - shift)
    e = np.exp(s - shift) * (1)
    l_, o_ = factor * l + _row_sum(e), factor * o + e @ v
    return new, l_, o_


def _tile(draw: CaseDrawer) -> dict[str, Any]:
    """The state after some keys, or the initial one, and a tile; logits may be hidden, in whole rows too."""
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


def _large_states() -> list[dict[str, Any]]:
    ones, s, v = np.ones((1, 1)), np.array([[-1.0, 1.0]]), np.array([[2.0], [3.0]])
    return [{"m": far * ones, "l": ones, "o": ones, "s": far + s, "v": v} for far in (1000.0, -1000.0)]


ONLINE = plain_spec(
    "online_softmax", "m', l' and o' are those of all keys so far", _tile, _online, "m", "l", "o",
    atol=lambda case: 100 * rounding(case["s"].dtype, case["s"].size, 8 * largest(case["o"], case["v"], 1)),
    extreme="the state is right, too, where m and s are near 1,000 or -1,000", extremes=_large_states())  # fmt: skip


def _afterwards(m: Any, l: Any, o: Any, s: Any, v: Any) -> Any:
    """Multiplies exponentials by e^(-m') afterwards, instead of subtracting m' before."""
    top, of_old, e = np.maximum(m, _row_max(s)), np.exp(m), np.exp(s)
    less = np.exp(-np.where(top == -np.inf, 0, top))
    return top, (of_old * l + _row_sum(e)) * less, (of_old * o + e @ v) * less


def _finite(factor: Any) -> Any:
    return np.where(np.isposinf(factor), 0, factor)


WRONG_ONLINE = Changes(_online,
    no_maximum=lambda m, l, o, s, v: (m, l + _row_sum(np.exp(s)), o + np.exp(s) @ v),
    maximum_not_subtracted=lambda m, l, o, s, v: (
        np.maximum(m, _row_max(s)), l + _row_sum(np.exp(s)), o + np.exp(s) @ v
    ),
    afterwards=_afterwards,
    each_tile_normalised=lambda m, l, o, s, v: (_online(m, l, o, s, v)[0], l + 1, o + ops.softmax(s) @ v),
    features_reversed=lambda m, l, o, s, v: (*_online(m, l, o, s, v)[:2], _online(m, l, o, s, v)[2][:, ::-1]),
    old_state_ignored=lambda m, l, o, s, v: (
        _row_max(s), _row_sum(np.exp(s - _row_max(s))), np.exp(s - _row_max(s)) @ v
    ),
)


def _undivided(answer: Callable[..., Any]) -> Callable[..., Any]:
    """`answer`, whose o is a mean (divided by l), as a function whose o is a sum."""

    @functools.wraps(answer)
    def of_sums(m: Any, l: Any, o: Any, s: Any, v: Any) -> Any:
        new, sums, mean = answer(m, l, o / np.where(l == 0, np.ones_like(l), l), s, v)
        return new, sums, mean * sums

    return of_sums


@dataclass(frozen=True)
class OnlineSoftmax(Function):
    """Accepts both forms of FlashAttention: o is a sum until the end (2023), or divided by l in each tile (2022)."""

    def __call__(self, answer: Any) -> Grade:
        if self._divides(answer):
            grade = super().__call__(_undivided(answer))
            if grade.outcome == RIGHT:
                note = "Your o is divided by l in every tile, as in FlashAttention of 2022; the text divides once."
                return replace(grade, note=note)
        return super().__call__(answer)

    def wrapped(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        return super().wrapped(_undivided(answer) if self._divides(answer) else answer)

    def _divides(self, answer: Any) -> bool:
        """Does the answer return the mean 4 of equally weighted values 3, 3, 4 and 6? Else o is the sum 3 + 4 + 6."""
        state = [np.array(x) for x in ([[0.0]], [[2.0]], [[3.0]], [[0.0, 0.0]], [[4.0], [6.0]])]
        found = run_answer(lambda: np.array(answer(*state)[2], dtype=float))
        return isinstance(found, np.ndarray) and found.shape == (1, 1) and math.isclose(found.item(), 4.0)


# my_tile_gradients
def _gradients(dout: Any, q: Any, k: Any, v: Any, s: Any, L: Any, D: Any) -> Any:
    """What one tile adds to dq, dk and dv."""
    p = np.exp(s - L)
    dp = dout @ v.T
    ds = p * (dp - D)
    scaled = ds / math.sqrt(q.shape[-1])
    dq, dk, dv = scaled @ k, (scaled).T @ q, p.T @ dout
    return dq, dk, dv


def _part_of_a_row(draw: CaseDrawer) -> dict[str, Any]:
    """The tile has the first b keys; L and D come from all keys."""
    a, b, more = draw.size(1, 4), draw.size(1, 4), draw.size(1, 3)
    d, e = draw.size(1, 5), draw.size(1, 5)
    q, k, v = draw.array(a, d), draw.array(b + more, d), draw.array(b + more, e)
    s = q @ k.T / math.sqrt(d)
    if draw.flag():
        s = np.where(np.arange(b + more) >= b - np.arange(a)[:, None], s, -np.inf).astype(s.dtype)
    dout, p = draw.array(a, e), ops.softmax(s)
    L = np.log(_row_sum(np.exp(s))).astype(s.dtype)
    return {"dout": dout, "q": q, "k": k[:b], "v": v[:b], "s": s[:, :b], "L": L, "D": _row_sum(dout * (p @ v))}


def _large_tiles() -> list[dict[str, Any]]:
    ones, k, v, s = np.ones((1, 1)), np.array([[1.0], [2.0]]), np.array([[2.0], [3.0]]), np.array([[-1.0, 0.0]])
    tile = {"dout": ones, "q": ones, "k": k, "v": v, "D": 0.5 * ones}
    return [{**tile, "s": far + s, "L": far * ones} for far in (1000.0, -1000.0)]


def _tile_atol(case: dict[str, Any]) -> float:
    arrays = [x for name, x in case.items() if name not in "sL"]
    return 30 * rounding(case["q"].dtype, 40, largest(*arrays, 1) ** 3)


TILE_GRADIENTS = plain_spec(
    "tile_gradients", "what one tile adds to dq, dk and dv", _part_of_a_row, _gradients, "dq", "dk", "dv",
    atol=_tile_atol,
    extreme="the gradients are right, too, where s and L are near 1,000 or -1,000", extremes=_large_tiles(),
)  # fmt: skip


WRONG_TILE = Changes(_gradients,
    scaled_again=lambda dout, q, k, v, s, L, D: _gradients(dout, q, k, v, s / math.sqrt(q.shape[-1]), L, D),
    logits_unmasked=lambda dout, q, k, v, s, L, D: _gradients(dout, q, k, v, q @ k.T / math.sqrt(q.shape[-1]), L, D),
)


# repaired_mask
def _parts(n: int, size: int) -> tuple[Any, Any, Any, Any]:
    """-> the query's block minus the key's, whether the query is in block 0, whether the key is, key <= query."""
    block = np.arange(n) // size
    return block[:, None] - block, (block == 0)[:, None], block == 0, np.arange(n) <= np.arange(n)[:, None]


def _near(back: Any) -> Any:
    """The query's block and the one before."""
    return (back == 0) | (back == 1)


def _mask(n: int, size: int) -> Any:
    back, of_first, to_first, past = _parts(n, size)
    return (_near(back) | of_first | to_first) & past


REPAIRED = plain_spec(
    "repaired_mask", "nothing looks ahead, and every other pair is as it was",
    lambda draw: {"n": draw.size(6, 16), "size": draw.choose((2, 1, 3, 4))}, _mask, "mask", atol=0)  # fmt: skip


def _mask_with(change: Any) -> Any:
    return lambda n, size: change(*_parts(n, size)) & np.ones((n, n), bool)


def _by_distance(n: int, size: int, most: int) -> Any:
    i = np.arange(n)
    return np.tril((i[:, None] - i <= most) | (i < size))


WRONG_MASK = dict(
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


# my_linear_attention
def _recurrence(a: Any, b: Any, v: Any) -> Any:
    """The recurrence, token by token."""
    S, z, out = np.zeros((b.shape[1], v.shape[1])), np.zeros(b.shape[1]), np.zeros_like(v)
    for t in range(len(v)):
        S, z = S + np.outer(b[t], v[t]), z + b[t]
        out[t] = a[t] @ S / (a[t] @ z)
    return out


def _again(x: Any) -> Any:
    """φ applied a second time."""
    return np.where(x > 0, 1 + x, np.exp(x))


def _positive(draw: CaseDrawer) -> dict[str, Any]:
    n, r = draw.size(1, 6), draw.size(1, 5)
    a, b = (np.abs(draw.array(n, r)) + np.asarray(0.25, draw.dtype) for _ in range(2))
    return {"a": a, "b": b, "v": draw.array(n, draw.size_like(r))}


FEATURES = plain_spec(
    "features_attention", "out_i is the mean of the values up to i, with weights a_i · b_j", _positive, _recurrence,
    "out", atol=lambda case: 100 * rounding(case["v"].dtype, case["v"].size, 4 * largest(case["v"], 1)))  # fmt: skip


TOKENS_OF_LINEAR = 256         # below Python's recursion limit


def _keeps_no_square(answer: Any) -> str:
    """A message if an answer with right numbers makes an array of all pairs of tokens, else ""."""
    x = np.full((TOKENS_OF_LINEAR, 1), 0.5)      # not whole numbers, for which the grader would call the library
    most = counted(peak, answer.__wrapped__, x, x, x)
    return "" if most < x.size**2 * x.itemsize // 2 else (
        f"the numbers are right, but for {x.size} tokens it makes an array of {x.size} by {x.size}: "
        f"{most / 1e6:.1f} MB at its height. Go from token to token, with the two sums as a state."
    )


WRONG_LINEAR = Changes(_recurrence,
    queries_and_keys_exchanged=lambda a, b, v: _recurrence(b, a, v),
    from_the_end=lambda a, b, v: _recurrence(a[::-1], b[::-1], v[::-1])[::-1],
    softmax=lambda a, b, v: ops.softmax(a @ b.T, np.tri(len(v), dtype=bool)) @ v,
    softmax_scaled=lambda a, b, v: ops.softmax(a @ b.T / math.sqrt(a.shape[1]), np.tri(len(v), dtype=bool)) @ v,
    features_again=lambda a, b, v: _recurrence(_again(a), _again(b), v),
    mean_of_values=lambda a, b, v: np.cumsum(v, axis=0) / np.arange(1, len(v) + 1)[:, None],
)


EXERCISES = Prose(18).exercises(
    my_online_softmax=OnlineSoftmax(ONLINE, tempting=WRONG_ONLINE),
    tiles_visited=Number(_tiles_visited, exactly=True),
    my_tile_gradients=Function(TILE_GRADIENTS, tempting=WRONG_TILE),
    strided_exponent=Number(lambda: math.log(_strided_pairs(2**24) / _strided_pairs(2**20), 2**4), tolerance=0.02),
    repaired_mask=Function(REPAIRED, tempting=WRONG_MASK),
    my_linear_attention=Function(FEATURES, tempting=WRONG_LINEAR, last_test=_keeps_no_square),
)
