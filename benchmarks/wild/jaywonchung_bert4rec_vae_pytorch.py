"""jaywonchung/BERT4Rec-VAE-Pytorch: BERT's parts as torch modules, and metrics of a batch of scores."""

import torch
from checkout import bare_package, checkout, tensor, with_autograd
from torch.func import functional_call

FOLDER = checkout("jaywonchung/BERT4Rec-VAE-Pytorch")
bare_package("bert_modules", FOLDER / "models" / "bert_modules")
bare_package("trainers", FOLDER / "trainers")

import bert_modules.attention  # noqa: E402
import bert_modules.utils  # noqa: E402
import trainers.utils  # noqa: E402


def gelu(x):
    return bert_modules.utils.GELU()(x)


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(bert_modules.utils.LayerNorm(len(gamma), eps), {"a_2": gamma, "b_2": beta}, x)


def gelu_feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"w_1.weight": W_1.T, "w_1.bias": b_1, "w_2.weight": W_2.T, "w_2.bias": b_2}
    return functional_call(bert_modules.utils.PositionwiseFeedForward(*W_1.shape, 0.0), given, x)


def attention(q, k, v, mask=None):
    return bert_modules.attention.Attention()(q, k, v, mask)


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None):
    given = {f"linear_layers.{i}.weight": W.T for i, W in enumerate((W_q, W_k, W_v))} | {"output_linear.weight": W_o.T}
    given |= {f"linear_layers.{i}.bias": b for i, b in enumerate((b_q, b_k, b_v))} | {"output_linear.bias": b_o}
    batch = x.reshape(-1, *x.shape[-2:])
    mask = mask if mask is None else mask.expand(*x.shape[:-1], x.shape[-2]).reshape(-1, 1, *mask.shape[-2:])
    module = bert_modules.attention.MultiHeadedAttention(heads, len(W_q), 0.0)
    return functional_call(module, given, (batch, batch, batch, mask)).reshape(x.shape)


Gelu, LayerNorm, GeluFeedForward, Attention, BiasedMultiHeadAttention = map(
    with_autograd, (gelu, layer_norm, gelu_feed_forward, attention, biased_multi_head_attention)
)


class Ranking:
    def hit_rate(self, scores, target, k):
        return self.metrics(scores, target, k)[f"Recall@{min(k, len(scores))}"]

    def ndcg(self, scores, target, k):
        return self.metrics(scores, target, k)[f"NDCG@{min(k, len(scores))}"]

    def metrics(self, scores, target, k):
        labels = torch.zeros(1, len(scores))
        labels[0, target] = 1
        return trainers.utils.recalls_and_ndcgs_for_ks(tensor(scores)[None], labels, [min(k, len(scores))])
