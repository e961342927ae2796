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
    """The largest share, over mixtures p of two look-ups, that lines through one head's output explain of both."""
    wanted = np.random.default_rng(0).standard_normal((2, 20_000))
    best = 0.0
    for p in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        read = p * wanted[0] + (1 - p) * wanted[1]
        best = max(best, float(np.mean([np.corrcoef(read, one)[0, 1] ** 2 for one in wanted])))
    return best


def _score_rank() -> float:
    """Of one head's scores, in the library's multi-head attention on random tokens."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TOKENS, WIDTH))
    cache = layers.multi_head_attention(layers.multi_head_init(rng, WIDTH), x, x, heads=HEADS)[1].attended.attended
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
    says="head i is x times columns i D/h to (i + 1) D/h of W",
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
        task="the largest share, from 0 to 1, of two unrelated words that can be read off one mixture of them",
        grader=Number(
            _one_head_share,
            tolerance=0.04,
            tempting=(
                (lambda: 1.0, "For both to come through whole, each would need the weight 1. What do weights sum to?"),
                (lambda: 0.25, "p² of each is there, but the read-out may scale: how much of the mixture is noise?"),
                (lambda: 0.75, "What p gives to the first word, it takes from the second: by how much?"),
                (lambda: 0.0, "At p = 1 one of the two words comes through whole."),
                (lambda: 1 / np.sqrt(2), "That is the correlation at p = 1/2. The share is its square."),
            ),
        ),
        hints=(
            "At p = 1 one word comes through whole, and of the other nothing. What is the mean of the two shares?",
            "The mixture has variance p² + (1 - p)². Which part of it is the first word's, and which the second's?",
        ),
    ),
    Exercise(
        "to_heads",
        "write the op",
        difficulty=2,
        minutes=8,
        task="to_heads(x, W, heads) -> q (..., heads, n, D / heads), with one product and no loop",
        grader=Function(
            TO_HEADS,
            tempting=(
                (
                    lambda x, W, heads: _cut(x @ W, heads),
                    "A reshape alone cuts the tokens, not the columns: print what head 0 holds.",
                ),
                (_interleaved, "Head 0 got columns 0, h, 2h, ...: which of the two new axes comes first?"),
                (_slices_of_x, "Every head reads the whole of x. What it owns are columns of W."),
                (_rows_of_W, "Tokens are rows: q = x W, and a head owns columns of W."),
                (_unprojected, "These are slices of x. Where is W?"),
                (_first_head_only, "All heads are the first one."),
                (_last_head_first, "Head 0 owns the first columns, and here it got the last."),
            ),
        ),
        hints=(
            "Two axes are to be made out of the last one. Which of the two new ones must then change places with n?",
            "reshape to (..., n, heads, D / heads): now the head's axis is there, in the wrong place. A reshape cannot "
            "move it.",
        ),
    ),
    Exercise(
        "my_multi_head",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_multi_head(x, W_q, W_k, W_v, W_o, heads) -> y",
        grader=Function("multi_head_attention"),
        hints=(
            "Three products, three splits, one attention that knows nothing of heads, one merge, one product.",
            "attention takes any leading axes: the head's axis must stand before n. The way back is the way there, "
            "last step first.",
        ),
    ),
    Exercise(
        "repaired_heads",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="hasty_heads with its one wrong line put right",
        grader=Function("multi_head_attention"),
        hints=(
            "With one token, or with one head, it is right. What do these two have in common?",
            "Print, for n = 2 and two heads, which head and which token each number comes from, line by line.",
        ),
    ),
    Exercise(
        "score_rank",
        "predict the number",
        difficulty=1,
        minutes=3,
        task=f"the rank of one head's scores, for {TOKENS} tokens of width {WIDTH} and {HEADS} heads",
        grader=Number(
            _score_rank,
            tolerance=0.001,
            tempting=(
                (lambda: TOKENS, "The matrix has that many rows. But what is it a product of?"),
                (lambda: WIDTH, "That is the model's width. How long is one head's query?"),
                (lambda: HEADS, "That is how many heads there are. How wide is one?"),
                (lambda: TOKENS / HEADS, "Heads share the columns, not the tokens."),
            ),
        ),
        hints=(
            "s = q kᵀ. What are the shapes of q and k, in one head?",
            "The rank of a product is at most that of each factor, and random factors reach it.",
        ),
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
                (_dout_cut, "out was merged by a swap and a reshape: dout must go back the same way."),
                (_dW_cut, "What met W_o were the merged heads: a token's heads side by side."),
                (_both_cut, "A reshape alone is no merge, and no split: where is the swap?"),
                (_W_not_transposed, "z_i hears from every column of y: along which axis of W_o is that sum?"),
                (_dW_transposed, "W_o[i, o] leads from z_i to y_o: which index comes first in yours?"),
                (_W_forgotten, "Between out and y stands W_o: which way does the gradient come?"),
                (_dW_mean, "Every sequence of the batch used W_o: gradients add up."),
                (_dW_of_the_last, "Every sequence of the batch used W_o, not only the last."),
                (_dW_of_one_head, "Every head met its rows of W_o, not only the first."),
            ),
        ),
        hints=(
            "Name what stands between: z = merge(out), y = z W_o. Undo the last step first.",
            "merge only moves numbers: entry by entry, where did each go? Its gradient comes back from there. And dW_o "
            "has no batch axis, so the batch was summed.",
        ),
    ),
    Exercise(
        "joins_its_heads",
        "write the property that kills this bug",
        difficulty=3,
        minutes=15,
        task="joins_its_heads(multi_head_attention) -> True where heads stay apart up to W_o, False where they are "
        "averaged",
        grader=Property("multi_head_attention", "heads_avg", gives=("multi_head_attention",)),
        hints=(
            "Which W_o lets you see what each head put into its own columns?",
            "Silence one head's values. With W_o the identity, which columns of y must change, and which must not?",
        ),
    ),
)
