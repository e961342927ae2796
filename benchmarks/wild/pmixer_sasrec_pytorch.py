"""pmixer/SASRec.pytorch: the feed-forward network and the model, in evaluation mode."""

from types import SimpleNamespace

import torch
from checkout import array, checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("pmixer/SASRec.pytorch") / "python")

import model  # noqa: E402


def feed_forward(x, W_1, b_1, W_2, b_2):
    given = {"conv1.weight": W_1.T[..., None], "conv1.bias": b_1, "conv2.weight": W_2.T[..., None], "conv2.bias": b_2}
    return functional_call(model.PointWiseFeedForward(len(W_1), 0.0), given, x)


FeedForward = with_autograd(feed_forward)


class CausalModel:
    """Post-norm, the default. Items begin at 1 because 0 is padding."""

    vocabulary, maxlen, norm_first = 8, 40, False

    def __init__(self):
        torch.manual_seed(0)
        self.model = model.SASRec(1, self.vocabulary, SimpleNamespace(
            device="cpu", norm_first=self.norm_first, maxlen=self.maxlen, hidden_units=16, num_blocks=2, num_heads=2,
            dropout_rate=0.0,
        )).eval()  # fmt: skip

    @torch.no_grad()
    def forward(self, ids):
        return array(self.model.log2feats(ids + 1))


class PreNormModel(CausalModel):
    norm_first = True
