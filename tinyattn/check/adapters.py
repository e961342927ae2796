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

from .. import layers
from ..backend import Array
from ..evaluation import ranking
from ..training import adam

__all__ = [
    "SASRecTokens",
    "adam",
    "block",
    "block_backward",
    "feed_forward",
    "feed_forward_backward",
    "hit_rate",
    "multi_head_attention",
    "multi_head_attention_backward",
    "ndcg",
]

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
    return dx + dmemory, *(grads[name]["W"] for name in ("query", "key", "value", "output"))


def feed_forward(x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> Array:
    return layers.feed_forward(_two_layers(W_1, b_1, W_2, b_2), x)[0]


def feed_forward_backward(dy: Array, x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> tuple[Array, ...]:
    p = _two_layers(W_1, b_1, W_2, b_2)
    _, cache = layers.feed_forward(p, x)
    dx, grads = layers.feed_forward_backward(p, dy, cache)
    inner, outer = grads["inner"], grads["outer"]
    return dx, inner["W"], inner["b"], outer["W"], outer["b"]


def block(
    x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_2: Array,
    beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int, mask: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    return _block(heads, eps).forward(p, x, mask=mask)[0]


def block_backward(
    dy: Array, x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array,
    gamma_2: Array, beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int,
    mask: Array | None = None, eps: float = 1e-5,
) -> tuple[Array, ...]:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    _, cache = _block(heads, eps).forward(p, x, mask=mask)
    dx, grads = _block(heads, eps).backward(p, dy, cache)
    return dx, *flat_gradients(grads)


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

    def forward(self, ids: Array) -> Array:
        """log_probs: (B, T) tokens -> (B, T, vocabulary)."""
        return self.log_probs(ids)

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


def _rank(scores: Array, target: int) -> Array:
    return ranking.ranks(np.asarray(scores)[None], np.array([target]))


def _block(heads: int, eps: float) -> layers.Block:
    """The pre-LN block as it reads."""
    return layers.Block(layers.MultiHead(heads), norm=layers.LayerNorm(eps), fast=False)


def _heads(W_q: Array, W_k: Array, W_v: Array, W_o: Array) -> Params:
    return {name: {"W": W} for name, W in zip(("query", "key", "value", "output"), (W_q, W_k, W_v, W_o), strict=True)}


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
    for name in ("query", "key", "value", "output"):
        yield grads["attention"][name]["W"]
    for name in ("gamma", "beta"):
        yield grads["norm_2"][name]
    for layer in ("inner", "outer"):
        yield from (grads["feed_forward"][layer][name] for name in ("W", "b"))
