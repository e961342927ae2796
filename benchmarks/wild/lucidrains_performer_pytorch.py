"""lucidrains/performer-pytorch: linear attention of (batch, heads, n, d), and random features of the softmax kernel."""

import torch
from checkout import bare_package, checkout, stand_in, with_autograd

bare_package("performer_pytorch", checkout("lucidrains/performer-pytorch") / "performer_pytorch")
stand_in("axial_positional_embedding", AxialPositionalEmbedding=None)
stand_in("local_attention", LocalAttention=None)

from performer_pytorch import performer_pytorch as theirs  # noqa: E402


def attended(q, k, v, causal):
    return (theirs.causal_linear_attention_noncuda if causal else theirs.linear_attention)(q, k, v)


def linear_attention(q, k, v, causal=True):
    """The repository's linear attention of the features elu(x) + 1."""
    shape = *q.shape[:-1], v.shape[-1]
    q, k, v = (x.reshape(-1, 1, *x.shape[-2:]) for x in (q, k, v))
    return attended(torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1, v, causal).reshape(shape)


def performer_attention(q, k, v, W, causal=True):
    shape = *q.shape[:-1], v.shape[-1]
    q, k, v = (x.reshape(-1, 1, *x.shape[-2:]) for x in (q, k, v))
    q = theirs.softmax_kernel(q, projection_matrix=W, is_query=True)
    k = theirs.softmax_kernel(k, projection_matrix=W, is_query=False)
    return attended(q, k, v, causal).reshape(shape)


LinearAttention = with_autograd(linear_attention)
PerformerAttention = with_autograd(performer_attention, constant=("W",))
