"""The pre-LN block, and its known bugs, some of them those of its parts."""

from ... import layers
from ...layers.mixers.multi_head import merge, split
from ...ops import attention
from .. import adapters
from .bug import planted
from .feed_forward import feed_forward
from .layer_norm import layer_norm
from .multi_head_attention import multi_head_attention


def block(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
    def norm(x, gamma, beta):
        return layer_norm(x, gamma, beta, eps)[0]

    def attend(h):
        return multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)

    def feed(h):
        return feed_forward(h, W_1, b_1, W_2, b_2)

    h_1 = norm(x, gamma_1, beta_1)
    x_1 = x + attend(h_1)
    h_2 = norm(x_1, gamma_2, beta_2)
    y = x_1 + feed(h_2)
    return y


def block_backward(
    dy, x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):
    p = adapters.tree_of(adapters.BLOCK, locals())
    _, cache = adapters.forward_of(heads, eps, "pre", p, x, mask)
    dh, ffn = layers.feed_forward_backward(p["feed_forward"], dy, cache.feed_forward)
    branch_2, norm_2 = layers.norm_backward(p["norm_2"], dh, cache.norm_2)
    dx_1 = branch_2 + dy
    dq, dkv, attended = layers.multi_head_attention_backward(p["attention"], dx_1, cache.attention)
    branch_1, norm_1 = layers.norm_backward(p["norm_1"], dq + dkv, cache.norm_1)
    dx = branch_1 + dx_1
    grads = {"norm_1": norm_1, "attention": attended, "norm_2": norm_2, "feed_forward": ffn}
    g = list(adapters.by_argument(adapters.BLOCK, grads).values())
    return dx, *g


def _of_two(q, kv, W_q, W_k, W_v, W_o, heads, mask):
    """Attention whose queries come from one input, and whose keys and values come from another."""
    parts = (split(a @ W, heads) for a, W in ((q, W_q), (kv, W_k), (kv, W_v)))
    return merge(attention(*parts, mask)[0]) @ W_o


BUGS, make = planted(__name__)
