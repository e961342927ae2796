"""Exercises of chapter 05, masks and what must never leak."""

import itertools
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
LENGTH = 10                  # of fewest_wrong_pairs: the tutorial's seq_len


def _loss_of_a_cheat() -> float:
    """Of a model that is sure of every next symbol that stands in its input, and knows nothing of the last one."""
    targets = np.random.default_rng(0).integers(SYMBOLS, size=(100, POSITIONS))
    logits = 1e3 * np.eye(SYMBOLS)[targets]
    logits[:, -1] = 0
    return float(ops.cross_entropy(logits, targets))


def _fewest_wrong_pairs() -> int:
    """Over all masks of shape (1, 1, 1, LENGTH), tried one by one: pairs where it differs from the causal mask."""
    causal = ops.causal_mask(LENGTH, like=np.zeros(1))
    rows = np.array(list(itertools.product((False, True), repeat=LENGTH)))
    return int(np.min(np.sum(rows[:, None, :] != causal, axis=(1, 2))))


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


DECODER = Spec(
    name="decoder_weights",
    says="softmax over the keys that are real and not later than the query; queries are the newest n of m positions",
    function="decoder_weights",
    case=_case,
    ours=lambda: SimpleNamespace(decoder_weights=_decoder_weights),
    properties=[],
    outputs=("weights",),
    oracle=_by_loops,
    scale=lambda case: 10.0,
)
TEMPTING = (
    (_first_queries, "Your triangle begins in the upper left corner: query 0 is position 0 there. And here?"),
    (_strict, "May a token see itself? Nothing is given away: it is the input, not the target."),
    (_peeks, "Query i sees key i + 1. Where does the triangle end?"),
    (_transposed, "mask[i, j] = may query i look at key j. Who sees whom in yours?"),
    (_only_causal, "Padding has weight. Print the row of the last query where the length is 1."),
    (_only_padding, "Only padding is hidden, the future is not."),
    (_one_too_many, "With length 3 the real keys are 0, 1, 2: is key 3 among yours?"),
    (_padding_on_the_left, "That is padding on the left. Here the real keys come first."),
    (_queries_masked, "Lengths are about who is looked at, not about who looks: they belong to the keys' axis."),
    (_either, "A key must be real *and* not later: which of & and | is that?"),
    (_inverted, "True = may look."),
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
        task=f"the loss of a perfect cheat on noise of {SYMBOLS} symbols, over {POSITIONS} positions, in nats",
        grader=Number(
            _loss_of_a_cheat,
            tolerance=0.03,
            tempting=(
                (lambda: 0.0, "At every position? Which target is not among the inputs?"),
                (lambda: math.log(SYMBOLS), "That is what an honest model pays. What does looking save, and where?"),
                (lambda: math.log2(SYMBOLS) / POSITIONS, "Those are bits. In nats?"),
                (lambda: math.log(SYMBOLS) / (POSITIONS + 1), "Over how many positions is the mean taken?"),
            ),
        ),
        hints=(
            "Position t is asked for symbol t + 1. For which t is that symbol an input?",
            "All but one are free. What does the one cost, when there is nothing to go by, and what is its share?",
        ),
    ),
    Exercise(
        "my_masked_softmax",
        "write the op",
        difficulty=2,
        minutes=10,
        task="my_masked_softmax(s, mask=None) -> weights",
        grader=Function("softmax", takes=("mask",)),
        hints=(
            "Three cares: the maximum, over what? the sum, over what? and what if nothing is left to sum?",
            "With -inf in the place of what is hidden, the row's largest is that of the allowed. Where it is -inf "
            "itself, put 0 in its place before you subtract; where the sum is 0, divide by 1.",
        ),
    ),
    Exercise(
        "fewest_wrong_pairs",
        "predict the number",
        difficulty=2,
        minutes=6,
        task=f"of {LENGTH * LENGTH} pairs, how many does the best mask of shape (1, 1, 1, {LENGTH}) get wrong?",
        grader=Number(
            _fewest_wrong_pairs,
            tolerance=0.01,
            tempting=(
                (lambda: LENGTH * (LENGTH - 1) // 2, "That is the mask that allows everything. Hide the worst keys."),
                (lambda: LENGTH * (LENGTH + 1) // 2, "That is the mask that hides everything. Allow the best keys."),
                (lambda: 0, "One row for all queries: can the first and the last want the same?"),
                (lambda: LENGTH**2 // 2, "Better: a key that is allowed and a key that is hidden cost differently."),
            ),
        ),
        hints=(
            "One key at a time. Allow key j: how many queries see it that must not? Hide it: how many miss it?",
            "Allowed, j queries are wrong; hidden, 10 - j. Take the smaller, and add up over j = 0 to 9.",
        ),
    ),
    Exercise(
        "my_decoder_weights",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_decoder_weights(s, lengths) -> weights, of the newest n queries over m keys padded on the right",
        grader=Function(DECODER, tempting=TEMPTING),
        hints=(
            "At which position does query 0 stand, if the n queries are the last n of m? Begin with n = 1.",
            "Positions of queries as a column (n, 1), of keys as a row (m,): two comparisons, and `lengths[..., None, "
            "None]` to meet them.",
        ),
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
            gives=("attention",),
            others=("off_by_one_peek", "mask_transposed", "mask_ignored"),
        ),
        hints=(
            "Call it twice with a causal mask: what may you change after position t, and which outputs must stay?",
            "A key has two ways into an output: its value, and its score in the sum that the others are divided by. "
            "Change both.",
        ),
    ),
    Exercise(
        "everything_arrives",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="everything_arrives(attention) -> True where each output moves with all that its query may look at",
        grader=Property("attention", "off_by_one_mask", gives=("attention",)),
        hints=(
            "Under a causal mask, which outputs must move when you change the value at position t alone?",
            "All from t on, t itself included, for every t. `(a != b).any(axis=-1)` says which rows differ.",
        ),
    ),
    Exercise(
        "repaired_model",
        "find the bug",
        difficulty=3,
        minutes=10,
        task="hasty_model with its one wrong line put right",
        grader=Function("causal_model", also=_rest_is_kept),
        hints=(
            "The mask is right. Draw influence(...) of it: who moves whom, and by how much?",
            "Everybody moves everybody, a little. Which line brings positions together, and is not attention?",
        ),
    ),
)
