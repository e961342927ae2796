"""fkodom/grouped-query-attention-pytorch: attention of (batch, n, heads, d) whose heads share keys and values."""

import torch
from checkout import bare_package, checkout, with_autograd

FOLDER = checkout("fkodom/grouped-query-attention-pytorch") / "grouped_query_attention_pytorch"
bare_package("grouped_query_attention_pytorch", FOLDER)

from grouped_query_attention_pytorch.attention import scaled_dot_product_gqa  # noqa: E402


def masked(mask, x):
    """The mask, (..., n, m), as (batch, n, m)."""
    return mask if mask is None else mask.expand(*x.shape[:-1], mask.shape[-1]).reshape(-1, x.shape[-2], mask.shape[-1])


def fused_attention(q, k, v, mask=None, scale=None):
    four = (x.reshape(-1, x.shape[-2], 1, x.shape[-1]) for x in (q, k, v))
    divisor = None if scale is None else 1 / scale if scale else float("inf")
    return scaled_dot_product_gqa(*four, scale=divisor, mask=masked(mask, q))[0].reshape(*q.shape[:-1], v.shape[-1])


FusedAttention = with_autograd(fused_attention)


def averaged(q, k, v):
    """The weights, averaged over heads (there is one), times the values."""
    four = (x.reshape(-1, x.shape[-2], 1, x.shape[-1]) for x in (q, k, v))
    _, weights = scaled_dot_product_gqa(*four, need_weights=True, average_attn_weights=True)
    return torch.matmul(weights, v.reshape(-1, *v.shape[-2:])).reshape(*q.shape[:-1], v.shape[-1])


averaged.__name__ = "fused_attention"
AveragedWeights = with_autograd(averaged)


def grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None):
    batch = x.reshape(-1, *x.shape[-2:])
    q, k, v = ((batch @ W).reshape(*batch.shape[:-1], n, W.shape[1] // n)
               for W, n in ((W_q, heads), (W_k, kv_heads), (W_v, kv_heads)))  # fmt: skip
    out, _ = scaled_dot_product_gqa(q, k, v, mask=masked(mask, x))
    return out.reshape(*x.shape[:-1], W_q.shape[1]) @ W_o


GroupedQueryAttention = with_autograd(grouped_query_attention)
