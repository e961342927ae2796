"""Exercises of chapter 06, many heads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import layers, ops
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ...layers.mixers.multi_head import merge, split
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 6
TOKENS, WIDTH, HEADS = 100, 64, 4        # of score_rank


# --- numbers ----------------------------------------------------------------------------------------------------


def _one_head_share() -> float:
    """The largest share, over mixtures w of two look-ups, that lines through one head's output explain of both."""
    drawn = np.random.default_rng(0).standard_normal((1_000, 2))
    wanted = np.linalg.qr(drawn - drawn.mean(axis=0))[0].T               # of mean 0, and exactly uncorrelated
    best = 0.0
    for w in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        read = w * wanted[0] + (1 - w) * wanted[1]
        best = max(best, float(np.mean([np.corrcoef(read, one)[0, 1] ** 2 for one in wanted])))
    return best


def _score_rank() -> float:
    """Of one head's scores, in the library's multi-head attention on random tokens."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TOKENS, WIDTH))
    cache = layers.multi_head_attention(layers.multi_head_init(rng, WIDTH), x, x, heads=HEADS)[1].attended
    return float(np.linalg.matrix_rank(cache.q[0] @ cache.k[0].T))


# --- to_heads: the projection, and the split ------------------------------------------------------------------------


def _case(draw: CaseDrawer) -> dict[str, Any]:
    heads = draw.choose((2, 3, 1))
    dim = heads * draw.choose((2, 3, 1))
    return {"x": draw.array(*draw.lead, draw.size(), dim), "W": draw.array(dim, dim), "heads": heads}


def _to_heads(x: Any, W: Any, heads: Any) -> Any:
    return split(ops.linear(x, W), heads)


def _head_by_head(x: Any, W: Any, heads: Any) -> Any:
    d = W.shape[1] // heads
    return np.stack([x @ W[:, i * d : (i + 1) * d] for i in range(heads)], axis=-3)


def _cut(x: Any, heads: int) -> Any:
    """(..., n, D) -> (..., heads, n, d) by a reshape alone."""
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


def _uncut(x: Any) -> Any:
    """(..., heads, n, d) -> (..., n, D) by a reshape alone."""
    return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])


def _interleaved(x: Any, W: Any, heads: int) -> Any:
    q = x @ W
    return np.moveaxis(q.reshape(*q.shape[:-1], q.shape[-1] // heads, heads), -1, -3)


def _slices_of_x(x: Any, W: Any, heads: int) -> Any:
    d = x.shape[-1] // heads
    own = [slice(i * d, (i + 1) * d) for i in range(heads)]
    return np.stack([x[..., s] @ W[s, s] for s in own], axis=-3)


def _rows_of_W(x: Any, W: Any, heads: int) -> Any:
    return split(x @ W.T, heads)


def _unprojected(x: Any, W: Any, heads: int) -> Any:
    return np.array(split(x, heads))


def _first_head_only(x: Any, W: Any, heads: int) -> Any:
    q = split(x @ W, heads)
    return np.array(np.broadcast_to(q[..., :1, :, :], q.shape))


def _last_head_first(x: Any, W: Any, heads: int) -> Any:
    return np.array(split(x @ W, heads)[..., ::-1, :, :])


TO_HEADS = Spec(
    name="to_heads",
    says="head after head, x times the next D / heads columns of W",
    function="to_heads",
    case=_case,
    ours=lambda: SimpleNamespace(to_heads=_to_heads),
    properties=[],
    outputs=("q",),
    oracle=_head_by_head,
)


# --- from_heads: the merge, and the output projection -----------------------------------------------------------------


def _joined_case(draw: CaseDrawer) -> dict[str, Any]:
    heads, d = draw.choose((2, 3, 1)), draw.choose((2, 3, 1))
    return {"out": draw.array(*draw.lead, heads, draw.size(), d), "W_o": draw.array(heads * d, heads * d)}


def _from_heads(out: Any, W_o: Any) -> Any:
    return merge(out) @ W_o


def _from_heads_backward(dy: Any, out: Any, W_o: Any) -> Any:
    dmerged, dW_o, _ = ops.linear_backward(dy, merge(out), W_o)
    return split(dmerged, out.shape[-3]), dW_o


def _joined_in_loops(out: Any, W_o: Any) -> Any:
    d = out.shape[-1]
    return sum(out[..., i, :, :] @ W_o[i * d : (i + 1) * d] for i in range(out.shape[-3]))


def _outer(left: Any, right: Any) -> Any:
    """Σ leftᵀ right over all leading axes."""
    return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])


def _dout_cut(dy: Any, out: Any, W_o: Any) -> Any:
    return _cut(dy @ W_o.T, out.shape[-3]), _outer(merge(out), dy)


def _dW_cut(dy: Any, out: Any, W_o: Any) -> Any:
    return split(dy @ W_o.T, out.shape[-3]), _outer(_uncut(out), dy)


def _both_cut(dy: Any, out: Any, W_o: Any) -> Any:
    return _cut(dy @ W_o.T, out.shape[-3]), _outer(_uncut(out), dy)


def _W_not_transposed(dy: Any, out: Any, W_o: Any) -> Any:
    return split(dy @ W_o, out.shape[-3]), _outer(merge(out), dy)


def _dW_transposed(dy: Any, out: Any, W_o: Any) -> Any:
    return split(dy @ W_o.T, out.shape[-3]), _outer(dy, merge(out))


def _W_forgotten(dy: Any, out: Any, W_o: Any) -> Any:
    return np.array(split(dy, out.shape[-3])), _outer(merge(out), dy)


def _dW_mean(dy: Any, out: Any, W_o: Any) -> Any:
    count = dy.dtype.type(max(dy.size // max(dy.shape[-1] * dy.shape[-2], 1), 1))
    return split(dy @ W_o.T, out.shape[-3]), _outer(merge(out), dy) / count


def _dW_of_the_last(dy: Any, out: Any, W_o: Any) -> Any:
    joined = merge(out).reshape(-1, *dy.shape[-2:])[-1:]
    return split(dy @ W_o.T, out.shape[-3]), _outer(joined, dy.reshape(-1, *dy.shape[-2:])[-1:])


def _dW_of_one_head(dy: Any, out: Any, W_o: Any) -> Any:
    dW_o = _outer(merge(out), dy)
    dW_o[out.shape[-1] :] = 0
    return split(dy @ W_o.T, out.shape[-3]), dW_o


FROM_HEADS = Spec(
    name="from_heads",
    says="y is the heads side by side, times W_o",
    function="from_heads",
    case=_joined_case,
    ours=lambda: SimpleNamespace(from_heads=_from_heads, from_heads_backward=_from_heads_backward),
    properties=[],
    outputs=("y",),
    oracle=_joined_in_loops,
    wrt=("out", "W_o"),
)


EXERCISES = (
    Exercise(
        "one_head_share",
        "predict the number",
        difficulty=2,
        minutes=4,
        task="the largest mean share, from 0 to 1, of two unrelated words that can be read off one mixture of them",
        grader=Number(
            _one_head_share,
            tolerance=0.04,
            tempting=(
                (lambda: 1.0, "For both to come through whole, each would need the weight 1. What do weights sum to?"),
                (lambda: 0.25, "w² of each is there, but the line may scale. How much of the mixture is the other?"),
                (lambda: 0.75, "What w gives to the first word, it takes from the second: by how much?"),
                (lambda: 0.0, "At w = 1 one of the two words comes through whole, does it not?"),
                (lambda: 1 / np.sqrt(2), "Is that a correlation, or its square?"),
            ),
        ),
        hints=(
            "Which part of the variance of w a + (1 - w) b comes from a, which from b? What do the two sum to?",
            "The mixture has variance w² + (1 - w)². The first word's part of it is w², the second's (1 - w)²: the two "
            "shares sum to 1, whatever w is.",
        ),
        why="The shares are w² and (1 - w)², over their sum. They add up to 1 for every w, so their mean is 1/2.",
    ),
    Exercise(
        "to_heads",
        "write the op",
        difficulty=2,
        minutes=8,
        task="to_heads(x, W, heads) -> q (..., heads, n, D / heads)",
        grader=Function(
            TO_HEADS,
            tempting=(
                (
                    lambda x, W, heads: _cut(x @ W, heads),
                    "What does head 1 hold: some columns of all tokens, or some tokens?",
                    "A reshape alone cuts the tokens, not the columns: the swap is missing.",
                ),
                (
                    _interleaved,
                    "Which of the two new axes comes first in your reshape?",
                    "Head 1 got columns 0, h, 2h, ...: reshape to (n, heads, D / heads), not (n, D / heads, heads).",
                ),
                (
                    _slices_of_x,
                    "How much of x does each head read?",
                    "Every head reads the whole of x. What it owns are columns of W.",
                ),
                (
                    _rows_of_W,
                    "Tokens are rows: q = x W. Which columns of W are head 1's?",
                    "W is used transposed.",
                ),
                (_unprojected, "These are slices of x. Where is W?", "The product with W is missing."),
                (
                    _first_head_only,
                    "Are all of your heads the same?",
                    "All heads are the first one: each owns the next D / heads columns.",
                ),
                (
                    _last_head_first,
                    "Which columns does head 1 own?",
                    "Head 1 owns the first columns, and here it got the last.",
                ),
            ),
        ),
        hints=(
            "Two axes are to be made out of the last one. Which of the two new ones must then change places with n?",
            "Reshape to (..., n, heads, D / heads). Now the head's axis is there, but behind n: swap the two. A "
            "reshape cannot move an axis.",
        ),
        why="The reshape only cuts the last axis in two, so every head gets the next d columns. The swap moves the "
        "head's axis before n, where attention takes it for a batch's.",
    ),
    Exercise(
        "my_multi_head",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_multi_head(x, W_q, W_k, W_v, W_o, heads) -> y",
        grader=Function("multi_head_attention"),
        hints=(
            "Do the example on paper, line by line: which of your lines is the first to differ? Try heads = 1 first: "
            "is it plain attention, times W_o?",
            "Split each projection as in to_heads, so that the head's axis stands before n. After attention go the "
            "same way back, last step first: swap, then reshape to (..., n, D), then times W_o.",
        ),
        why="With the head's axis among the leading axes, attention does not know that there are heads. The merge "
        "undoes the split in reverse order: swap back, then reshape.",
    ),
    Exercise(
        "score_rank",
        "predict the number",
        difficulty=1,
        minutes=3,
        task=f"the rank of one head's logits, for {TOKENS} tokens of width {WIDTH} and {HEADS} heads",
        grader=Number(
            _score_rank,
            tolerance=0.001,
            exactly=True,
            tempting=(
                (lambda: TOKENS, "The matrix has that many rows. But what is it a product of?"),
                (lambda: WIDTH, "That is the width of a token. How long is one head's query?"),
                (lambda: HEADS, "That is how many heads there are. How wide is one?"),
                (lambda: TOKENS / HEADS, "Do heads share the tokens, or the columns?"),
            ),
        ),
        hints=(
            "s = q kᵀ. What are the shapes of q and k, in one head?",
            "The rank of a product is at most that of each factor, and random factors reach it: the width of one head.",
        ),
        why="q and k are (100, 16): a head has 64 / 4 = 16 columns, and a product's rank is at most its inner size.",
    ),
    Exercise(
        "from_heads_backward",
        "derive the backward",
        difficulty=2,
        minutes=12,
        task="dout and dW_o of y = merge(out) W_o, from dy",
        grader=Function(
            FROM_HEADS,
            part="backward",
            tempting=(
                (
                    _dout_cut,
                    "How was out merged, in which two steps?",
                    "dout is made by a reshape alone: undo the merge by reshape, then swap.",
                ),
                (
                    _dW_cut,
                    "What was it that W_o was multiplied by in the forward?",
                    "dW_o is made of heads joined by a reshape alone: the swap is missing in the merge.",
                ),
                (
                    _both_cut,
                    "Is a reshape alone a merge, or a split?",
                    "The swap is missing, in both gradients.",
                ),
                (
                    _W_not_transposed,
                    "Entry i of the merged heads takes part in every column of y: along which axis of W_o is the sum?",
                    "dy must be multiplied by W_o transposed.",
                ),
                (
                    _dW_transposed,
                    "W_o[i, o] leads from entry i of the merged heads to column o of y: which index comes first?",
                    "dW_o is transposed.",
                ),
                (
                    _W_forgotten,
                    "What stands between out and y?",
                    "dout forgets W_o: the gradient of the merged heads is dy W_oᵀ.",
                ),
                (
                    _dW_mean,
                    "Every sequence of the batch used W_o: do their gradients add, or average?",
                    "dW_o is averaged over the batch. Gradients of a shared matrix add.",
                ),
                (
                    _dW_of_the_last,
                    "Which sequences of the batch used W_o?",
                    "dW_o is that of the last sequence only. All of them add.",
                ),
                (
                    _dW_of_one_head,
                    "Which rows of your dW_o are 0, and which heads do they belong to?",
                    "dW_o is that of the first head only.",
                ),
            ),
        ),
        hints=(
            "Name what stands between: z = merge(out), y = z W_o. Which step is undone first?",
            "dz = dy W_oᵀ, and split takes it back to the shape of out. dW_o = zᵀ dy, summed over all tokens of all "
            "sequences: reshape both to (tokens, D).",
        ),
        why="z = merge(out), so y = z W_o is a linear map: dz = dy W_oᵀ and dW_o = zᵀ dy, summed over everything that "
        "used W_o. merge only moves numbers, so its gradient moves them back: that is split.",
    ),
    Exercise(
        "joins_its_heads",
        "write the property that kills this bug",
        difficulty=3,
        minutes=12,
        task="joins_its_heads(multi_head_attention) -> True where heads stay apart before W_o, False where they are "
        "averaged",
        grader=Property("multi_head_attention", "heads_avg", gives=("multi_head_attention",)),
        hints=(
            "Which W_o lets you see what each head put into its own columns?",
            "Take W_o = np.eye(D), and set the columns of W_v that belong to the first head to 0. Then the first "
            "head's columns of y must be 0, and the others as before.",
        ),
        why="With W_o the identity each head's columns of y can be seen. A head whose values are 0 must leave zeros in "
        "its own columns and change no others; an average would do neither.",
    ),
)
