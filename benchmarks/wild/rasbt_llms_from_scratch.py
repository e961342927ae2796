"""rasbt/LLMs-from-scratch: a book's GPT and LLaMA as torch modules."""

import torch
from checkout import Gpt, bare_package, checkout, stand_in, with_autograd
from torch.func import functional_call

bare_package("llms_from_scratch", checkout("rasbt/LLMs-from-scratch") / "pkg" / "llms_from_scratch")
for name in ("tiktoken", "tiktoken.load"):
    stand_in(name, load_tiktoken_bpe=None)

from llms_from_scratch import ch03, ch04, llama3  # noqa: E402


def layer_norm(x, gamma, beta):
    return functional_call(ch04.LayerNorm(len(gamma)), {"scale": gamma, "shift": beta}, x)


def gelu(x):
    return ch04.GELU()(x)


def gelu_feed_forward(x, W_1, b_1, W_2, b_2):
    """The repository makes the hidden width four times the input width; here the parameters decide it."""
    given = {"layers.0.weight": W_1.T, "layers.0.bias": b_1, "layers.2.weight": W_2.T, "layers.2.bias": b_2}
    return functional_call(ch04.FeedForward({"emb_dim": len(W_1)}), given, x)


def swiglu(x, W_1, V, W_2):
    module = llama3.FeedForward({"emb_dim": len(W_1), "hidden_dim": len(W_2), "dtype": x.dtype})
    return functional_call(module, {"fc1.weight": W_1.T, "fc2.weight": V.T, "fc3.weight": W_2.T}, x)


def rotary(x, cos, sin):
    tables = (torch.cat([table, table], dim=1) for table in (cos, sin))
    return llama3.apply_rope(x.reshape(-1, 1, *x.shape[-2:]), *tables).reshape(x.shape)


def grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None):
    """Angles of 0 switch rotary positions off."""
    n, width = x.shape[-2], W_q.shape[1] // heads
    hidden = torch.zeros(n, n, dtype=torch.bool) if mask is None else ~mask
    names = ("W_query.weight", "W_key.weight", "W_value.weight", "out_proj.weight")
    given = dict(zip(names, (W_q.T, W_k.T, W_v.T, W_o.T), strict=True))
    flat = torch.ones(n, width, dtype=x.dtype), torch.zeros(n, width, dtype=x.dtype)
    module = llama3.GroupedQueryAttention(len(W_q), W_q.shape[1], heads, kv_heads, x.dtype)
    return functional_call(module, given, (x.reshape(-1, *x.shape[-2:]), hidden, *flat)).reshape(x.shape)


LayerNorm, Gelu, GeluFeedForward, Swiglu, GroupedQueryAttention = map(
    with_autograd, (layer_norm, gelu, gelu_feed_forward, swiglu, grouped_query_attention)
)
Rotary = with_autograd(rotary, constant=("cos", "sin"))


class CausalModel(Gpt):
    def __init__(self):
        torch.manual_seed(0)
        self.model = ch04.GPTModel({"vocab_size": self.vocabulary, "context_length": self.maxlen, "emb_dim": 16,
                                    "n_heads": 2, "n_layers": 2, "drop_rate": 0.0, "qkv_bias": False})  # fmt: skip

    def called(self, ids, targets):
        logits = self.model(torch.tensor(ids))
        return logits, torch.nn.functional.cross_entropy(logits.transpose(1, 2), torch.tensor(targets))


class CausalAttention:
    """Several heads on vectors of width 8."""

    maxlen = 40

    def __init__(self):
        torch.manual_seed(0)
        self.module = ch03.MultiHeadAttention(8, 8, self.maxlen, 0.0, 2).double()

    @torch.no_grad()
    def forward(self, x):
        return self.module(torch.tensor(x, dtype=torch.float64)).numpy()
