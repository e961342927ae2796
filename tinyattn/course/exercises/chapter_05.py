"""Exercises of chapter 05, masks and what must never leak."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check import oracles
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 5
SYMBOLS, POSITIONS = 8, 8    # of loss_of_a_cheat


def _loss_of_a_cheat() -> float:
    """Of a model that is sure of every next symbol that stands in its input, and knows nothing of the last one."""
    targets = np.random.default_rng(0).integers(SYMBOLS, size=(100, POSITIONS))
    logits = 1e3 * np.eye(SYMBOLS)[targets]
    logits[:, -1] = 0
    return float(ops.cross_entropy(logits, targets))



# --- my_masked_softmax: True = may look, and an empty row is zeros, in this course ------------------------------------


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


def _first_queries(s: Any, lengths: Any) -> Any:
    _, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= np.arange(s.shape[-2])[:, None]) & (j < real))


def _strict(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j < i) & (j < real))


def _peeks(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i + 1) & (j < real))


def _transposed(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j >= i) & (j < real))


def _only_causal(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, np.broadcast_to(j <= i, s.shape) & (real >= 0))


def _only_padding(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j < real) & (i >= 0))


def _one_too_many(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i) & (j <= real))


def _padding_on_the_left(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i) & (j >= s.shape[-1] - real))


def _queries_masked(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i) & (i < real))


def _either(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, (j <= i) | (j < real))


def _inverted(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(s, ~((j <= i) & (j < real)))


def _after_softmax(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return np.asarray(ops.softmax(s) * ((j <= i) & (j < real)), s.dtype)


def _filled(s: Any, lengths: Any) -> Any:
    i, j, real = _places(s, lengths)
    return ops.softmax(np.where((j <= i) & (j < real), s, s.dtype.type(-1e9)))


def _nan_where_empty(s: Any, lengths: Any) -> Any:
    p = _decoder_weights(s, lengths)
    return np.where(p.sum(axis=-1, keepdims=True) == 0, p.dtype.type(np.nan), p)


_EMPTY = (
    "With length 0, which keys are left? What should that row be?",
    "A row with nothing allowed is zeros: hand the mask to softmax(s, mask).",
)
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
TEMPTING = (
    (
        _first_queries,
        "At which position does query 0 stand, if one query comes and four keys are kept?",
        "Your triangle begins in the upper left corner. Query i stands at position m - n + i.",
    ),
    (
        _strict,
        "In the row of the newest query, is there any weight on the newest key?",
        "A token may look at itself: j <= i, not j < i.",
    ),
    (
        _peeks,
        "With n = m, which keys does query 0 see in yours?",
        "Query i sees key i + 1: the triangle ends one key too far.",
    ),
    (
        _transposed,
        "mask[i, j] says whether query i may look at key j. Who sees whom in yours?",
        "Queries look at later keys in place of earlier ones: the comparison is turned round.",
    ),
    (
        _only_causal,
        "Take a sequence of length 1: which keys have weight in the row of the last query?",
        "Padding has weight: lengths are not used.",
    ),
    (
        _only_padding,
        "Take a sequence without padding: may its first query see the last key?",
        "Only padding is hidden, the future is not.",
    ),
    (
        _one_too_many,
        "With length 3, which are the numbers of the real keys?",
        "The real keys are 0 to length - 1, so j < length, not j <= length.",
    ),
    (
        _padding_on_the_left,
        "Which keys are real in a sequence of length 2: the first two or the last two?",
        "That is padding on the left. Here the real keys come first.",
    ),
    (
        _queries_masked,
        "What does `lengths` count: who looks, or who is looked at?",
        "lengths belong to the keys' axis, the last one.",
    ),
    (
        _either,
        "A key must be real *and* not later: which of & and | is that?",
        "You allow a key that meets one of the two conditions. It must meet both: &.",
    ),
    (
        _inverted,
        "In a mask of this library, what does True mean?",
        "True = may look. Yours is the other way round.",
    ),
    (
        _after_softmax,
        "Do the rows of your weights sum to 1?",
        "The mask comes after the softmax. Hand it to softmax(s, mask).",
    ),
    (_filled, *_EMPTY),
    (_nan_where_empty, *_EMPTY),
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


EXERCISES = (
    Exercise(
        "loss_of_a_cheat",
        "predict the number",
        difficulty=2,
        minutes=5,
        task=f"the loss (natural logarithm) of a perfect cheat on noise of {SYMBOLS} symbols, over {POSITIONS} "
        "positions",
        grader=Number(
            _loss_of_a_cheat,
            tolerance=0.03,
            tempting=(
                (lambda: 0.0, "At every position? Which target is not among the inputs?"),
                (lambda: math.log(SYMBOLS), "That is what an honest model pays. What does looking save, and where?"),
                (lambda: math.log2(SYMBOLS) / POSITIONS, "Those are bits. And with the natural logarithm?"),
                (lambda: (POSITIONS - 1) / POSITIONS * math.log(SYMBOLS),
                 "Which positions pay: those whose target is in the input, or the others?"),
                (lambda: math.log(SYMBOLS) / (POSITIONS + 1), "Over how many positions is the mean taken?"),
            ),
        ),
        hints=(
            "Position t is asked for symbol t + 1. For which t is that symbol an input?",
            "All positions but the last are free. The last one costs what guessing costs; divide by the number of "
            "positions.",
        ),
        why="Seven of the eight targets stand among the inputs and cost nothing. The last target does not, so the "
        "model can only guess and pays ln 8: the mean is ln(8) / 8 = 0.26.",
    ),
    Exercise(
        "my_masked_softmax",
        "write the op",
        difficulty=2,
        minutes=10,
        task="my_masked_softmax(s, mask=None) -> p",
        grader=Function("softmax", takes=("mask",), conventions=False),
        hints=(
            "The maximum, over what? The sum, over what? And what if nothing is left to sum?",
            "Put -inf in the place of what is hidden, so that a row's maximum is that of the allowed logits. Where the "
            "maximum is -inf itself, subtract 0 in its place; where the sum is 0, divide by 1.",
        ),
        why="With -inf in place of hidden logits the maximum and the sum see the allowed keys only. An empty row has "
        "maximum -inf and sum 0: the two np.where keep -inf - (-inf) and 0 / 0 away, and zeros are left.",
    ),
    Exercise(
        "my_decoder_weights",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_decoder_weights(s, lengths) -> p, of the newest n queries over m keys padded on the right",
        grader=Function(DECODER, tempting=TEMPTING),
        hints=(
            "At which position does query 0 stand, if the n queries are the last n of m? Begin with n = 1.",
            "Make the positions of queries a column (n, 1), those of keys a row (m,), and lengths[..., None, None] to "
            "broadcast with both: a key must be not later than the query, and smaller than the length.",
        ),
        why="Both questions compare positions: a column of queries with a row of keys gives (n, m), keys with "
        "lengths gives (..., 1, m), and & broadcasts the two to (..., n, m).",
    ),
    Exercise(
        "nothing_leaks",
        "write the property that kills this bug",
        difficulty=2,
        minutes=10,
        task="nothing_leaks(attention) -> True where no output moves with what its query may not look at, else False",
        grader=Property(
            "attention",
            "mask_after_softmax",
            gives=("attention",), to_the_bit=True,
            others=("off_by_one_peek", "mask_transposed", "mask_ignored"),
            lives=("off_by_one_mask",),
        ),
        hints=(
            "Call it twice with a causal mask: what may you change after position t, and which outputs must stay?",
            "Change both ways into an output: the values from t on, and the keys, whose logits count in the sum that "
            "all are divided by. Outputs before t must be equal to the last bit.",
        ),
        why="A hidden key can reach an output through its value, or through its logit in the denominator. Change both, "
        "and compare without a tolerance: a hidden weight is exactly 0, so right code gives the same bits.",
    ),
    Exercise(
        "repaired_model",
        "find the bug",
        difficulty=2,
        minutes=6,
        task="buggy_model with its one wrong line put right",
        grader=Function("causal_model", also=_rest_is_kept),
        hints=(
            "The mask is right. Which other line could let one position know of another?",
            "The mean is taken over axis 1, the positions, so that every token knows of all. Each token must be "
            "centred over its own features, the last axis.",
        ),
        why="A mean over positions mixes past and future before attention is asked. Statistics must be taken over the "
        "last axis, the features of one token.",
    ),
)
