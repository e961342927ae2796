"""Exercises of chapter 07, order."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import Property as Law
from ...check.property import close, stating
from ...check.spec import Spec
from ...check.specs import get_spec
from ...check.subject import Subject
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 7
FAR = 100                    # of bucket_of_100


def _orders_told_apart() -> tuple[int, int]:
    """Different outputs of the last of five tokens, after one causal attention and after two."""
    x = np.random.default_rng(0).standard_normal((5, 8))
    mask = ops.causal_mask(5, like=x)
    found: tuple[set[tuple[float, ...]], set[tuple[float, ...]]] = (set(), set())
    for first in permutations(range(4)):
        y = x[[*first, 4]]
        for seen in found:
            y = ops.attention(y, y, y, mask)[0]
            seen.add(tuple(y[-1].round(9)))
    return len(found[0]), len(found[1])


def _bucket() -> int:
    return int(ops.distance_buckets(FAR + 1, 1, like=np.zeros(1))[FAR, 0])


# --- my_sinusoids ---------------------------------------------------------------------------------------------------


def _sinusoids(slots: Any, D: int) -> Any:
    return ops.sinusoids(np.asarray(slots), D, np.float64)


def _slots(draw: CaseDrawer) -> dict[str, Any]:
    """In any order; the first drawn has no chance to be 0 alone."""
    n = draw.size()
    return {"slots": draw.rng.integers(0, draw.choose((4, 50, 1000)), n) + draw.choose((0, 1)), "D": 2 * draw.size()}


_LAWS: list[Law] = []
_states = stating("sinusoids", _LAWS)


@_states("rounding", "sine and cosine of p ω_i are features 2i and 2i + 1", "oracle", hint="Do the example on paper.")
def _by_formula(op: Subject, **case: Any) -> None:
    close(op(**case), _sinusoids(**case), 1e-9, "PE")


SINUSOIDS = Spec(
    name="sinusoids",
    says="PE_2i = sin(p ω_i), PE_{2i+1} = cos(p ω_i), ω_i = 10000^(-2i / D)",
    function="sinusoids",
    case=_slots,
    ours=lambda: SimpleNamespace(sinusoids=_sinusoids),
    properties=_LAWS,
    outputs=("PE",),
    common=False,
)


def _clock(slots: Any, speeds: Any, first: Any = np.sin, second: Any = np.cos) -> Any:
    """Features in turn: `first` and `second` of every angle."""
    angles = np.asarray(slots)[:, None] * speeds
    return np.stack([first(angles), second(angles)], axis=-1).reshape(len(angles), -1)


def _speeds(D: int) -> Any:
    return 10000.0 ** (-np.arange(0, D, 2) / D)


def _halves_of_PE(slots: Any, D: int) -> Any:
    angles = np.asarray(slots)[:, None] * _speeds(D)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def _speed_a_feature(slots: Any, D: int) -> Any:
    """Every feature has a speed of its own: sine and cosine are not of one angle."""
    angles = np.asarray(slots)[:, None] * 10000.0 ** (-np.arange(D) / D)
    return np.where(np.arange(D) % 2 == 0, np.sin(angles), np.cos(angles))


def _half_exponent(slots: Any, D: int) -> Any:
    return _clock(slots, 10000.0 ** (-np.arange(D // 2) / D))


def _feature_as_hand(slots: Any, D: int) -> Any:
    """The formula's i taken for the feature's number."""
    angles = np.asarray(slots)[:, None] * 10000.0 ** (-2 * np.arange(D) / D)
    return np.where(np.arange(D) % 2 == 0, np.sin(angles), np.cos(angles))


WRONG_SINUSOIDS = (
    (lambda slots, D: _clock(np.asarray(slots) + 1, _speeds(D)), "At slot 0 every hand stands at 0. What are its sine "
     "and cosine, and what are yours?", "You count from 1: the angle of slot p is p ω_i, so slot 0 has angle 0."),
    (lambda slots, D: _clock(slots, _speeds(D), np.cos, np.sin), "Which of the two is 0 at slot 0, and which feature "
     "is it?", "Sine and cosine have changed places: the sine comes first."),
    (_halves_of_PE, "Which feature stands beside sin(p ω_0): cos(p ω_0), or the next sine?",
     "All your sines come first, then all cosines. Here they alternate: PE[:, 0::2] and PE[:, 1::2]."),
    (_half_exponent, "What is the exponent of the second hand, i = 1, for D = 4?",
     "The exponent is -2i / D; yours is -i / D."),
    (_speed_a_feature, "How many hands are there, and how many features are made from each?",
     "Sine and cosine of a pair have the same angle: there are D / 2 speeds, not D."),
    (_feature_as_hand, "Feature 1 is 2i + 1: which hand i is that?",
     "You took i for the feature's number. Features 2i and 2i + 1 share hand i: there are D / 2 speeds, not D."),
    (lambda slots, D: _clock(slots, 10000.0 ** (-2 * np.arange(0, D, 2) / D)),
     "Which numbers does np.arange(0, D, 2) hold: i, or 2i already?", "The exponent is -2i / D; yours is -4i / D."),
    (lambda slots, D: _clock(slots, np.logspace(0, -4, D // 2)), "For D = 4 the second hand turns by 10000^(-1/2) "
     "per token. By how much does yours?",
     "Your last hand turns by 1/10000: the exponent is -2i / D, which never is -1."),
    (lambda slots, D: _clock(slots, 1 / _speeds(D)), "Does the second hand turn more slowly or faster than the first?",
     "Your hands become faster: the exponent is negative."),
    (lambda slots, D: _clock(slots, 1000.0 ** (-np.arange(0, D, 2) / D)), "What stands under the exponent?",
     "The base is 10,000."),
    (lambda slots, D: _clock(slots, _speeds(D), np.sin, np.sin), "What are the odd features at slot 0?",
     "Odd features are cosines."),
    (lambda slots, D: _clock(slots, 2 * np.pi * _speeds(D)), "By how much does the first hand turn per token?",
     "The first hand turns by one radian per token, not by a full turn."),
    (lambda slots, D: _clock(np.arange(len(slots)), _speeds(D)), "Give it the slots 5, 2, 2: which rows are equal?",
     "Slots come in any order and may repeat: use the numbers given, not np.arange of how many there are."),
    (lambda slots, D: _clock(slots, _speeds(D)).T, "Which axis holds the tokens?",
     "It is transposed: each token has a row."),
    (lambda slots, D: _clock(-np.asarray(slots), _speeds(D)), "Is the sine of a small positive angle positive?",
     "Your hands turn backwards: the angle is p ω_i, without a minus."),
)  # fmt: skip


# --- my_rope and its backward: the library's op, with tables that are given -----------------------------------------


def _turning(draw: CaseDrawer) -> dict[str, Any]:
    """Tables as `rotary_tables` makes them: a row for each token."""
    n, half = draw.size(), draw.size(high=4)
    x = draw.array(*draw.lead, n, 2 * half)
    angle = draw.array(n, half).astype(float)
    return {"x": x, "cos": np.cos(angle).astype(x.dtype), "sin": np.sin(angle).astype(x.dtype)}


ROTARY = replace(get_spec("rotary"), case=_turning)


def _pairs(x: Any, cos: Any, sin: Any, a: int, b: int, c: int, d: int) -> Any:
    """Neighbours (e, o) to (a cos e + b sin o, c sin e + d cos o)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos * even + b * sin * odd, c * sin * even + d * cos * odd], axis=-1).reshape(x.shape)


