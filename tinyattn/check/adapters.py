"""Adapters from this library's composites to the functions that `tinyattn check` calls.

An adapter calls an implementation with a spec's arguments, and returns the spec's outputs and gradients. These are the
adapters of the library's layers, optimiser, metrics and models. Layer adapters have the oracles' signatures. To check:

    tinyattn check tinyattn.check.adapters --as multi_head_attention
    tinyattn check tinyattn.check.adapters:SASRecTokens --as causal_model
"""

import inspect
from collections.abc import Callable
from functools import lru_cache, partial, reduce
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .. import layers, ops
from ..backend import Array, get_xp
from ..forms import readable
from ..layers.mechanisms.window import Window
from ..layers.positions.rope import RoPE
from ..training import adam as adam
from ..training import adamw as adamw
from ..training import schedules
from ..tree import leaves
from . import oracles

# By argument, its place in a layer's tree of parameters
ATTENTION = {f"{kind}_{name[0]}": f"{name}.{kind}" for kind in "Wb" for name in ("query", "key", "value", "output")}
NETWORK = {f"{kind}_{i}": f"{name}.{kind}" for i, name in enumerate(("inner", "outer"), 1) for kind in "Wb"}
GATED = {"W_1": "gate.W", "V": "inner.W", "W_2": "outer.W"}
BLOCK = {  # in the order of the block's arguments
    **{f"{name}_1": f"norm_1.{name}" for name in ("gamma", "beta")},
    **{name: f"attention.{place}" for name, place in ATTENTION.items() if name[0] == "W"},
    **{f"{name}_2": f"norm_2.{name}" for name in ("gamma", "beta")},
    **{name: f"feed_forward.{place}" for name, place in NETWORK.items()},
}
Params = dict[str, Any]  # a layer's tree of parameters, or of their gradients
Run = tuple[Array, Callable[[Array], dict[str, Array]]]  # an output, and its pullback: dy -> gradients by argument


