"""Exercises of chapter 05, masks and what must never leak."""

import math
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ..graders import Function, Number, Property
from ..plain import Changes, op_spec
from ..prose import Prose

SYMBOLS, POSITIONS = 8, 8    # of loss_of_a_cheat


def _loss_of_a_cheat() -> float:
    """The loss of a model that copies every next symbol from its input and guesses the last one."""
    targets = np.random.default_rng(0).integers(SYMBOLS, size=(100, POSITIONS))
    logits = 1e3 * np.eye(SYMBOLS)[targets]
    logits[:, -1] = 0
    return float(ops.cross_entropy(logits, targets))


# my_decoder_weights
def _case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 4)
    m = n + draw.choose((0, 1, 2, 3))
    s = draw.array(*draw.lead, n, m, size=2)
    return {"s": s, "lengths": np.asarray(draw.rng.integers(0, m + 1, draw.lead))}


def _decoder_weights(s: Any, lengths: Any) -> Any:
    """Weights of the mask allows(positions of queries (n, 1), of keys (m,), lengths, n, m)."""
    n, m = s.shape[-2:]
    i, j, real = np.arange(m - n, m)[:, None], np.arange(m), np.asarray(lengths)[..., None, None]
    return ops.softmax(s, np.broadcast_to((j <= i) & (j < real), s.shape))


def _nan_where_empty(s: Any, mask: Any) -> Any:
    return np.where(mask.any(axis=-1, keepdims=True), ops.softmax(s, mask), s.dtype.type(np.nan))


DECODER = op_spec(
    "decoder_weights",
    "softmax over the keys that are real and not later than the query; queries are the newest n of m positions",
    _case, _decoder_weights, "p", scale=lambda case: 10.0)  # fmt: skip
# repaired_model
def _rest_is_kept(model: Any) -> str:
    """A complaint unless a causal answer gives the numbers of the chapter's model with its one wrong line repaired."""
    x = np.random.default_rng(0).standard_normal((2, 5, 8))
    W_q, W_k, W_v = np.random.default_rng(12).standard_normal((3, 8, 8)) / math.sqrt(8)
    centred = x - x.mean(axis=-1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    right = x + ops.attention(h @ W_q, h @ W_k, h @ W_v, ops.causal_mask(5, like=x))[0]
    return "" if np.allclose(model(x), right, atol=1e-4) else (
        "nothing leaks any more, but something else has changed: every token of h has mean 0 and variance 1, and the "
        "output is x plus attention of h."
    )


EXERCISES = Prose(5).exercises(
    loss_of_a_cheat=Number(_loss_of_a_cheat, tolerance=0.03),
    my_masked_softmax=Function("softmax", takes=("mask",), conventions=False),  # True = may look; an empty row is zeros
    my_decoder_weights=Function(DECODER, tempting=Changes(_decoder_weights)),
    nothing_leaks=Property(
        "attention", "mask_after_softmax", gives=("attention",), to_the_bit=True,
        others=("off_by_one_peek", "mask_transposed", "mask_ignored"), true_of=("off_by_one_mask",),
    ),
    repaired_model=Function("causal_model", last_test=_rest_is_kept),
)