def _turn(a: int, b: int, c: int, d: int) -> Any:
    return lambda x, cos, sin: _pairs(x, cos, sin, a, b, c, d)


def _halves(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    """Feature i with feature i + d / 2."""
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([cos * one - sign * sin * two, sign * sin * one + cos * two], axis=-1)


def _written_apart(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    """The right pairs, but all first features come first."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.concatenate([cos * even - sign * sin * odd, sign * sin * even + cos * odd], axis=-1)


def _over_itself(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    """The second line reads what the first has written."""
    y = np.array(x)
    y[..., 0::2] = cos * y[..., 0::2] - sign * sin * y[..., 1::2]
    y[..., 1::2] = sign * sin * y[..., 0::2] + cos * y[..., 1::2]
    return y


def _tables_by_tile(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    """cos and sin, twice one after the other: where each of a pair's features should have the pair's."""
    partner = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * np.tile(cos, 2) + sign * partner * np.tile(sin, 2)


def _only_even(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    y = _pairs(x, cos, sin, 1, -sign, sign, 1)
    y[..., 1::2] = x[..., 1::2]
    return y


def _first_pair_only(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    y = np.array(x)
    y[..., :2] = _pairs(x, cos, sin, 1, -sign, sign, 1)[..., :2]
    return y


def _one_angle(x: Any, cos: Any, sin: Any, sign: int = 1) -> Any:
    """All pairs turn like the first."""
    return _pairs(x, cos[..., :1], sin[..., :1], 1, -sign, sign, 1)


_PAIRED = "Which two features make the first pair: 0 and 1, or 0 and d/2?"
_READ = "Which x does your second line read: the one that was given, or one that has been turned by half?"
_READ_TOO = "The second line must read the even features as they came in: keep them before you write."
_APART = "The pairs are turned rightly, but they are put one half after the other; each belongs where it was."
_COLUMN = "With d = 4, which column of cos belongs to feature 1: 0 or 1?"
_REPEAT = "np.tile gives features 0, 1, 2, 3 the columns 0, 1, 0, 1; pairs need 0, 0, 1, 1: np.repeat(cos, 2, axis=-1)."
_NEIGHBOURS = "Here neighbours are pairs: x[..., 0::2] with x[..., 1::2]."

WRONG_ROPE = (
    (_turn(1, 1, -1, 1), "A turn by a small angle moves (1, 0) to (cos, sin). Where does yours move it?",
     "It turns the other way: the first line has - sin, the second + sin."),
    (_halves, _PAIRED, _NEIGHBOURS),
    (_written_apart, "Where does feature 1 stand in your y?", _APART),
    (_over_itself, _READ, _READ_TOO),
    (_tables_by_tile, _COLUMN, _REPEAT),
    (_turn(1, 1, 1, 1), "How long is (1, 1) before the turn, and after yours?",
     "One of the two sines has a minus: the first line's."),
    (_turn(1, -1, -1, 1), "How long is (1, 1) before the turn, and after yours?",
     "Only the first line's sine has a minus."),
    (lambda x, cos, sin: _pairs(x, sin, cos, 1, -1, 1, 1), "What should an angle of 0 do to x?",
     "cos and sin have changed places."),
    (_only_even, "How many of the two features of a pair does a turn move?", "The odd features are turned, too."),
    (_first_pair_only, "With d = 4, are features 2 and 3 turned?"),
    (_one_angle, "Does every pair turn at the same speed?", "Each pair has a column of cos and sin of its own."),
    (lambda x, cos, sin: x * np.repeat(cos, 2, axis=-1), "Where does the other feature of the pair come in?",
     "The sines are missing."),
    (lambda x, cos, sin: x + np.stack([cos, sin], axis=-1).reshape(*cos.shape[:-1], -1),
     "Is a turn an addition?", "RoPE adds nothing: it multiplies each pair by the matrix R."),
)  # fmt: skip

WRONG_ROPE_BACKWARD = (
    (_turn(1, -1, 1, 1), "Take an angle of 90 degrees, and dy = (1, 0). Which entry of x made the first entry of y?",
     "That is the forward again. The transpose of R turns back: sin has the other sign."),
    (lambda dy, cos, sin: _halves(dy, cos, sin, -1), _PAIRED, _NEIGHBOURS),
    (lambda dy, cos, sin: _written_apart(dy, cos, sin, -1), "Where does feature 1 stand in your dx?", _APART),
    (lambda dy, cos, sin: _over_itself(dy, cos, sin, -1), _READ.replace("x", "dy", 1), _READ_TOO),
    (lambda dy, cos, sin: _tables_by_tile(dy, cos, sin, -1), _COLUMN, _REPEAT),
    (_turn(1, 1, 1, 1), "How long is (1, 1) before the turn back, and after yours?",
     "One of the two sines has a minus: the second line's."),
    (_turn(1, -1, -1, 1), "How long is (1, 1) before the turn back, and after yours?",
     "Only the second line's sine has a minus."),
    (_turn(-1, 1, -1, -1), "With an angle of 0, y = x. What should dx be?", "The cosines have no minus."),
    (lambda dy, cos, sin: _pairs(dy, -sin, cos, 1, -1, 1, 1), "With an angle of 0, y = x. What should dx be?",
     "That is the derivative with respect to the angle. The gradient with respect to x is asked, at a given angle."),
    (lambda dy, cos, sin: dy.copy(), "y is a turned x. Is the gradient turned?"),
    (lambda dy, cos, sin: dy * np.repeat(cos, 2, axis=-1), "x_0 is in both entries of y: through which sine in y_1?",
     "The sines are missing: each entry of x is in both entries of y."),
    (lambda dy, cos, sin: _only_even(dy, cos, sin, -1), "Which entries of y contain x_1?"),
    (lambda dy, cos, sin: _one_angle(dy, cos, sin, -1), "Does every pair turn at the same speed?",
     "Each pair has a column of cos and sin of its own."),
    (lambda dy, cos, sin: _first_pair_only(dy, cos, sin, -1), "With d = 4, are features 2 and 3 turned back?"),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "knows_no_order",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="knows_no_order(multi_head_attention) -> True where permuted tokens have permuted outputs, else False",
        grader=Property("multi_head_attention", "merge_no_T", gives=("multi_head_attention",), others=("split_no_T",)),
        hints=(
            "Call it twice: with x, and with x in another order. What should the two results have to do with each "
            "other?",
            "With order, an array of row numbers: the outputs of x[order] should be the outputs of x, at [order]. "
            "Compare with np.allclose, and take an order that leaves no token where it was.",
        ),
        why="Equivariance needs no formula of attention, only two calls. Sums are added in another order the second "
        "time, so the equality holds up to rounding.",
    ),
    Exercise(
        "orders_told_apart",
        "predict the number",
        difficulty=2,
        minutes=5,
        task="how many outputs of the last of 5 tokens there are over the 24 orders of the others, after one causal "
        "attention and after two",
        grader=Number(
            _orders_told_apart,
            tolerance=1e-6,
            tempting=(
                (lambda: (1.0, 1.0), "What did token 2 see in the first attention, and does its output tell?",
                 "One attention is right. In the second the other tokens' outputs are not what they were: each "
                 "depends on who stood before it."),
                (lambda: (24.0, 24.0), "How many keys does the last query see, and does it know which came first?",
                 "Two attentions are right. In the first, the last query sees all five tokens as a set."),
                (lambda: (24.0, 1.0), "Which of the two attentions reads tokens that have not read others before?"),
                (lambda: (1.0, 4.0), "Does only the token just before the last one matter?",
                 "The outputs of all earlier tokens depend on their own predecessors, so all of the order counts."),
                (lambda: (1.0, 6.0), "Which two orders should give the same?",
                 "Every order gives another nest of sets, {a}, {a, b}, {a, b, c}: none are alike."),
            ),
        ),
        hints=(
            "Which keys does the last token see in the first attention, in any order? And which did token 2 see?",
            "First: all five keys whatever their order, a set. Second: each earlier output says who stood before that "
            "token, and all of that together gives the order away.",
        ),
        why="The last query sees the same five tokens in every order: one output. After the first attention, token t "
        "has read the set of tokens 0 to t, and these nested sets tell all 24 orders apart.",
    ),
    Exercise(
        "my_sinusoids",
        "write the op",
        difficulty=1,
        minutes=8,
        task="my_sinusoids(slots, D) -> PE, a row of D sines and cosines for each slot",
        grader=Function(SINUSOIDS, tempting=WRONG_SINUSOIDS),
        hints=(
            "How many angles has a slot, and what shape do all angles of n slots have?",
            "Make the D / 2 speeds first, 10000.0 ** (-np.arange(0, D, 2) / D), then slots[:, None] * speeds. Sines "
            "go into PE[:, 0::2], cosines into PE[:, 1::2].",
        ),
        why="A column of slots times a row of speeds gives an angle for each slot and hand; each hand fills two "
        "neighbouring features.",
    ),
    Exercise(
        "bucket_of_100",
        "predict the number",
        difficulty=1,
        minutes=4,
        task=f"T5's bucket, 0 to 31, of the distance {FAR}",
        grader=Number(
            _bucket,
            exactly=True,
            tempting=(
                (lambda: 14, "That is the second term. What stands before it?", "16 is missing."),
                (lambda: 29, "What is 16 · ln(6.25) / ln(8), before it is rounded?"),
                (lambda: 31, "From which distance on do all have the last bucket? Which way does ⌊ ⌋ round?",
                 "It is rounded down."),
                (lambda: 28, "Are the steps equal differences, or equal factors?",
                 "Distances from 16 to 128 are divided by equal factors: take logarithms."),
                (lambda: 24, "Is 100 in the middle between 16 and 128, in logarithms?"),
            ),
        ),
        hints=(
            "By which factor is 100 beyond 16, and by which is 128? How far is one on the way to the other, in "
            "logarithms?",
            "ln(100 / 16) / ln(128 / 16) = 1.833 / 2.079. Multiply by 16, round down, add 16.",
        ),
        why="16 · 1.833 / 2.079 = 14.1, rounded down 14, and 16 + 14 = 30. Distances 99 to 112 share it: far away, "
        "T5 does not count so exactly.",
    ),
    Exercise(
        "my_rope",
        "write the op",
        difficulty=2,
        minutes=8,
        task="my_rope(x, cos, sin) -> y, with every pair of neighbouring features turned",
        grader=Function(ROTARY, tempting=WRONG_ROPE),
        hints=(
            "Write R_θ times (x_0, x_1) out on paper: two lines. Where do the first features of all pairs stand in x?",
            "even, odd = x[..., 0::2], x[..., 1::2]. The even features of y are cos · even - sin · odd, the odd ones "
            "sin · even + cos · odd.",
        ),
        why="The two slices hold the first and the second feature of all pairs, each with the shape of cos and sin, "
        "so R_θ is written out once and turns them all.",
    ),
    Exercise(
        "my_rope_backward",
        "derive the backward",
        difficulty=2,
        minutes=10,
        task="my_rope_backward(dy, cos, sin) -> dx",
        grader=Function(ROTARY, part="backward", tempting=WRONG_ROPE_BACKWARD),
        hints=(
            "⟨dy, R δx⟩ = ⟨what, δx⟩? And what is the transpose of a turn?",
            "dx = Rᵀ dy, and Rᵀ turns by the negative angle: cos stays, sin has the other sign in both lines.",
        ),
        why="y = R x is linear, so dx = Rᵀ dy. The transpose of a turn is the turn back: the forward's two lines with "
        "-sin for sin, that is my_rope(dy, cos, -sin).",
    ),
)
