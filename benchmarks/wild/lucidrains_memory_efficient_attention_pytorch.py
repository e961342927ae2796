"""lucidrains/memory-efficient-attention-pytorch: three forms of attention, (batch, heads, n, d), with key masks."""

from unittest import mock

from checkout import bare_package, checkout, with_autograd

FOLDER = checkout("lucidrains/memory-efficient-attention-pytorch") / "memory_efficient_attention_pytorch"
bare_package("memory_efficient_attention_pytorch", FOLDER)

from memory_efficient_attention_pytorch import flash_attention as flash  # noqa: E402
from memory_efficient_attention_pytorch import memory_efficient_attention as efficient  # noqa: E402

efficient.checkpointed_summarize_qkv_chunk = efficient.summarize_qkv_chunk  # checkpoint forbids autograd.grad


def heads(*arrays):
    """With one head and one batch axis."""
    return (x.reshape(-1, 1, *x.shape[-2:]) for x in arrays)


def attention(q, k, v):
    return efficient.attention(*heads(q, k, v)).reshape(*q.shape[:-1], v.shape[-1])


Attention = with_autograd(attention)


def flash_attention(q, k, v, mask=None):
    mask = mask if mask is None else mask.expand(*q.shape[:-1], k.shape[-2]).reshape(-1, 1, q.shape[-2], k.shape[-2])
    out = flash.FlashAttentionFunction.apply(*heads(q, k, v), mask, False, 2, 2)
    return out.reshape(*q.shape[:-1], v.shape[-1])


FlashAttention = with_autograd(flash_attention)


def in_chunks(q, k, v):
    """Attention in chunks of two queries and two keys."""
    out = efficient.memory_efficient_attention(*heads(q, k, v), q_bucket_size=2, k_bucket_size=2)
    return out.reshape(*q.shape[:-1], v.shape[-1])


in_chunks.__name__ = "attention"
Chunked = with_autograd(in_chunks)


def dropped(q, k, v, keep=None, rate=0.0):
    """Attention in one chunk, with `keep` in place of a random dropout mask."""
    keep = 1 if keep is None else keep.expand(*q.shape[:-1], k.shape[-2]).reshape(-1, 1, q.shape[-2], k.shape[-2])
    with mock.patch.object(efficient.F, "dropout", lambda weights, p: weights * keep / (1 - p)):
        out = efficient.memory_efficient_attention(*heads(q, k, v), dropout=rate, training=True)
    return out.reshape(*q.shape[:-1], v.shape[-1])


dropped.__name__ = "attention"
Dropped = with_autograd(dropped)
