"""RUCAIBox/CIKM2020-S3Rec: BERT's parts as torch modules, with masks that are added to the scores."""

from types import SimpleNamespace

import numpy as np
import torch
from checkout import checkout, importable, stand_in, with_autograd
from torch.func import functional_call

importable(checkout("RUCAIBox/CIKM2020-S3Rec"))
stand_in("scipy")
stand_in("scipy.sparse", csr_matrix=None)

import modules  # noqa: E402
import utils  # noqa: E402


def gelu(x):
    return modules.gelu(x)


def silu(x):
    return modules.swish(x)


def layer_norm(x, gamma, beta, eps=1e-5):
    return functional_call(modules.LayerNorm(len(gamma), eps), {"weight": gamma, "bias": beta}, x)


def post_ln_block(x, W_q, W_k, W_v, W_o, gamma_1, beta_1, W_1, b_1, W_2, b_2, gamma_2, beta_2, heads, mask=None):
    """The repository makes the hidden width four times the input width; here the parameters decide it."""
    options = SimpleNamespace(
        hidden_size=len(W_q), num_attention_heads=heads, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0,
        hidden_act="relu",
    )  # fmt: skip
    zeros, batch = torch.zeros(len(W_q), dtype=x.dtype), x.reshape(-1, *x.shape[-2:])
    names = {"query": W_q, "key": W_k, "value": W_v, "dense": W_o}
    given = {f"attention.{name}.weight": W.T for name, W in names.items()}
    given |= {f"attention.{name}.bias": zeros for name in names}
    given |= {"attention.LayerNorm.weight": gamma_1, "attention.LayerNorm.bias": beta_1}
    for name, W, b in (("dense_1", W_1, b_1), ("dense_2", W_2, b_2)):
        given |= {f"intermediate.{name}.weight": W.T, f"intermediate.{name}.bias": b}
    given |= {"intermediate.LayerNorm.weight": gamma_2, "intermediate.LayerNorm.bias": beta_2}
    added = zeros[:1] if mask is None else torch.where(mask, 0.0, -10000.0).to(x.dtype)
    added = added if mask is None else added.expand(*x.shape[:-1], mask.shape[-1]).reshape(-1, 1, *added.shape[-2:])
    return functional_call(modules.Layer(options), given, (batch, added)).reshape(x.shape)


Gelu, Silu, LayerNorm, PostLnBlock = map(with_autograd, (gelu, silu, layer_norm, post_ln_block))


class Ranking:
    """Ranks count from 0, as in the repository's trainer for sampled candidates."""

    def hit_rate(self, scores, target, k):
        return utils.get_metric([self.rank(scores, target)], k)[0]

    def ndcg(self, scores, target, k):
        return utils.get_metric([self.rank(scores, target)], k)[1]

    def rank(self, scores, target):
        return int(np.argsort(np.argsort(-scores, kind="stable"))[target])
