"""jadore801120/attention-is-all-you-need-pytorch: attention, a block, the loss and the decoder, evaluated."""

import torch
from checkout import array, checkout, importable, stand_in, with_autograd
from torch.func import functional_call

importable(checkout("jadore801120/attention-is-all-you-need-pytorch"))
stand_in("dill")
stand_in("torchtext")
stand_in("torchtext.data", Field=None, Dataset=None, BucketIterator=None)
stand_in("torchtext.datasets", TranslationDataset=None)

import train  # noqa: E402
from transformer.Layers import EncoderLayer  # noqa: E402
from transformer.Models import Transformer  # noqa: E402
from transformer.Modules import ScaledDotProductAttention  # noqa: E402


def attention(q, k, v, mask=None):
    return ScaledDotProductAttention(temperature=q.shape[-1] ** 0.5).eval()(q, k, v, mask)


def cross_entropy(logits, targets):
    """The repository's sum over tokens, divided by their number as in train.py. No target is padding."""
    return train.cal_loss(logits.flatten(0, -2), targets.long(), trg_pad_idx=-1) / targets.numel()


def post_ln_block(
    x, W_q, W_k, W_v, W_o, gamma_1, beta_1, W_1, b_1, W_2, b_2, gamma_2, beta_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    D, H = W_1.shape
    layer = EncoderLayer(D, H, heads, D // heads, D // heads).eval()
    layer.slf_attn.layer_norm.eps = layer.pos_ffn.layer_norm.eps = eps
    matrices = {"slf_attn.w_qs": W_q, "slf_attn.w_ks": W_k, "slf_attn.w_vs": W_v, "slf_attn.fc": W_o}
    given = {f"{name}.weight": W.T for name, W in (matrices | {"pos_ffn.w_1": W_1, "pos_ffn.w_2": W_2}).items()}
    given |= {"slf_attn.layer_norm.weight": gamma_1, "slf_attn.layer_norm.bias": beta_1, "pos_ffn.w_1.bias": b_1}
    given |= {"pos_ffn.layer_norm.weight": gamma_2, "pos_ffn.layer_norm.bias": beta_2, "pos_ffn.w_2.bias": b_2}
    full = None if mask is None else torch.broadcast_to(mask, (len(x), x.shape[-2], x.shape[-2]))
    return functional_call(layer, given, (x, full))


Attention = with_autograd(attention)
PostLnBlock = with_autograd(post_ln_block)
CrossEntropy = with_autograd(cross_entropy)


class CausalModel:
    """The decoder, always with the same source. Tokens begin at 1 because 0 is padding."""

    vocabulary, maxlen = 8, 40

    def __init__(self):
        torch.manual_seed(0)
        sizes = {"d_word_vec": 16, "d_model": 16, "d_inner": 32, "n_layers": 2, "n_head": 2, "d_k": 8, "d_v": 8}
        self.model = Transformer(9, 9, 0, 0, **sizes, n_position=self.maxlen).eval()

    @torch.no_grad()
    def forward(self, ids):
        logits = self.model(torch.ones(len(ids), 5, dtype=torch.long), torch.tensor(ids) + 1)
        return array(logits.view(*ids.shape, -1))
