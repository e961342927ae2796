"""Adapters from this library's composites to the functions that `tinyattn check` calls.

An adapter is a few lines that call an implementation with a spec's arguments and return what the spec asks for. These
are the adapters of the library's layers, optimiser, metrics and models:

    tinyattn check tinyattn.check.adapters --as multi_head_attention
    tinyattn check tinyattn.check.adapters:SASRecTokens --as causal_model
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import layers, ops
from ..backend import Array
from ..evaluation import ranking
from ..forms import readable
from ..training import adam, adamw

__all__ = [
    "CachedAttention",
    "PaddedBlock",
    "SASRecTokens",
    "adam",
    "adamw",
    "biased_multi_head_attention",
    "biased_multi_head_attention_backward",
    "block",
    "block_backward",
    "cross_attention",
    "cross_attention_backward",
    "feed_forward",
    "feed_forward_backward",
    "gelu_feed_forward",
    "gelu_feed_forward_backward",
    "grouped_query_attention",
    "grouped_query_attention_backward",
    "hit_rate",
    "multi_head_attention",
    "multi_head_attention_backward",
    "ndcg",
    "post_ln_block",
    "post_ln_block_backward",
]

PROJECTIONS = ("query", "key", "value", "output")
GELU = {False: "gelu", True: "gelu-tanh"}
Params = dict[str, Any]  # a layer's tree of parameters, or of their gradients


def multi_head_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> Array:
    p = _heads(W_q, W_k, W_v, W_o)
    return layers.multi_head_attention(p, x, x, heads=heads, mask=mask)[0]


def multi_head_attention_backward(
    dy: Array, x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> tuple[Array, ...]:
    p = _heads(W_q, W_k, W_v, W_o)
    _, cache = layers.multi_head_attention(p, x, x, heads=heads, mask=mask)
    dx, dmemory, grads = layers.multi_head_attention_backward(p, dy, cache)
    return dx + dmemory, *(grads[name]["W"] for name in PROJECTIONS)


def cross_attention(
    x: Array, memory: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> Array:
    return layers.multi_head_attention(_heads(W_q, W_k, W_v, W_o), x, memory, heads=heads, mask=mask)[0]


def cross_attention_backward(
    dy: Array, x: Array, memory: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int,
    mask: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    p = _heads(W_q, W_k, W_v, W_o)
    _, cache = layers.multi_head_attention(p, x, memory, heads=heads, mask=mask)
    dx, dmemory, grads = layers.multi_head_attention_backward(p, dy, cache)
    return dx, dmemory, *(grads[name]["W"] for name in PROJECTIONS)


def biased_multi_head_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, b_q: Array, b_k: Array, b_v: Array, b_o: Array,
    heads: int, mask: Array | None = None,
) -> Array:  # fmt: skip
    p = _heads(W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o)
    return layers.multi_head_attention(p, x, x, heads=heads, mask=mask)[0]


def biased_multi_head_attention_backward(
    dy: Array, x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, b_q: Array, b_k: Array, b_v: Array,
    b_o: Array, heads: int, mask: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    p = _heads(W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o)
    _, cache = layers.multi_head_attention(p, x, x, heads=heads, mask=mask)
    dx, dmemory, grads = layers.multi_head_attention_backward(p, dy, cache)
    return dx + dmemory, *(grads[name][kind] for kind in "Wb" for name in PROJECTIONS)


def grouped_query_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, kv_heads: int, mask: Array | None = None
) -> Array:
    p = _heads(W_q, W_k, W_v, W_o)
    return layers.multi_head_attention(p, x, x, heads=heads, kv_heads=kv_heads, mask=mask)[0]


def grouped_query_attention_backward(
    dy: Array, x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, kv_heads: int,
    mask: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    p = _heads(W_q, W_k, W_v, W_o)
    _, cache = layers.multi_head_attention(p, x, x, heads=heads, kv_heads=kv_heads, mask=mask)
    dx, dmemory, grads = layers.multi_head_attention_backward(p, dy, cache)
    return dx + dmemory, *(grads[name]["W"] for name in PROJECTIONS)


def feed_forward(x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> Array:
    return layers.feed_forward(_two_layers(W_1, b_1, W_2, b_2), x)[0]


def feed_forward_backward(dy: Array, x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> tuple[Array, ...]:
    return _feed_forward_backward("relu", dy, x, W_1, b_1, W_2, b_2)


def gelu_feed_forward(
    x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, approximate: bool = False
) -> Array:
    return layers.feed_forward(_two_layers(W_1, b_1, W_2, b_2), x, activation=GELU[approximate])[0]


def gelu_feed_forward_backward(
    dy: Array, x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, approximate: bool = False
) -> tuple[Array, ...]:
    return _feed_forward_backward(GELU[approximate], dy, x, W_1, b_1, W_2, b_2)


def block(
    x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_2: Array,
    beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int, mask: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    return forward_of(heads, eps, "pre", p, x, mask)[0]


def block_backward(
    dy: Array, x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array,
    gamma_2: Array, beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int,
    mask: Array | None = None, eps: float = 1e-5,
) -> tuple[Array, ...]:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    _, cache = forward_of(heads, eps, "pre", p, x, mask)
    dx, grads = _block(heads, eps, "pre").backward(p, dy, cache)
    return dx, *flat_gradients(grads)


def post_ln_block(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_1: Array, beta_1: Array, W_1: Array, b_1: Array,
    W_2: Array, b_2: Array, gamma_2: Array, beta_2: Array, heads: int, mask: Array | None = None, eps: float = 1e-5,
) -> Array:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    return forward_of(heads, eps, "post", p, x, mask)[0]


def post_ln_block_backward(
    dy: Array, x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_1: Array, beta_1: Array, W_1: Array,
    b_1: Array, W_2: Array, b_2: Array, gamma_2: Array, beta_2: Array, heads: int, mask: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, ...]:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    _, cache = forward_of(heads, eps, "post", p, x, mask)
    dx, grads = _block(heads, eps, "post").backward(p, dy, cache)
    flat = tuple(flat_gradients(grads))
    return dx, *flat[2:6], *flat[:2], *flat[8:], *flat[6:8]


def hit_rate(scores: Array, target: int, k: int) -> float:
    return float(ranking.hit_rate(_rank(scores, target), k)[0])


def ndcg(scores: Array, target: int, k: int) -> float:
    return float(ranking.ndcg(_rank(scores, target), k)[0])


class SASRecTokens:
    """SASRec as a causal model of tokens 0..vocabulary - 1; before `fit`, with random parameters."""

    vocabulary = 8
    maxlen = 32
    from_the_end = True  # the newest token always has the last position

    def __init__(self) -> None:
        from ..models import SASRecNetwork
        from ..random import Stream, generator

        self.network = SASRecNetwork(n_items=self.vocabulary, maxlen=32, dim=16, dropout=0.0)
        self.parameters: Any = self.network.init(generator(0, Stream.INIT))
        self.numbers = np.arange(1, self.vocabulary + 1)  # of token 0, 1, 2, ... in the item table

    def forward(self, x: Array) -> Array:
        """log_probs: (B, T) tokens -> (B, T, vocabulary)."""
        return self.log_probs(x)

    def fit(self, ids: Array) -> None:
        """Train on (N, T) tokens, by cross-entropy at every position."""
        from ..models import SASRec

        model = SASRec(dim=16, maxlen=32, dropout=0.0, loss="ce", epochs=30, patience=0).fit(ids.tolist())
        assert model.items is not None
        self.network, self.parameters = model.network, model.parameters
        self.numbers = model.items.numbers(range(self.vocabulary))

    def log_probs(self, ids: Array) -> Array:
        """Position t holds the log-probabilities of token t + 1, from tokens 0..t."""
        from ..data import pad

        h, _ = self.network.forward(self.parameters, pad(list(self.numbers[ids]), self.network.maxlen))
        logits = h @ self.parameters["items"][self.numbers].T
        logits = logits - np.max(logits, axis=-1, keepdims=True)
        return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


class PaddedBlock:
    """A block that looks both ways and not at padding; its parameters are random."""

    dim = 8

    def __init__(self) -> None:
        self.block = layers.Block(layers.MultiHead(2))
        self.p = self.block.init(np.random.default_rng(0), self.dim)

    def forward(self, x: Array, lengths: Array) -> Array:
        """Shapes: x (B, T, 8), lengths (B,) -> y (B, T, 8)."""
        return self.block.forward(self.p, x, mask=ops.Mask(lengths=lengths))[0]


class CachedAttention:
    """Causal attention of vectors, all at once or token by token; its parameters are random."""

    dim = 8

    def __init__(self) -> None:
        self.W_q, self.W_k, self.W_v = np.random.default_rng(0).standard_normal((3, self.dim, self.dim))

    def forward(self, x: Array) -> Array:
        """Shapes: x (B, T, 8) -> y (B, T, 8)."""
        mask = ops.causal_mask(x.shape[1], like=x)
        return ops.attention(x @ self.W_q, x @ self.W_k, x @ self.W_v, mask)[0]

    def step(self, x: Array, cache: Any = None) -> tuple[Array, Any]:
        """The next token of each sequence. Shapes: x (B, 8) -> y (B, 8), cache: keys and values up to here."""
        x = x[:, None]
        k, v = x @ self.W_k, x @ self.W_v
        if cache is not None:
            k, v = (np.concatenate(pair, axis=1) for pair in zip(cache, (k, v), strict=True))
        return ops.attention(x @ self.W_q, k, v)[0][:, 0], (k, v)


def _rank(scores: Array, target: int) -> Array:
    return ranking.ranks(np.asarray(scores)[None], np.array([target]))


def forward_of(heads: int, eps: float, form: str, p: Params, x: Array, mask: Any) -> tuple[Array, Any]:
    """The block's readable form."""
    with readable():
        return _block(heads, eps, form).forward(p, x, mask=mask)


