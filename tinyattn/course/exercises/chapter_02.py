"""Exercises of chapter 02, why √d."""

import math
from typing import Any

import numpy as np

from ... import layers, ops
from ..graders import Function, Number, Property
from ..prose import Prose

PROSE = Prose(2)
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
def _logits(q: Any, k: Any) -> Any:
    return q @ np.swapaxes(k, -1, -2) / math.sqrt(max(q.shape[-1], 1))


def _divided_too_late(q: Any, k: Any, v: Any) -> Any:
    p = ops.attention(q, k, v, scale=1.0)[1] / math.sqrt(max(q.shape[-1], 1))
    return p @ v, p


def _output_divided(q: Any, k: Any, v: Any) -> Any:
    out, p = ops.attention(q, k, v, scale=1.0)
    return out / math.sqrt(max(q.shape[-1], 1)), p


WRONG_ATTENTION = dict(
    logits_as_weights=lambda q, k, v: (_logits(q, k) @ v, _logits(q, k)),
    logits_for_weights=lambda q, k, v: (ops.attention(q, k, v)[0], _logits(q, k)),
    divided_too_late=_divided_too_late,
    output_divided=_output_divided,
    worst_first=lambda q, k, v: ops.attention(-q, k, v),
)

EXERCISES = PROSE.exercises(
    score_std=Number(_score_std, 0.05, f"On paper it is √d; the library measures {{}} over {PAIRS:,} pairs."),
    my_attention=Function("attention", tempting=WRONG_ATTENTION, names=(("weights", "p"),)),
    transformer_divisor=Number(_divisor, tolerance=0.01),
    knows_the_scale=Property(
        "attention", "no_scale", gives=("attention",), others=("scale_d", "scale_mult", "scale_of_v", "scale_of_keys")
    ),
)
