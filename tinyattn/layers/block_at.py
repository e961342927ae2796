"""The forms of the block once more, without backward, at one position of each sequence.

What is asked of a trained model is what comes after a history. In the last block that needs one query a sequence: n
scores instead of n², and one row through the feed-forward network instead of n. And one query needs no keys or values
(`attention_of_one`).
"""

import math

from ..backend import get_xp
from ..ops import softmax
from ..ops.layer_norm import normalise
from ..ops.shapes import row_sum, transpose_last
from .dense import dense
from .feed_forward import feed_forward
from .multi_head import merge, split
from .norm import norm


def pre_block_at(p, x, at, *, heads, mask=None, eps=1e-5):
    """Row `at` of `pre_block`'s y. Shapes: x (B, n, D), at (B,) integers, mask (n, n) or None -> (B, 1, D)."""
    x_hat, _ = normalise(x, eps)
    maps = _after_norm(p["norm_1"], p["attention"])
    a = attention_of_one(maps, pick(x_hat, at), x_hat, heads=heads, mask=pick_mask(mask, at))
    x = pick(x, at) + a
    h, _ = norm(p["norm_2"], x, eps=eps)
    f, _ = feed_forward(p["feed_forward"], h)
    return x + f


def post_block_at(p, x, at, *, heads, mask=None, eps=1e-5):
    """Row `at` of `post_block`'s y. Shapes: as in `pre_block_at`."""
    q = pick(x, at)
    a = attention_of_one(p["attention"], q, x, heads=heads, mask=pick_mask(mask, at))
    x, _ = norm(p["norm_1"], q + a, eps=eps)
    f, _ = feed_forward(p["feed_forward"], x)
    y, _ = norm(p["norm_2"], x + f, eps=eps)
    return y


def sasrec_block_at(p, x, at, *, heads, mask=None, eps=1e-5):
    """Row `at` of `sasrec_block`'s y. Shapes: as in `pre_block_at`."""
    q, _ = norm(p["norm_1"], pick(x, at), eps=eps)
    a = attention_of_one(p["attention"], q, x, heads=heads, mask=pick_mask(mask, at))
    h, _ = norm(p["norm_2"], q + a, eps=eps)
    f, _ = feed_forward(p["feed_forward"], h)
    return h + f


def attention_of_one(p, x, memory, *, heads, mask=None):
    """`multi_head_attention` of one query a sequence, without making the sequence's keys and values.

    A query compares itself with a key, and sums values: with one query, W_k and W_v can change sides.

        q · (W_kᵀ m + b_k)  =  (W_k q) · m + q · b_k            for every token m of the memory
        Σ w (W_vᵀ m + b_v)  =  W_vᵀ (Σ w m) + b_v Σ w

    So W_k meets one query and W_v one sum, instead of n tokens each. q · b_k is the same for all tokens, and softmax
    does not see it. Shapes: x (B, 1, D), memory (B, n, D), mask onto (B, heads, 1, n) -> y (B, 1, D).
    """
    q, _ = dense(p["query"], x)
    q = split(q, heads)                                              # (B, h, 1, d)
    memory = memory[:, None]                                         # (B, 1, n, D), the same for all heads
    s = q @ transpose_last(split(p["key"]["W"], heads)) @ transpose_last(memory)   # (B, h, 1, d) (h, d, D) (B, 1, D, n)
    s *= 1 / math.sqrt(q.shape[-1])
    weights = softmax(s, mask)                                       # (B, h, 1, n)
    a = weights @ memory @ split(p["value"]["W"], heads)             # (B, h, 1, D) (h, D, d) -> (B, h, 1, d)
    a = merge(a)
    if "b" in p["value"]:
        a += merge(row_sum(weights) * split(p["value"]["b"][None], heads))
    return dense(p["output"], a)[0] if "output" in p else a


def _after_norm(norm, p):
    """The maps of LN(x) as maps of x_hat, so that γ and β meet no tokens: `norm_linear` says how."""
    gamma, beta, maps = norm["gamma"], norm["beta"], dict(p)
    for name in ("query", "key", "value"):
        maps[name] = {"W": gamma[:, None] * p[name]["W"], "b": beta @ p[name]["W"] + p[name].get("b", 0)}
    return maps


def pick(x, at):
    """Row `at` of each sequence: (B, n, D), (B,) -> (B, 1, D)."""
    return get_xp(x, at).take_along_axis(x, at[:, None, None], axis=1)


def pick_mask(mask, at):
    """What those rows may look at: (n, m), (B,) -> (B, 1, 1, m), the same for all heads."""
    return None if mask is None else get_xp(mask, at).take(mask, at, axis=0)[:, None, None]