def _block(heads: int, eps: float, form: str) -> layers.Block:
    return layers.Block(layers.MultiHead(heads), form, norm=layers.LayerNorm(eps))


def _heads(W_q: Array, W_k: Array, W_v: Array, W_o: Array, *biases: Array) -> Params:
    p: Params = {name: {"W": W} for name, W in zip(PROJECTIONS, (W_q, W_k, W_v, W_o), strict=True)}
    for name, b in zip(PROJECTIONS, biases, strict=False):
        p[name]["b"] = b
    return p


def _feed_forward_backward(
    activation: str, dy: Array, x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array
) -> tuple[Array, ...]:
    p = _two_layers(W_1, b_1, W_2, b_2)
    _, cache = layers.feed_forward(p, x, activation=activation)
    dx, grads = layers.feed_forward_backward(p, dy, cache)
    inner, outer = grads["inner"], grads["outer"]
    return dx, inner["W"], inner["b"], outer["W"], outer["b"]


def _two_layers(W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> Params:
    return {"inner": {"W": W_1, "b": b_1}, "outer": {"W": W_2, "b": b_2}}


def parameters(
    gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_2: Array, beta_2: Array,
    W_1: Array, b_1: Array, W_2: Array, b_2: Array,
) -> Params:  # fmt: skip
    return {
        "norm_1": {"gamma": gamma_1, "beta": beta_1},
        "attention": _heads(W_q, W_k, W_v, W_o),
        "norm_2": {"gamma": gamma_2, "beta": beta_2},
        "feed_forward": _two_layers(W_1, b_1, W_2, b_2),
    }


def flat_gradients(grads: Params) -> Iterator[Array]:
    """A block's gradients in the order of the flat arguments."""
    for name in ("gamma", "beta"):
        yield grads["norm_1"][name]
    for name in PROJECTIONS:
        yield grads["attention"][name]["W"]
    for name in ("gamma", "beta"):
        yield grads["norm_2"][name]
    for layer in ("inner", "outer"):
        yield from (grads["feed_forward"][layer][name] for name in ("W", "b"))
