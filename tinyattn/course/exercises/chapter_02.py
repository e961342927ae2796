"""Exercises of chapter 02, why √d."""

import math
from typing import Any

import numpy as np

from ... import layers, ops
from ..graders import Function, Number, Property
from ..plain import changed
from ..prose import Prose

PAIRS = 20_000               # pairs drawn for score_std
WIDTH, HEADS = 1024, 16      # of transformer_divisor: the Transformer's big model


def _score_std(d: int) -> float:
    """The standard deviation of q·k over pairs of vectors with independent entries of variance 1."""
    q, k = np.random.default_rng(0).standard_normal((2, PAIRS, d))
    return float(np.std(np.sum(q * k, axis=-1)))


def _divisor() -> float:
    """The divisor of the logits in the library's multi-head attention.

    All projections are the identity. Before the division, token 1 has the logit 1 with itself and 0 with token 0, a row
    of zeros. After it, the difference of the two logits is ln of the ratio of their weights.
    """
    p = {name: {"W": np.eye(WIDTH)} for name in ("query", "key", "value")}
    x = np.zeros((2, WIDTH))
    x[1, 0] = 1.0
    weights = layers.multi_head_attention(p, x, x, heads=HEADS)[1].weights      # (heads, 2, 2)
    return 1 / math.log(weights[0, 1, 1] / weights[0, 1, 0])


# my_attention: wrong answers beside the zoo's
def _by_hand(q: Any, k: Any, v: Any) -> Any:
    root = math.sqrt(max(q.shape[-1], 1))
    s = q @ np.swapaxes(k, -1, -2) / root
    p = ops.softmax(s)
    return p @ v, p


WRONG_ATTENTION = dict(
    logits_as_weights=changed(_by_hand, "ops.softmax(s) -> s"),
    logits_for_weights=changed(_by_hand, "v, p -> v, s"),
    divided_too_late=changed(_by_hand, "-2) / root -> -2) && softmax(s) -> softmax(s) / root"),
    output_divided=changed(_by_hand, "-2) / root -> -2) && p @ v -> p @ v / root"),
    worst_first=lambda q, k, v: ops.attention(-q, k, v),
)

EXERCISES = Prose(2).exercises(
    score_std=Number(_score_std, 0.05, f"On paper it is √d; the library measures {{}} over {PAIRS:,} pairs."),
    my_attention=Function("attention", tempting=WRONG_ATTENTION, names=(("weights", "p"),)),
    transformer_divisor=Number(_divisor, tolerance=0.01),
    knows_the_scale=Property(
        "attention", "no_scale", gives=("attention",), others=("scale_d", "scale_mult", "scale_of_v", "scale_of_keys")
    ),
)
