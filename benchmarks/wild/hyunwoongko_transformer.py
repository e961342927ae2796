"""hyunwoongko/transformer: the parts of the Transformer as torch modules, in evaluation mode."""

import torch
from checkout import array, checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("hyunwoongko/transformer"))

from models.blocks.encoder_layer import EncoderLayer  # noqa: E402
from models.embedding.token_embeddings import TokenEmbedding  # noqa: E402
from models.layers import layer_norm as norms  # noqa: E402
from models.layers import multi_head_attention as heads_of  # noqa: E402
from models.layers.position_wise_feed_forward import PositionwiseFeedForward  # noqa: E402
from models.layers.scale_dot_product_attention import ScaleDotProductAttention  # noqa: E402
from models.model.transformer import Transformer  # noqa: E402


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(norms.LayerNorm(len(gamma), eps), {"gamma": gamma, "beta": beta}, x)


def attention(q, k, v, mask=None):
    return ScaleDotProductAttention()(q, k, v, mask)


def attended(q, k, W, b, heads, mask):
    names = ("w_q", "w_k", "w_v", "w_concat")
    given = {f"{name}.weight": w.T for name, w in zip(names, W, strict=True)}
    given |= {f"{name}.bias": x for name, x in zip(names, b, strict=True)}
    return functional_call(heads_of.MultiHeadAttention(len(W[0]), heads), given, (q, k, k, mask))


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    return attended(x, x, (W_q, W_k, W_v, W_o), torch.zeros(4, len(W_q), dtype=x.dtype), heads, mask)


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None):
    return attended(x, x, (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o), heads, mask)


def cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
    return attended(x, memory, (W_q, W_k, W_v, W_o), torch.zeros(4, len(W_q), dtype=x.dtype), heads, mask)


def post_ln_block(
    x, W_q, W_k, W_v, W_o, gamma_1, beta_1, W_1, b_1, W_2, b_2, gamma_2, beta_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    layer = EncoderLayer(*W_1.shape, heads, drop_prob=0.0)
    layer.norm1.eps = layer.norm2.eps = eps
    matrices = {"attention.w_q": W_q, "attention.w_k": W_k, "attention.w_v": W_v, "attention.w_concat": W_o}
    given = {f"{name}.weight": W.T for name, W in (matrices | {"ffn.linear1": W_1, "ffn.linear2": W_2}).items()}
    given |= {f"{name}.bias": torch.zeros(len(W_q), dtype=x.dtype) for name in matrices}
    given |= {"ffn.linear1.bias": b_1, "ffn.linear2.bias": b_2, "norm1.gamma": gamma_1, "norm1.beta": beta_1}
    return functional_call(layer, given | {"norm2.gamma": gamma_2, "norm2.beta": beta_2}, (x, mask))


def feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"linear1.weight": W_1.T, "linear1.bias": b_1, "linear2.weight": W_2.T, "linear2.bias": b_2}
    return functional_call(PositionwiseFeedForward(*W_1.shape).eval(), given, x)


def embedding(ids, E):
    return functional_call(TokenEmbedding(*E.shape), {"weight": E}, ids.long())


LayerNorm = with_autograd(layer_norm)
Attention = with_autograd(attention)
MultiHeadAttention = with_autograd(multi_head_attention)
BiasedMultiHeadAttention = with_autograd(biased_multi_head_attention)
CrossAttention = with_autograd(cross_attention)
PostLnBlock = with_autograd(post_ln_block)
FeedForward = with_autograd(feed_forward)
Embedding = with_autograd(embedding)


class CausalModel:
    """The decoder, always with the same source. Tokens begin at 1 because 0 is padding."""

    vocabulary, maxlen = 8, 40

    def __init__(self):
        torch.manual_seed(0)
        sizes = {"d_model": 16, "n_head": 2, "max_len": 40, "ffn_hidden": 32, "n_layers": 2, "drop_prob": 0.0}
        self.model = Transformer(0, 0, 1, 9, 9, **sizes, device="cpu").eval()

    @torch.no_grad()
    def forward(self, ids):
        return array(self.model(torch.ones(len(ids), 5, dtype=torch.long), torch.tensor(ids) + 1))


class PaddedLayer:
    """A layer of the encoder on vectors, with the mask that the repository's encoder would make."""

    def __init__(self):
        torch.manual_seed(0)
        self.layer = EncoderLayer(8, 16, 2, drop_prob=0.0).double()

    @torch.no_grad()
    def forward(self, x, mask):
        return array(self.layer(torch.tensor(x), torch.tensor(mask)[:, None, None, :]))
