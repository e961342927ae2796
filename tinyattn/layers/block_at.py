"""The forms of the block once more, without backward, at one position of each sequence.

What is asked of a trained model is what comes after a history. In the last block that needs one query a sequence and
the keys and values of all positions: n scores instead of n², and one row through the feed-forward network instead of n.
"""

from ..backend import get_xp
from .feed_forward import feed_forward
from .multi_head import multi_head_attention
from .norm import norm


def pre_block_at(p, x, at, *, heads, mask=None, eps=1e-5):
    """Row `at` of `pre_block`'s y. Shapes: x (B, n, D), at (B,) integers, mask (n, n) or None -> (B, 1, D)."""
    h, _ = norm(p["norm_1"], x, eps=eps)
    a, _ = multi_head_attention(p["attention"], pick(h, at), h, heads=heads, mask=pick_mask(mask, at))
    x = pick(x, at) + a
    h, _ = norm(p["norm_2"], x, eps=eps)
    f, _ = feed_forward(p["feed_forward"], h)
    return x + f


def post_block_at(p, x, at, *, heads, mask=None, eps=1e-5):
    """Row `at` of `post_block`'s y. Shapes: as in `pre_block_at`."""
    q = pick(x, at)
    a, _ = multi_head_attention(p["attention"], q, x, heads=heads, mask=pick_mask(mask, at))
    x, _ = norm(p["norm_1"], q + a, eps=eps)
    f, _ = feed_forward(p["feed_forward"], x)
    y, _ = norm(p["norm_2"], x + f, eps=eps)
    return y


def sasrec_block_at(p, x, at, *, heads, mask=None, eps=1e-5):
    """Row `at` of `sasrec_block`'s y. Shapes: as in `pre_block_at`."""
    q, _ = norm(p["norm_1"], pick(x, at), eps=eps)
    a, _ = multi_head_attention(p["attention"], q, x, heads=heads, mask=pick_mask(mask, at))
    h, _ = norm(p["norm_2"], q + a, eps=eps)
    f, _ = feed_forward(p["feed_forward"], h)
    return h + f


def pick(x, at):
    """Row `at` of each sequence: (B, n, D), (B,) -> (B, 1, D)."""
    return get_xp(x, at).take_along_axis(x, at[:, None, None], axis=1)


def pick_mask(mask, at):
    """What those rows may look at: (n, m), (B,) -> (B, 1, 1, m), the same for all heads."""
    return None if mask is None else get_xp(mask, at).take(mask, at, axis=0)[:, None, None]
