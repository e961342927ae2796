"""Adapters from this library's composites to the functions that `tinyattn check` calls.

An adapter is a few lines that call an implementation with a spec's arguments and return the spec's outputs. These
are the adapters of the library's layers, optimiser, metrics and models:

    tinyattn check tinyattn.check.adapters --as multi_head_attention
    tinyattn check tinyattn.check.adapters:SASRecTokens --as causal_model
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import layers, ops
from ..backend import Array
from ..evaluation import ranking
from ..training import adam as adam
from ..training import adamw as adamw

PROJECTIONS = ("query", "key", "value", "output")
LAYERS = ("inner", "outer")
GELU = {False: "gelu", True: "gelu-tanh"}
Params = dict[str, Any]  # a layer's tree of parameters, or of their gradients
Pullback = Callable[[Array], tuple[Array, ...]]  # dy -> a gradient for each differentiable argument


def _pair(run: Callable[..., tuple[Array, Pullback]]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward of `run(x, ...) -> y, pullback`, called `_NAME`, with its arguments."""

    def forward(*args: Any, **kwargs: Any) -> Array:
        return run(*args, **kwargs)[0]

    def backward(dy: Array, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        return run(*args, **kwargs)[1](dy)

    arguments = list(inspect.signature(run).parameters.values())
    upstream = inspect.Parameter("dy", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    name = run.__name__.removeprefix("_")
    for f, called, parameters in ((forward, name, arguments), (backward, f"{name}_backward", [upstream, *arguments])):
        f.__name__, f.__signature__, f.__wrapped__ = called, inspect.Signature(parameters), run  # type: ignore
    return forward, backward


def _multi_head_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> tuple[Array, Pullback]:
    return _attend(_heads(W_q, W_k, W_v, W_o), x, x, heads=heads, mask=mask)


def _cross_attention(
    x: Array, memory: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> tuple[Array, Pullback]:
    return _attend(_heads(W_q, W_k, W_v, W_o), x, memory, False, heads=heads, mask=mask)


def _biased_multi_head_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, b_q: Array, b_k: Array, b_v: Array, b_o: Array,
    heads: int, mask: Array | None = None,
) -> tuple[Array, Pullback]:  # fmt: skip
    return _attend(_heads(W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o), x, x, heads=heads, mask=mask)


def _grouped_query_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, kv_heads: int, mask: Array | None = None
) -> tuple[Array, Pullback]:
    return _attend(_heads(W_q, W_k, W_v, W_o), x, x, heads=heads, kv_heads=kv_heads, mask=mask)


def _feed_forward(x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> tuple[Array, Pullback]:
    return _through_layers(_two_layers(W_1, b_1, W_2, b_2), x, "relu")


def _gelu_feed_forward(
    x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, approximate: bool = False
) -> tuple[Array, Pullback]:
    return _through_layers(_two_layers(W_1, b_1, W_2, b_2), x, GELU[approximate])


def _block(
    x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_2: Array,
    beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int, mask: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Pullback]:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    return _through_block(p, x, heads, mask, eps, "pre", range(12))


def _post_ln_block(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_1: Array, beta_1: Array, W_1: Array, b_1: Array,
    W_2: Array, b_2: Array, gamma_2: Array, beta_2: Array, heads: int, mask: Array | None = None, eps: float = 1e-5,
) -> tuple[Array, Pullback]:  # fmt: skip
    p = parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
    return _through_block(p, x, heads, mask, eps, "post", (2, 3, 4, 5, 0, 1, 8, 9, 10, 11, 6, 7))


multi_head_attention, multi_head_attention_backward = _pair(_multi_head_attention)
cross_attention, cross_attention_backward = _pair(_cross_attention)
biased_multi_head_attention, biased_multi_head_attention_backward = _pair(_biased_multi_head_attention)
grouped_query_attention, grouped_query_attention_backward = _pair(_grouped_query_attention)
feed_forward, feed_forward_backward = _pair(_feed_forward)
gelu_feed_forward, gelu_feed_forward_backward = _pair(_gelu_feed_forward)
block, block_backward = _pair(_block)
post_ln_block, post_ln_block_backward = _pair(_post_ln_block)


def _attend(p: Params, x: Array, memory: Array, to_itself: bool = True, **options: Any) -> tuple[Array, Pullback]:
    y, cache = layers.multi_head_attention(p, x, memory, **options)

    def pullback(dy: Array) -> tuple[Array, ...]:
        dx, dmemory, grads = layers.multi_head_attention_backward(p, dy, cache)
        inputs = (dx + dmemory,) if to_itself else (dx, dmemory)
        return *inputs, *(grads[name][kind] for kind in p["query"] for name in PROJECTIONS)

    return y, pullback


def _through_layers(p: Params, x: Array, activation: str) -> tuple[Array, Pullback]:
    y, cache = layers.feed_forward(p, x, activation=activation)

    def pullback(dy: Array) -> tuple[Array, ...]:
        dx, grads = layers.feed_forward_backward(p, dy, cache)
        return dx, *(grads[name][kind] for name in LAYERS for kind in "Wb")

    return y, pullback


def _through_block(
    p: Params, x: Array, heads: int, mask: Array | None, eps: float, form: str, order: Sequence[int]
) -> tuple[Array, Pullback]:
    """The readable block; `order` are the places of the gradients in `flat_gradients`."""
    whole = layers.Block(layers.MultiHead(heads), form, norm=layers.LayerNorm(eps), fast=False)
    y, cache = whole.forward(p, x, mask=mask)

    def pullback(dy: Array) -> tuple[Array, ...]:
        dx, grads = whole.backward(p, dy, cache)
        flat = tuple(flat_gradients(grads))
        return dx, *(flat[i] for i in order)

    return y, pullback


def _heads(W_q: Array, W_k: Array, W_v: Array, W_o: Array, *biases: Array) -> Params:
    p: Params = {name: {"W": W} for name, W in zip(PROJECTIONS, (W_q, W_k, W_v, W_o), strict=True)}
    for name, b in zip(PROJECTIONS, biases, strict=False):
        p[name]["b"] = b
    return p


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
    """A block's gradients in the order of the arguments of `parameters`."""
    for norm, part, names, kinds in (
        ("norm_1", "attention", PROJECTIONS, "W"),
        ("norm_2", "feed_forward", LAYERS, "Wb"),
    ):
        yield from (grads[norm][name] for name in ("gamma", "beta"))
        yield from (grads[part][name][kind] for name in names for kind in kinds)


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
        self.numbers = np.arange(1, self.vocabulary + 1)  # row of each token in the item table

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
    """A bidirectional block with a padding mask and random parameters."""

    dim = 8

    def __init__(self) -> None:
        self.block = layers.Block(layers.MultiHead(2))
        self.p = self.block.init(np.random.default_rng(0), self.dim)

    def forward(self, x: Array, lengths: Array) -> Array:
        """Shapes: x (B, T, 8), lengths (B,) -> y (B, T, 8)."""
        return self.block.forward(self.p, x, mask=ops.Mask(lengths=lengths))[0]


class CachedAttention:
    """Causal attention of vectors, all at once or token by token, with random parameters."""

    dim = 8

    def __init__(self) -> None:
        self.W_q, self.W_k, self.W_v = np.random.default_rng(0).standard_normal((3, self.dim, self.dim))

    def forward(self, x: Array) -> Array:
        """Shapes: x (B, T, 8) -> y (B, T, 8)."""
        mask = ops.causal_mask(x.shape[1], like=x)
        return ops.attention(x @ self.W_q, x @ self.W_k, x @ self.W_v, mask)[0]

    def step(self, x: Array, cache: Any = None) -> tuple[Array, Any]:
        """The next token of each sequence. Shapes: x (B, 8) -> y (B, 8), cache: keys and values so far."""
        x = x[:, None]
        k, v = x @ self.W_k, x @ self.W_v
        if cache is not None:
            k, v = (np.concatenate(pair, axis=1) for pair in zip(cache, (k, v), strict=True))
        return ops.attention(x @ self.W_q, k, v)[0][:, 0], (k, v)


def _rank(scores: Array, target: int) -> Array:
    return ranking.ranks(np.asarray(scores)[None], np.array([target]))
