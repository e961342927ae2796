"""Exercises of chapter 07, order."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.specs import get_spec
from ..graders import Function, Number, Property
from ..plain import plain_spec
from ..prose import Prose

FAR = 100                    # of bucket_of_100


def _orders_told_apart(n: list[Any]) -> tuple[int, int]:
    """Numbers of distinct outputs of the last of n[0] tokens over all orders of the others, by 1 and 2 attentions."""
    x = np.random.default_rng(0).standard_normal((n[0], 8))
    mask = ops.causal_mask(n[0], like=x)
    outputs: tuple[set[tuple[float, ...]], set[tuple[float, ...]]] = (set(), set())
    for first in permutations(range(n[0] - 1)):
        y = x[[*first, n[0] - 1]]
        for seen in outputs:
            y = ops.attention(y, y, y, mask)[0]
            seen.add(tuple(y[-1].round(9)))
    return len(outputs[0]), len(outputs[1])


# my_sinusoids
def _slots(draw: CaseDrawer) -> dict[str, Any]:
    """Slots in any order; the simplest case is not slot 0 alone."""
    n = draw.size()
    return {"slots": draw.rng.integers(0, draw.choose((4, 50, 1000)), n) + draw.choose((0, 1)), "D": 2 * draw.size()}


SINUSOIDS = plain_spec(
    "sinusoids", "sine and cosine of p ω_i are features 2i and 2i + 1", _slots,
    lambda slots, D: ops.sinusoids(np.asarray(slots), D, np.float64), "PE", atol=1e-9)  # fmt: skip


def _clock(slots: Any, speeds: Any, first: Any = np.sin, second: Any = np.cos) -> Any:
    """Features in alternation: `first` and `second` of every angle."""
    angles = np.asarray(slots)[:, None] * speeds
    return np.stack([first(angles), second(angles)], axis=-1).reshape(len(angles), -1)


def _speeds(D: int) -> Any:
    return 10000.0 ** (-np.arange(0, D, 2) / D)


def _alternating(angles: Any) -> Any:
    """Sine and cosine in turn, of an angle for each feature: a pair belongs to different angles."""
    return np.where(np.arange(angles.shape[1]) % 2 == 0, np.sin(angles), np.cos(angles))


WRONG_SINUSOIDS = dict(
    counted_from_one=lambda slots, D: _clock(np.asarray(slots) + 1, _speeds(D)),
    sine_and_cosine_exchanged=lambda slots, D: _clock(slots, _speeds(D), np.cos, np.sin),
    halves_of_PE=lambda slots, D: np.concatenate(
        [f(np.asarray(slots)[:, None] * _speeds(D)) for f in (np.sin, np.cos)], axis=-1
    ),
    half_exponent=lambda slots, D: _clock(slots, 10000.0 ** (-np.arange(D // 2) / D)),
    speed_a_feature=lambda slots, D: _alternating(np.asarray(slots)[:, None] * 10000.0 ** (-np.arange(D) / D)),
    feature_as_hand=lambda slots, D: _alternating(np.asarray(slots)[:, None] * 10000.0 ** (-2 * np.arange(D) / D)),
    exponent_doubled=lambda slots, D: _clock(slots, 10000.0 ** (-2 * np.arange(0, D, 2) / D)),
    last_exponent_minus_one=lambda slots, D: _clock(slots, np.logspace(0, -4, D // 2)),
    exponent_positive=lambda slots, D: _clock(slots, 1 / _speeds(D)),
    base_of_1000=lambda slots, D: _clock(slots, 1000.0 ** (-np.arange(0, D, 2) / D)),
    sines_only=lambda slots, D: _clock(slots, _speeds(D), np.sin, np.sin),
    full_turns=lambda slots, D: _clock(slots, 2 * np.pi * _speeds(D)),
    places_for_slots=lambda slots, D: _clock(np.arange(len(slots)), _speeds(D)),
    transposed=lambda slots, D: _clock(slots, _speeds(D)).T,
    turned_backwards=lambda slots, D: _clock(-np.asarray(slots), _speeds(D)),
)


# my_rope and its backward
def _turning(draw: CaseDrawer) -> dict[str, Any]:
    """Tables as `rotary_tables` makes them: a row for each token."""
    n, half = draw.size(), draw.size(high=4)
    x = draw.array(*draw.lead, n, 2 * half)
    angle = draw.array(n, half).astype(float)
    return {"x": x, "cos": np.cos(angle).astype(x.dtype), "sin": np.sin(angle).astype(x.dtype)}


ROTARY = replace(get_spec("rotary"), case=_turning)


def _pairs(x: Any, cos: Any, sin: Any, a: int, b: int, c: int, d: int) -> Any:
    """Maps neighbouring features (e, o) to (a cos e + b sin o, c sin e + d cos o)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos * even + b * sin * odd, c * sin * even + d * cos * odd], axis=-1).reshape(x.shape)