def _pair(name: str, run: Callable[[dict[str, Any]], Run]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward of `run`, which takes the arguments of the oracle `name` by name."""
    signature = inspect.signature(getattr(oracles, name))
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not p.empty}

    def run_with(*args: Any, **kwargs: Any) -> Run:
        passed = defaults | dict(zip(signature.parameters, args, strict=False)) | kwargs
        return run({n: passed[n] for n in signature.parameters})  # faster than binding them

    def forward(*args: Any, **kwargs: Any) -> Array:
        return run_with(*args, **kwargs)[0]

    def backward(dy: Array, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        gradients = run_with(*args, **kwargs)[1](dy)
        return tuple(gradients[name] for name in signature.parameters if name in gradients)

    upstream = inspect.Parameter("dy", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    both = signature.replace(parameters=[upstream, *signature.parameters.values()])
    forward.__name__, forward.__signature__ = name, signature  # type: ignore[attr-defined]
    backward.__name__, backward.__signature__ = f"{name}_backward", both  # type: ignore[attr-defined]
    return forward, backward


def _attend(a: dict[str, Any]) -> Run:
    p = tree_of(ATTENTION, a)
    options = {name: a[name] for name in ("heads", "kv_heads", "mask") if name in a}
    y, cache = layers.multi_head_attention(p, a["x"], a.get("memory", a["x"]), **options)

    def pullback(dy: Array) -> dict[str, Array]:
        dx, dmemory, grads = layers.multi_head_attention_backward(p, dy, cache)
        inputs = {"x": dx, "memory": dmemory} if "memory" in a else {"x": dx + dmemory}
        return inputs | by_argument(ATTENTION, grads)

    return y, pullback


def _layer(places: dict[str, str], parts: Callable[[dict[str, Any]], tuple[Any, Any]], a: dict[str, Any]) -> Run:
    """Run a layer on `x`. `parts(a)` -> its forward(p, x) and its backward(p, dy, cache)."""
    p, (forward, backward) = tree_of(places, a), parts(a)
    y, cache = forward(p, a["x"])

    def pullback(dy: Array) -> dict[str, Array]:
        dx, grads = backward(p, dy, cache)
        return {"x": dx} | by_argument(places, grads)

    return y, pullback


def _network(a: dict[str, Any]) -> tuple[Any, Any]:
    activation = {None: "relu", False: "gelu", True: "gelu-tanh"}[a.get("approximate")]
    return partial(layers.feed_forward, activation=activation), layers.feed_forward_backward


def _of_form(form: str, a: dict[str, Any]) -> tuple[Any, Any]:
    heads, eps = a["heads"], a["eps"]
    return partial(forward_of, heads, eps, form, mask=a["mask"]), _block(heads, eps, form).backward


def _compare(a: dict[str, Any]) -> Run:
    """The objective `bpr`, with one-dimensional states that are all 1, so that scores are the rows of the table."""
    from ..models import objectives

    positive, negative, weights = a["positive"], a["negative"], a["weights"]
    xp, n, shape = get_xp(positive), positive.size, positive.shape
    E = xp.concatenate([positive.reshape(-1), negative.reshape(-1)])[:, None]
    h, ids = xp.ones((1, n, 1), dtype=E.dtype), xp.arange(n)[None]
    weight = xp.ones_like(positive) if weights is None else weights
    batch: Any = SimpleNamespace(targets=ids, negatives=n + ids, weight=weight.reshape(1, -1))
    loss, saved = objectives.bpr(h, E, batch)

    def pullback(dloss: Any) -> dict[str, Array]:
        values = objectives.bpr_backward(dloss, h, E, batch, saved)[1].values
        return {"positive": values[:n].reshape(shape), "negative": values[n:].reshape(shape)}

    return loss, pullback


multi_head_attention, multi_head_attention_backward = _pair("multi_head_attention", _attend)
cross_attention, cross_attention_backward = _pair("cross_attention", _attend)
biased_multi_head_attention, biased_multi_head_attention_backward = _pair("biased_multi_head_attention", _attend)
grouped_query_attention, grouped_query_attention_backward = _pair("grouped_query_attention", _attend)
feed_forward, feed_forward_backward = _pair("feed_forward", partial(_layer, NETWORK, _network))
gelu_feed_forward, gelu_feed_forward_backward = _pair("gelu_feed_forward", partial(_layer, NETWORK, _network))
swiglu, swiglu_backward = _pair(
    "swiglu", partial(_layer, GATED, lambda a: (layers.SwiGLU().forward, layers.SwiGLU().backward))
)
bpr, bpr_backward = _pair("bpr", _compare)
block, block_backward = _pair("block", partial(_layer, BLOCK, partial(_of_form, "pre")))
post_ln_block, post_ln_block_backward = _pair("post_ln_block", partial(_layer, BLOCK, partial(_of_form, "post")))


def forward_of(heads: int, eps: float, form: str, p: Params, x: Array, mask: Any) -> tuple[Array, Any]:
    """The forward of the block's readable form: y, cache."""
    with readable():
        return _block(heads, eps, form).forward(p, x, mask=mask)


def _block(heads: int, eps: float, form: str) -> layers.Block:
    return layers.Block(layers.MultiHead(heads), form, norm=layers.LayerNorm(eps))


def tree_of(places: dict[str, str], arrays: dict[str, Any]) -> Params:
    """A layer's tree of parameters, from those of the arrays that `places` names."""
    p: Params = {}
    for name, place in places.items():
        if name in arrays:
            *way, last = place.split(".")
            reduce(lambda tree, part: tree.setdefault(part, {}), way, p)[last] = arrays[name]
    return p


def by_argument(places: dict[str, str], grads: Params) -> dict[str, Array]:
    """The gradients of a layer's parameters, by argument."""
    flat = dict(leaves(grads))
    return {name: flat[place] for name, place in places.items() if place in flat}


def hit_rate(scores: Array, target: int, k: int) -> float:
    return float(_metrics().hit_rate(_rank(scores, target), k)[0])


def ndcg(scores: Array, target: int, k: int) -> float:
    return float(_metrics().ndcg(_rank(scores, target), k)[0])


def alibi(heads: int, n: int) -> Array:
    """Shapes: -> (heads, n, n)."""
    return ops.alibi(n, n, heads, like=np.zeros(1))


class SeveralRelevant:
    """Metrics of one user with several relevant items."""

    def recall(self, scores: Array, relevant: Array, k: int) -> float:
        """Shapes: scores (V,), relevant (V,) boolean."""
        return float(_metrics().recall(scores[None], relevant[None], k)[0])

    def ndcg(self, scores: Array, relevant: Array, k: int) -> float:
        """Shapes: scores (V,), relevant (V,) boolean."""
        return float(_metrics().ndcg_of_several(scores[None], relevant[None], k)[0])


class Schedule:
    """One of SCHEDULES after a warm-up, as a factor of the learning rate."""

    def __init__(self, name: str = "cosine") -> None:
        self.factors = lru_cache(partial(schedules.rate_factors, name))

    def schedule(self, step: int, warmup: int, steps: int) -> float:
        return schedules.rate_at(1.0, self.factors(warmup, steps), step)


class RunningStatistics(NamedTuple):
    mean: Array
    var: Array


class BatchNorm:
    """Batch normalisation as a layer, with γ = 1 and β = 0: running statistics as in Ioffe & Szegedy 2015."""

    share = 0.1  # the weight of a new batch in the running statistics

    def train(self, x: Array, state: RunningStatistics | None) -> tuple[Array, RunningStatistics]:
        """Shapes: x (N, d) -> y (N, d), state."""
        n, one = len(x), np.ones_like(x[0])
        old = RunningStatistics(0 * one, one) if state is None else state
        var = np.var(x, axis=0) * n / (n - 1)  # unbiased
        new = (a + self.share * (b - a) for a, b in zip(old, (np.mean(x, axis=0), var), strict=True))
        return ops.batch_norm(x, one, 0 * one)[0], RunningStatistics(*new)

    def evaluate(self, x: Array, state: RunningStatistics) -> Array:
        """Shapes: x (N, d) -> y (N, d)."""
        one = np.ones_like(x[0])
        return ops.batch_norm(x, one, 0 * one, mean=state.mean, var=state.var)[0]


class SASRecTokens:
    """SASRec as a causal model of tokens 0..vocabulary - 1. Its parameters are random until `fit`."""

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
        """Shapes: x (B, T) tokens -> log-probabilities (B, T, vocabulary)."""
        return self.log_probs(x)

    def fit(self, ids: Array) -> None:
        """Train on (N, T) tokens, by cross-entropy at every position."""
        from ..models import SASRec

        how: dict[str, Any] = {"loss": "ce", "epochs": 10, "lr": 0.01, "patience": 0, "workers": 1}
        model = SASRec(dim=16, maxlen=32, dropout=0.0, **how).fit(ids.tolist())
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


class SlidingAttention:
    """Causal attention through a window, with rotary positions: all at once, or token by token with a bounded cache."""

    dim = 8
    window = 4

    def __init__(self) -> None:
        self.mixer = layers.MultiHead(2, Window(window=self.window), RoPE())
        self.p = self.mixer.init(np.random.default_rng(0), self.dim)

    def forward(self, x: Array) -> Array:
        """Shapes: x (B, T, 8) -> y (B, T, 8)."""
        return self.mixer.forward(self.p, x, mask=ops.Mask(causal=True))[0]

    def step(self, x: Array, cache: Any = None) -> tuple[Array, Any]:
        """The next token of each sequence. Shapes: x (B, 8) -> y (B, 8), cache."""
        y, past = self.mixer.extend(self.p, x[:, None], None, None if cache is None else cache["past"])
        return y[:, 0], {"past": past}


def _rank(scores: Array, target: int) -> Array:
    return _metrics().ranks(np.asarray(scores)[None], np.array([target]))


def _metrics() -> Any:
    from ..evaluation import ranking  # imported late, since its package imports all of `data`

    return ranking
