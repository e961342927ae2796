"""codertimo/BERT-pytorch: the parts of BERT as torch modules, in evaluation mode."""

import torch
from checkout import bare_package, checkout, with_autograd
from torch.func import functional_call

FOLDER = checkout("codertimo/BERT-pytorch") / "bert_pytorch"
bare_package("bert_pytorch", FOLDER)
bare_package("bert_pytorch.model", FOLDER / "model")

from bert_pytorch.model.attention import multi_head, single  # noqa: E402
from bert_pytorch.model.embedding.token import TokenEmbedding  # noqa: E402
from bert_pytorch.model.utils import GELU, PositionwiseFeedForward  # noqa: E402
from bert_pytorch.model.utils import layer_norm as norms  # noqa: E402


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(norms.LayerNorm(len(gamma), eps), {"a_2": gamma, "b_2": beta}, x)


def gelu(x):
    return GELU()(x)


def attention(q, k, v, mask=None):
    return single.Attention()(q, k, v, mask)


def attended(q, k, W, b, heads, mask):
    module = multi_head.MultiHeadedAttention(heads, len(W[0])).eval()
    names = [*(f"linear_layers.{i}" for i in range(3)), "output_linear"]
    given = {f"{name}.weight": w.T for name, w in zip(names, W, strict=True)}
    given |= {f"{name}.bias": x for name, x in zip(names, b, strict=True)}
    return functional_call(module, given, (q, k, k, mask))


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    return attended(x, x, (W_q, W_k, W_v, W_o), torch.zeros(4, len(W_q), dtype=x.dtype), heads, mask)


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None):
    return attended(x, x, (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o), heads, mask)


def cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
    return attended(x, memory, (W_q, W_k, W_v, W_o), torch.zeros(4, len(W_q), dtype=x.dtype), heads, mask)


def gelu_feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"w_1.weight": W_1.T, "w_1.bias": b_1, "w_2.weight": W_2.T, "w_2.bias": b_2}
    return functional_call(PositionwiseFeedForward(*W_1.shape).eval(), given, x)


def embedding(ids, E):
    return functional_call(TokenEmbedding(*E.shape), {"weight": E}, ids.long())


LayerNorm = with_autograd(layer_norm)
Gelu = with_autograd(gelu)
Attention = with_autograd(attention)
MultiHeadAttention = with_autograd(multi_head_attention)
BiasedMultiHeadAttention = with_autograd(biased_multi_head_attention)
CrossAttention = with_autograd(cross_attention)
GeluFeedForward = with_autograd(gelu_feed_forward)
Embedding = with_autograd(embedding)