def _turn(a: int, b: int, c: int, d: int) -> Any:
    return lambda x, cos, sin: _pairs(x, cos, sin, a, b, c, d)


_right = _turn(1, -1, 1, 1)


def _halves(x: Any, cos: Any, sin: Any) -> Any:
    """Pairs feature i with feature i + d / 2."""
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([cos * one - sin * two, sin * one + cos * two], axis=-1)


def _over_itself(x: Any, cos: Any, sin: Any) -> Any:
    """The second line reads what the first has written."""
    y = np.array(x)
    y[..., 0::2] = cos * y[..., 0::2] - sin * y[..., 1::2]
    y[..., 1::2] = sin * y[..., 0::2] + cos * y[..., 1::2]
    return y


def _tables_by_tile(x: Any, cos: Any, sin: Any) -> Any:
    """Tiles cos and sin, while each angle should be repeated for both features of its pair."""
    partner = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * np.tile(cos, 2) + partner * np.tile(sin, 2)


WRONG_ROPE = dict(
    other_way_round=_turn(1, 1, -1, 1),
    halves=_halves,
    written_apart=lambda x, cos, sin: np.concatenate([_right(x, cos, sin)[..., i::2] for i in (0, 1)], axis=-1),
    over_itself=_over_itself,
    tables_by_tile=_tables_by_tile,
    no_minus=_turn(1, 1, 1, 1),
    minus_in_both_lines=_turn(1, -1, -1, 1),
    cos_and_sin_exchanged=lambda x, cos, sin: _right(x, sin, cos),
    only_even=lambda x, cos, sin: np.where(np.arange(x.shape[-1]) % 2, x, _right(x, cos, sin)),
    first_pair_only=lambda x, cos, sin: np.where(np.arange(x.shape[-1]) < 2, _right(x, cos, sin), x),
    one_angle=lambda x, cos, sin: _right(x, cos[..., :1], sin[..., :1]),
    no_sines=lambda x, cos, sin: x * np.repeat(cos, 2, axis=-1),
    added=lambda x, cos, sin: x + np.stack([cos, sin], axis=-1).reshape(*cos.shape[:-1], -1),
)


def _turned_back(wrong: Any) -> Any:
    """The backward with the same mistake: it turns by -angle."""
    return lambda dy, cos, sin: wrong(dy, cos, -sin)


AS_IN_ROPE = ("halves", "written_apart", "over_itself", "tables_by_tile", "only_even", "one_angle", "first_pair_only")
WRONG_ROPE_BACKWARD = dict(
    forward_again=_turn(1, -1, 1, 1),
    **{name: _turned_back(WRONG_ROPE[name]) for name in AS_IN_ROPE},
    no_minus=_turn(1, 1, 1, 1),
    minus_in_both_lines=_turn(1, -1, -1, 1),
    cosines_negative=_turn(-1, 1, -1, -1),
    by_the_angle=lambda dy, cos, sin: _right(dy, -sin, cos),
    not_turned=lambda dy, cos, sin: dy.copy(),
    no_sines=lambda dy, cos, sin: dy * np.repeat(cos, 2, axis=-1),
)


EXERCISES = Prose(7).exercises(
    knows_no_order=Property(
        "multi_head_attention", "merge_no_T", gives=("multi_head_attention",), others=("split_no_T",)
    ),
    orders_told_apart=Number(_orders_told_apart, tolerance=1e-6),
    my_sinusoids=Function(SINUSOIDS, tempting=WRONG_SINUSOIDS),
    bucket_of_100=Number(lambda: int(ops.distance_buckets(FAR + 1, 1, like=np.zeros(1))[FAR, 0]), exactly=True),
    my_rope=Function(ROTARY, tempting=WRONG_ROPE, conventions=False),
    my_rope_backward=Function(ROTARY, part="backward", tempting=WRONG_ROPE_BACKWARD, conventions=False),
)
