"""Exercises of chapter 06, many heads."""

from typing import Any

import numpy as np

from ... import layers
from ...check.cases import CaseDrawer
from ...layers.mixers.multi_head import merge, split
from ..graders import Function, Number, Property
from ..plain import Changes, op_spec
from ..prose import Prose


def _one_head_share() -> float:
    """The largest mean R² with which one head's output, w of one look-up and 1 - w of another, explains both."""
    drawn = np.random.default_rng(0).standard_normal((1_000, 2))
    wanted = np.linalg.qr(drawn - drawn.mean(axis=0))[0].T               # of mean 0, uncorrelated
    best = 0.0
    for w in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        read = w * wanted[0] + (1 - w) * wanted[1]
        best = max(best, float(np.mean([np.corrcoef(read, one)[0, 1] ** 2 for one in wanted])))
    return best


def _score_rank(tokens: int, w: list[int]) -> float:
    """The rank of one head's scores, for random tokens in the library's multi-head attention. `w`: width and heads."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((tokens, w[0]))
    cache = layers.multi_head_attention(layers.multi_head_init(rng, w[0]), x, x, heads=w[1])[1].attended
    return float(np.linalg.matrix_rank(cache.q[0] @ cache.k[0].T))


# to_heads: the projection, and the split
def _case(draw: CaseDrawer) -> dict[str, Any]:
    heads = draw.choose((2, 3, 1))
    dim = heads * draw.choose((2, 3, 1))
    return {"x": draw.array(*draw.lead, draw.size(), dim), "W": draw.array(dim, dim), "heads": heads}


def _cut(x: Any, heads: int) -> Any:
    """(..., n, D) -> (..., heads, n, d) by a reshape alone."""
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


def _uncut(x: Any) -> Any:
    """(..., heads, n, d) -> (..., n, D) by a reshape alone."""
    return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])


def _slices_of_x(x: Any, W: Any, heads: int) -> Any:
    d = x.shape[-1] // heads
    parts = [slice(i * d, (i + 1) * d) for i in range(heads)]
    return np.stack([x[..., s] @ W[s, s] for s in parts], axis=-3)


TO_HEADS = op_spec(
    "to_heads", "head after head, x times the next D / heads columns of W", _case,
    lambda x, W, heads: split(x @ W, heads), "q")  # fmt: skip


# from_heads: the merge, and the output projection
def _joined_case(draw: CaseDrawer) -> dict[str, Any]:
    heads, d = draw.choose((2, 3, 1)), draw.choose((2, 3, 1))
    return {"out": draw.array(*draw.lead, heads, draw.size(), d), "W_o": draw.array(heads * d, heads * d)}


def _outer(left: Any, right: Any) -> Any:
    """Σ leftᵀ right over all leading axes."""
    return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])


def _from_heads_backward(dy: Any, out: Any, W_o: Any) -> Any:
    """-> dout, dW_o."""
    return split(dy @ W_o.T, out.shape[-3]), _outer(merge(out), dy)


def _dW_mean(dy: Any, out: Any) -> Any:
    return _outer(merge(out), dy) / dy.dtype.type(max(dy.size // max(dy.shape[-1] * dy.shape[-2], 1), 1))


def _dW_of_the_last(dy: Any, out: Any) -> Any:
    return _outer(merge(out).reshape(-1, *dy.shape[-2:])[-1:], dy.reshape(-1, *dy.shape[-2:])[-1:])


def _dW_of_one_head(dy: Any, out: Any) -> Any:
    dW_o = _outer(merge(out), dy)
    dW_o[out.shape[-1] :] = 0
    return dW_o


FROM_HEADS = op_spec(
    "from_heads", "y is the heads side by side, times W_o", _joined_case, lambda out, W_o: merge(out) @ W_o, "y",
    backward=_from_heads_backward, wrt=("out", "W_o"))  # fmt: skip

EXERCISES = Prose(6).exercises(
    one_head_share=Number(_one_head_share, tolerance=0.04),
    to_heads=Function(TO_HEADS, tempting=dict(
        reshape_alone=lambda x, W, heads: _cut(x @ W, heads),
        interleaved=lambda x, W, heads: np.moveaxis((x @ W).reshape(*x.shape[:-1], len(W) // heads, heads), -1, -3),
        slices_of_x=_slices_of_x,
        rows_of_W=lambda x, W, heads: split(x @ W.T, heads),
        unprojected=lambda x, W, heads: np.array(split(x, heads)),
        first_head_only=lambda x, W, heads: np.repeat(split(x @ W, heads)[..., :1, :, :], heads, axis=-3),
        last_head_first=lambda x, W, heads: np.array(split(x @ W, heads)[..., ::-1, :, :]),
    )),
    my_multi_head=Function("multi_head_attention"),
    score_rank=Number(_score_rank, exactly=True),
    from_heads_backward=Function(FROM_HEADS, part="backward", tempting=Changes(_from_heads_backward)),
    joins_its_heads=Property("multi_head_attention", "heads_avg", gives=("multi_head_attention",)),
)
