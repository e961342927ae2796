"""likejazz/llama3.np: Llama 3 in NumPy, inference only."""

import numpy as np
from checkout import checkout, importable, stand_in

importable(checkout("likejazz/llama3.np"))
stand_in("tokenizer", Tokenizer=None)
stand_in("utils", load_parameters=None)

import llama3  # noqa: E402
from config import ModelArgs  # noqa: E402


class Softmax:
    def softmax(self, s):
        return llama3.softmax(s)


class RmsNorm:
    def rms_norm(self, x, gamma, eps=1e-5):
        return llama3.RMSNorm(gamma, eps)(x)


class MultiHeadAttention:
    """Rotary positions are switched off by angles of 0. The mask adds -inf; heads need an even width."""

    def multi_head_attention(self, x, W_q, W_k, W_v, W_o, heads, mask=None):
        return grouped(x, W_q, W_k, W_v, W_o, heads, heads, mask)


class GroupedQueryAttention:
    def grouped_query_attention(self, x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None):
        return grouped(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask)


def grouped(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask):
    B, n, D = x.shape
    args = ModelArgs(dim=D, n_heads=heads, n_kv_heads=kv_heads, max_batch_size=B, max_seq_len=n)
    layer = llama3.Attention(W_q.T, W_k.T, W_v.T, W_o.T, args)
    forbids = None if mask is None else np.where(np.broadcast_to(mask, (n, n)), 0.0, -np.inf).astype(x.dtype)
    still = np.zeros((n, D // heads // 2), x.dtype)
    return layer(x, 0, forbids, still + 1, still)


class CausalModel:
    """One block with random weights on vectors of width 8, with the repository's rotary positions."""

    maxlen = 40

    def __init__(self):
        rng = np.random.default_rng(0)
        shapes = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8),
                  "self_attn.o_proj": (8, 8), "mlp.up_proj": (16, 8), "mlp.gate_proj": (16, 8),
                  "mlp.down_proj": (8, 16), "input_layernorm": (8,), "post_attention_layernorm": (8,)}  # fmt: skip
        self.weights = {f"model.layers.0.{name}.weight": rng.standard_normal(s) / 3 for name, s in shapes.items()}
        self.cos, self.sin = llama3.compute_cos_sin_cache(4, self.maxlen)

    def block(self):
        args = ModelArgs(dim=8, n_heads=2, n_kv_heads=1, max_batch_size=8, max_seq_len=self.maxlen)
        return llama3.TransformerBlock(self.weights, 0, args)

    def forward(self, x):
        n = x.shape[1]
        return self.block()(x, 0, np.triu(np.full((n, n), -np.inf), k=1), self.cos[:n], self.sin[:n])


class CachedModel(CausalModel):
    """Token by token: the block keeps keys and values, and is given the position of the token."""

    def step(self, x, cache):
        block, t = cache or (self.block(), 0)
        return block(x[:, None], t, None, self.cos[t : t + 1], self.sin[t : t + 1])[:, 0], (block, t + 1)
