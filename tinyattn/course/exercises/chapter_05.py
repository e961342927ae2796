"""Exercises of chapter 05, masks and what must never leak."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check import oracles
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..graders import Function, Number, Property
from ..prose import Prose

CHAPTER = 5
PROSE = Prose(CHAPTER)
SYMBOLS, POSITIONS = 8, 8    # of loss_of_a_cheat


def _loss_of_a_cheat() -> float:
    """Of a model that is sure of every next symbol that stands in its input, and knows nothing of the last one."""
    targets = np.random.default_rng(0).integers(SYMBOLS, size=(100, POSITIONS))
    logits = 1e3 * np.eye(SYMBOLS)[targets]
    logits[:, -1] = 0
    return float(ops.cross_entropy(logits, targets))


# --- my_decoder_weights: a spec of its own, and a small zoo ---------------------------------------------------------


def _case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 4)
    m = n + draw.choose((0, 1, 2, 3))
    s = draw.array(*draw.lead, n, m, size=2)
    return {"s": s, "lengths": np.asarray(draw.rng.integers(0, m + 1, draw.lead))}


def _places(s: Any, lengths: Any) -> tuple[Any, Any, Any]:
    """Of every query its position, (n, 1), of every key, (m,), and the lengths, ready to meet both."""
    n, m = s.shape[-2:]
    return np.arange(m - n, m)[:, None], np.arange(m), np.asarray(lengths)[..., None, None]


def _decoder_weights(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i) & (j < real))


def _by_loops(s: Any, lengths: Any) -> Any:
    n, m = s.shape[-2:]
    mask = np.zeros(s.shape, bool)
    for lead in np.ndindex(s.shape[:-2]):
        for i in range(n):
            for j in range(m):
                mask[lead][i, j] = j <= m - n + i and j < lengths[lead]
    return oracles.softmax(s, mask)


def _masked(allows: Any) -> Any:
    """Weights with another mask, `allows(i, j, real)`, of the positions of queries and keys and the lengths."""

    def weights(s: Any, lengths: Any) -> Any:
        return ops.softmax(s, np.broadcast_to(allows(*_places(s, lengths)), s.shape))

    return weights


def _first_queries(s: Any, lengths: Any) -> Any:
    _, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= np.arange(s.shape[-2])[:, None]) & (j < real))


def _padding_on_the_left(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i) & (j >= s.shape[-1] - real))


def _after_softmax(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return np.asarray(ops.softmax(s) * ((j <= i) & (j < real)), s.dtype)


def _filled(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(np.where((j <= i) & (j < real), s, s.dtype.type(-1e9)))


def _nan_where_empty(s: Any, lengths: Any) -> Any:
    p = _decoder_weights(s, lengths)
    return np.where(p.sum(axis=-1, keepdims=True) == 0, p.dtype.type(np.nan), p)


DECODER = Spec(
    name="decoder_weights",
    says="softmax over the keys that are real and not later than the query; queries are the newest n of m positions",
    function="decoder_weights",
    case=_case,
    ours=lambda: SimpleNamespace(decoder_weights=_decoder_weights),
    properties=[],
    outputs=("p",),
    oracle=_by_loops,
    scale=lambda case: 10.0,
)
TEMPTING = dict(
    first_queries=_first_queries,
    strict=_masked(lambda i, j, real: (j < i) & (j < real)),
    peeks=_masked(lambda i, j, real: (j <= i + 1) & (j < real)),
    transposed=_masked(lambda i, j, real: (j >= i) & (j < real)),
    only_causal=_masked(lambda i, j, real: j <= i),
    only_padding=_masked(lambda i, j, real: j < real),
    one_too_many=_masked(lambda i, j, real: (j <= i) & (j <= real)),
    padding_on_the_left=_padding_on_the_left,
    queries_masked=_masked(lambda i, j, real: (j <= i) & (i < real)),
    either=_masked(lambda i, j, real: (j <= i) | (j < real)),
    inverted=_masked(lambda i, j, real: ~((j <= i) & (j < real))),
    after_softmax=_after_softmax,
    filled=_filled,
    nan_where_empty=_nan_where_empty,
)


# --- repaired_model: that it is causal is not all -------------------------------------------------------------------


def _rest_is_kept(model: Any) -> str:
    """Held against the chapter's model with its one line put right."""
    x = np.random.default_rng(0).standard_normal((2, 5, 8))
    W_q, W_k, W_v = np.random.default_rng(12).standard_normal((3, 8, 8)) / math.sqrt(8)
    centred = x - x.mean(axis=-1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    right = x + ops.attention(h @ W_q, h @ W_k, h @ W_v, ops.causal_mask(5, like=x))[0]
    if np.allclose(model(x), right, atol=1e-4):
        return ""
    return (
        "nothing leaks any more, but the rest is not as it was: every token of h has mean 0 and variance 1, and the "
        "output is x plus attention of h."
    )


EXERCISES = PROSE.exercises(
    loss_of_a_cheat=Number(_loss_of_a_cheat, tolerance=0.03, tempting=dict(
        no_loss=lambda: 0.0,
        honest_loss=lambda: math.log(SYMBOLS),
        in_bits=lambda: math.log2(SYMBOLS) / POSITIONS,
        free_positions_pay=lambda: (POSITIONS - 1) / POSITIONS * math.log(SYMBOLS),
        one_position_too_many=lambda: math.log(SYMBOLS) / (POSITIONS + 1),
    )),
    my_masked_softmax=Function("softmax", takes=("mask",), conventions=False),  # True = may look; an empty row is zeros
    my_decoder_weights=Function(DECODER, tempting=TEMPTING),
    nothing_leaks=Property(
        "attention",
        "mask_after_softmax",
        gives=("attention",),
        to_the_bit=True,
        others=("off_by_one_peek", "mask_transposed", "mask_ignored"),
        lives=("off_by_one_mask",),
    ),
    repaired_model=Function("causal_model", also=_rest_is_kept),
)
