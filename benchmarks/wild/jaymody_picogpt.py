"""jaymody/picoGPT: GPT-2's forward as plain functions on one sequence."""

import numpy as np
from checkout import checkout, importable

importable(checkout("jaymody/picoGPT"))

import gpt2  # noqa: E402


class Softmax:
    def softmax(self, s):
        return gpt2.softmax(s)


class LayerNorm:
    def layer_norm(self, x, gamma, beta, eps=1e-5):
        return gpt2.layer_norm(x, gamma, beta, eps)


class Linear:
    def linear(self, x, W, b):
        return gpt2.linear(x, W, b)


class Gelu:
    def gelu(self, x):
        return gpt2.gelu(x)


class Attention:
    """One sequence and head at a time. As in the repository's `mha`, the mask adds -1e10 at forbidden positions."""

    def attention(self, q, k, v, mask=None):
        n, m, lead = q.shape[-2], k.shape[-2], q.shape[:-2]
        forbids = np.broadcast_to(~np.asarray(True if mask is None else mask), (*lead, n, m)) * q.dtype.type(-1e10)
        out = np.empty((*lead, n, v.shape[-1]), q.dtype)
        for at in np.ndindex(lead):
            out[at] = gpt2.attention(q[at], k[at], v[at], forbids[at])
        return out


class GeluFeedForward:
    def gelu_feed_forward(self, x, W_1, b_1, W_2, b_2):
        return gpt2.ffn(x, {"w": W_1, "b": b_1}, {"w": W_2, "b": b_2})


class CausalModel:
    """Two blocks with random parameters."""

    vocabulary, maxlen = 8, 64

    def __init__(self):
        rng = np.random.default_rng(0)
        tables = {"wte": rng.standard_normal((self.vocabulary, 8)), "wpe": rng.standard_normal((self.maxlen, 8))}
        self.parameters = tables | {"blocks": [block(rng), block(rng)], "ln_f": norm(rng), "n_head": 2}

    def forward(self, ids):
        return np.stack([gpt2.gpt2(sequence, **self.parameters) for sequence in ids])


def block(rng, D=8):
    """Random parameters in the form that gpt2 takes."""
    return {
        "mlp": {"c_fc": dense(rng, D, 4 * D), "c_proj": dense(rng, 4 * D, D)},
        "attn": {"c_attn": dense(rng, D, 3 * D), "c_proj": dense(rng, D, D)},
        "ln_1": norm(rng), "ln_2": norm(rng),
    }  # fmt: skip


def dense(rng, i, o):
    return {"w": rng.standard_normal((i, o)) / i**0.5, "b": 0.1 * rng.standard_normal(o)}


def norm(rng, D=8):
    return {"g": 1 + 0.1 * rng.standard_normal(D), "b": 0.1 * rng.standard_normal(D)}
