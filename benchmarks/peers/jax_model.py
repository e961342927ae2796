"""SASRec in JAX: loss, gradients and Adam in one compiled function, on the whole padded batch.

The arithmetic is the library's, as in torch_models.py. Parameters, moments and the key are donated, so that each step
reuses the last one's buffers.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import ADAM
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.tree import leaves

QKV = ("query", "key", "value")


def layout(weights: Any) -> dict[str, Any]:
    """The library's tree with one matrix a block that joins query, key and value along its columns."""
    blocks = [
        {name: part for name, part in block.items() if name != "attention"}
        | {"qkv": np.concatenate([block["attention"][name]["W"] for name in QKV], axis=1)}
        for block in weights["blocks"]
    ]
    return jax.tree.map(jnp.asarray, weights | {"blocks": blocks})


def undo_layout(tree: Any) -> Any:
    """The inverse of `layout`: the library's tree of NumPy arrays."""
    blocks = [
        {name: part for name, part in block.items() if name != "qkv"}
        | {"attention": {name: {"W": W} for name, W in zip(QKV, jnp.split(block["qkv"], 3, axis=1), strict=True)}}
        for block in tree["blocks"]
    ]
    return jax.tree.map(np.asarray, tree | {"blocks": blocks})


def norm(p: Any, x: Any, eps: float) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps) * p["gamma"] + p["beta"]


def dense(p: Any, x: Any) -> Any:
    return x @ p["W"] + p["b"]


def dropout(key: Any, x: Any, rate: float) -> Any:
    if rate == 0:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def loss(network: SASRecNetwork, p: Any, batch: Batch, key: Any) -> Any:
    """Binary cross-entropy of the next item and one negative; the mean over positions without padding."""
    keys = iter(jax.random.split(key, 1 + 2 * network.blocks))
    rate, eps = network.dropout, network.eps
    x = dropout(next(keys), p["items"][batch.ids] + p["positions"][batch.slots], rate)
    for block in p["blocks"]:
        qkv = norm(block["norm_1"], x, eps) @ block["qkv"]
        q, k, v = jnp.moveaxis(qkv.reshape(*x.shape[:2], 3, network.heads, -1), 2, 0)  # each (B, L, h, d)
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
        x = x + dropout(next(keys), attended, rate)
        inner = jax.nn.relu(dense(block["feed_forward"]["inner"], norm(block["norm_2"], x, eps)))
        x = x + dropout(next(keys), dense(block["feed_forward"]["outer"], inner), rate)
    h = norm(p["norm"], x, eps)
    positive = (h * p["items"][batch.targets]).sum(-1)
    negative = (h * p["items"][batch.negatives]).sum(-1)
    each = jax.nn.softplus(-positive) + jax.nn.softplus(negative)
    return (each * batch.weight).sum() / batch.weight.sum()


def train_step(network: SASRecNetwork, state: Any, batch: Batch) -> Any:
    """One step of Adam; a state is (p, m, v, steps taken, key)."""
    p, m, v, t, key = state
    key, now = jax.random.split(key)
    g = jax.grad(partial(loss, network))(p, batch, now)
    t = t + 1
    lr, (beta1, beta2), eps = ADAM["lr"], ADAM["betas"], ADAM["eps"]
    m = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, m, g)
    v = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, v, g)
    c1, c2 = 1 - beta1**t, 1 - beta2**t
    p = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), p, m, v)
    return p, m, v, t, key


class Jax:
    """jax: jit of loss, gradients and Adam."""

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch]) -> None:
        self.loss = partial(loss, network)
        self.train_step = jax.jit(partial(train_step, network), donate_argnums=0)
        p = layout(weights)
        zeros = partial(jax.tree.map, jnp.zeros_like)
        self.state = (p, zeros(p), zeros(p), jnp.zeros((), jnp.float32), jax.random.key(0, impl="rbg"))
        self.batches = [batch.map(jnp.asarray) for batch in batches]  # ids become int32
        self.about = {"jax": jax.__version__, "devices": str(jax.devices())}

    def step(self, i: int) -> None:
        self.state = self.train_step(self.state, self.batches[i])

    def finish(self) -> None:
        jax.block_until_ready(self.state)

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        differentiate = jax.jit(jax.value_and_grad(self.loss))
        value, gradient = differentiate(self.state[0], self.batches[0], jax.random.key(0))
        return float(value), dict(leaves(undo_layout(gradient)))
