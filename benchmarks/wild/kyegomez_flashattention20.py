"""kyegomez/FlashAttention20: attention in tiles, (batch, heads, n, d)."""

from checkout import checkout, importable, with_autograd

importable(checkout("kyegomez/FlashAttention20"))

import attention as theirs  # noqa: E402


def flash_attention(q, k, v, mask=None):
    mask = mask if mask is None else mask.expand(*q.shape[:-1], k.shape[-2]).reshape(-1, 1, q.shape[-2], k.shape[-2])
    four = (x.reshape(-1, 1, *x.shape[-2:]) for x in (q, k, v))
    return theirs.FlashAttentionFunction.apply(*four, mask, False, 2, 2).reshape(*q.shape[:-1], v.shape[-1])


FlashAttention = with_autograd(flash_attention)
