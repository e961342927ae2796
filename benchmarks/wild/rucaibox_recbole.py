"""RUCAIBox/RecBole: a loss, attention and feed-forward with residual and layer norm, and ranking metrics."""

from types import SimpleNamespace

import numpy as np
import torch
from checkout import bare_package, checkout, stand_in, with_autograd
from torch.func import functional_call

FOLDER = checkout("RUCAIBox/RecBole") / "recbole"
bare_package("recbole", FOLDER)
bare_package("recbole.evaluator", FOLDER / "evaluator")
bare_package("recbole.model", FOLDER / "model")
stand_in("recbole.utils", FeatureType=None, FeatureSource=None, EvaluatorType=SimpleNamespace(RANKING=0, VALUE=1))
stand_in("sklearn.metrics", auc=None, mean_absolute_error=None, mean_squared_error=None)
vars(np).setdefault("float", float)  # as RecBole's Config does

from recbole.evaluator import metrics  # noqa: E402
from recbole.model import layers, loss  # noqa: E402


def bpr(positive, negative):
    return loss.BPRLoss()(positive, negative)


Bpr = with_autograd(bpr)


def post_ln_block(
    x, W_q, W_k, W_v, W_o, gamma_1, beta_1, W_1, b_1, W_2, b_2, gamma_2, beta_2, heads, mask=None, eps=1e-5
):
    zeros = torch.zeros(len(W_q), dtype=x.dtype)
    names = {"query": W_q, "key": W_k, "value": W_v, "dense": W_o}
    given = {f"{name}.weight": W.T for name, W in names.items()} | {f"{name}.bias": zeros for name in names}
    attention = layers.MultiHeadAttention(heads, len(W_q), 0.0, 0.0, eps)
    hidden = torch.zeros(1, 1, 1, 1) if mask is None else torch.where(mask, 0.0, -10000.0).to(x.dtype)
    batch = x.reshape(-1, *x.shape[-2:])
    hidden = hidden if mask is None else hidden.expand(*x.shape[:-1], mask.shape[-1]).reshape(-1, 1, *hidden.shape[-2:])
    h = functional_call(attention, given | {"LayerNorm.weight": gamma_1, "LayerNorm.bias": beta_1}, (batch, hidden))
    given = {"dense_1.weight": W_1.T, "dense_1.bias": b_1, "dense_2.weight": W_2.T, "dense_2.bias": b_2}
    network = layers.FeedForward(*W_1.shape, 0.0, "relu", eps)
    return functional_call(network, given | {"LayerNorm.weight": gamma_2, "LayerNorm.bias": beta_2}, h).reshape(x.shape)


PostLnBlock = with_autograd(post_ln_block)


class Ranking:
    def hit_rate(self, scores, target, k):
        return self.at_k(metrics.Hit.metric_info(None, self.hits(scores, target)), k)

    def ndcg(self, scores, target, k):
        return self.at_k(metrics.NDCG.metric_info(None, self.hits(scores, target), np.array([1])), k)

    def hits(self, scores, target):
        return (np.argsort(-scores, kind="stable") == target)[None].astype(int)

    def at_k(self, curve, k):
        return curve[0, min(k, curve.shape[1]) - 1]
