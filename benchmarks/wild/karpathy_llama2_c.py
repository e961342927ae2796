"""karpathy/llama2.c: the torch model whose weights it exports, (batch, n, heads, d)."""

import torch
from checkout import Gpt, checkout, importable, with_autograd
from torch.func import functional_call

importable(checkout("karpathy/llama2.c"))

import model  # noqa: E402


def rms_norm(x, gamma, eps=1e-5):
    return functional_call(model.RMSNorm(len(gamma), eps), {"weight": gamma}, x)


def rotary(x, cos, sin):
    four = x.reshape(-1, x.shape[-2], 1, x.shape[-1])
    return model.apply_rotary_emb(four, four, cos, sin)[0].reshape(x.shape)


def swiglu(x, W_1, V, W_2):
    return functional_call(
        model.FeedForward(*W_1.shape, 1, 0.0), {"w1.weight": W_1.T, "w3.weight": V.T, "w2.weight": W_2.T}, x
    )


RmsNorm, Swiglu = map(with_autograd, (rms_norm, swiglu))
Rotary = with_autograd(rotary, constant=("cos", "sin"))


class CausalModel(Gpt):
    def __init__(self):
        torch.manual_seed(0)
        self.model = model.Transformer(model.ModelArgs(
            dim=16, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=self.vocabulary, multiple_of=8,
            max_seq_len=self.maxlen,
        ))  # fmt: skip

    def called(self, ids, targets):
        logits = self.model(torch.tensor(ids), torch.tensor(targets))
        return logits, self.model.last_loss


class CausalBlock:
    """A block on vectors of width 8."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        options = model.ModelArgs(dim=8, n_heads=2, hidden_dim=12, max_seq_len=self.maxlen)
        self.module, self.tables = model.TransformerBlock(0, options), model.precompute_freqs_cis(4, self.maxlen)

    @torch.no_grad()
    def forward(self, x):
        tables = (table[: x.shape[1]] for table in self.tables)
        return self.module(torch.tensor(x, dtype=torch.float32), *tables).numpy()
